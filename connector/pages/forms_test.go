package pages_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// partly sends the beginning of a form to a server on this machine, and returns the answer. closes
// says that nothing more will come.
func partly(t *testing.T, address, path, kind string, closes bool) (status int, body string) {
	t.Helper()
	conn := must((&net.Dialer{}).DialContext(context.Background(), "tcp", address))(t).(*net.TCPConn)
	defer func() { _ = conn.Close() }()
	_, err := io.WriteString(conn,
		"POST "+path+" HTTP/1.1\r\nHost: "+address+"\r\nSec-Fetch-Site: same-origin\r\nContent-Type: "+kind+"\r\nContent-Length: 500\r\n\r\n--x\r\nname=anna&pass")
	if err == nil && closes {
		err = conn.CloseWrite()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s is not answered: %v", path, err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, string(must(io.ReadAll(resp.Body))(t))
}

func TestAFormThatDoesNotArriveIsRefusedAsOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.user("anna", "admin")
	slow := httptest.NewUnstartedServer(h.pages)
	slow.Config.ReadTimeout = 300 * time.Millisecond
	slow.Start()
	t.Cleanup(slow.Close)
	address := slow.Listener.Addr().String()
	const form = "application/x-www-form-urlencoded"
	for path, kind := range map[string]string{
		"/signin": form, "/signin/invited/x": form, "/signin/once/x": form, "/signin/oidc/callback": form, "/signout": form,
		"/runs": form, "/settings/password": form, "/mapping/" + sample: form,
		"/mandates/letters/bounced": "multipart/form-data; boundary=x",
		"/signin?multipart":         "multipart/form-data; boundary=x",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			if status, body := partly(t, address, path, kind, false); status != http.StatusRequestTimeout ||
				!strings.Contains(body, "did not arrive in time") {
				t.Errorf("a slow form is answered %d:\n%s", status, body)
			}
			if status, body := partly(t, address, path, kind, true); status != http.StatusBadRequest ||
				!strings.Contains(body, "arrived incomplete") {
				t.Errorf("a form that breaks off is answered %d:\n%s", status, body)
			}
		})
	}
	h.stranger().post("/signin", http.StatusRequestEntityTooLarge, "name", "anna", "password", strings.Repeat("x", 1<<20))
	h.knows("anna", goodPassword) // whom none of these forms has counted against
}

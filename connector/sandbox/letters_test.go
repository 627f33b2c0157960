package sandbox

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"payersync/connector/sandbox/catcher"
)

// newPost is a world with a mail server, and how to send it a letter.
func newPost(t *testing.T) (*world, func(source string, recipients ...string) error) {
	t.Helper()
	letters := catcher.New(catcher.Config{})
	w := newWorld(t, Options{PublicURL: "https://pay.test", Letters: letters})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- letters.Serve(ctx, listener) }()
	t.Cleanup(func() { stop(); must(t, <-ended) })
	return w, func(source string, recipients ...string) error {
		c, err := smtp.Dial(listener.Addr().String())
		must(t, err)
		defer c.Close()
		return c.SendMail("books@harbour.example", recipients, strings.NewReader(source))
	}
}

func letterWith(html string) string {
	return "From: books@harbour.example\r\nTo: \"<b>Ada\" <ada@payer.example>\r\nSubject: =?utf-8?q?Sign_=3Cscript=3E_please?=\r\nMessage-ID: <1@harbour.example>\r\n" +
		"Content-Type: multipart/alternative; boundary=X\r\n\r\n" +
		"--X\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nOpen https://pay.test/sign/abc </pre><script>\r\n" +
		"--X\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + html + "\r\n--X--\r\n"
}

// covers F150
func TestHTMLOfALetterCanDoNothing(t *testing.T) {
	t.Parallel()
	w, send := newPost(t)
	must(t, send(letterWith(`<!DOCTYPE html><html><script>steal()</script><form action="/sandbox/letters/clear" method="post">`), "ada@payer.example"))
	page := w.want(200, "GET", "/letters/1", "")
	for _, part := range []string{"<b>Ada", "<script>", "</pre><script>", "steal()"} {
		if strings.Contains(page.body, part) {
			t.Errorf("the page holds %q of the letter as it is", part)
		}
	}
	if !strings.Contains(page.body,
		`<iframe sandbox="allow-popups allow-popups-to-escape-sandbox" src="/letters/1/html"`) {
		t.Errorf("the frame is not sandboxed: %s", page.body)
	}
	html := w.want(200, "GET", "/letters/1/html", "")
	policy := html.header.Get("Content-Security-Policy")
	directives := map[string]string{}
	for _, d := range strings.Split(policy, "; ") {
		name, value, _ := strings.Cut(d, " ")
		directives[name] = value
	}
	want := map[string]string{
		"sandbox": "allow-popups allow-popups-to-escape-sandbox", "default-src": "'none'", "style-src": "'unsafe-inline'",
		"form-action": "'none'", "base-uri": "'none'", "frame-ancestors": "'self'",
	}
	if diff := cmp.Diff(want, directives); diff != "" {
		t.Errorf("the policy of a letter (-want +got)\n%s", diff)
	}
	if html.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got headers %v", html.header)
	}
	for _, path := range []string{"/letters", "/letters/1"} {
		if got := w.want(200, "GET", path, "").header.Get("Content-Security-Policy"); !strings.HasPrefix(got,
			"default-src 'none'; style-src 'self'; frame-ancestors 'none'") {
			t.Errorf("%s: got policy %s", path, got)
		}
	}
}

func TestLinksOfALetterOpenBesideIt(t *testing.T) {
	t.Parallel()
	for html, want := range map[string]string{
		"<p>a":                   `<base target="_blank"><p>a`,
		"":                       `<base target="_blank">`,
		"\n<!doctype html>\n<p>": `<!doctype html><base target="_blank">` + "\n<p>",
		"<!DOCTYPE html><html>":  `<!DOCTYPE html><base target="_blank"><html>`,
		"<!doctype":              `<base target="_blank"><!doctype`,
	} {
		if got := opensElsewhere(html); got != want {
			t.Errorf("%q: got %q, want %q", html, got, want)
		}
	}
}

func TestLettersAreListedSearchedAndRead(t *testing.T) {
	t.Parallel()
	w, send := newPost(t)
	if got := w.want(200, "GET", "/letters", "").body; !strings.Contains(got, "There are no letters yet") {
		t.Errorf("got %s", got)
	}
	must(t, send(letterWith("<p>Hello</p>"), "ada@payer.example"))
	must(t, send("Subject: second\r\n\r\nplain\r\n", "ben@payer.example"))
	all := w.want(200, "GET", "/letters", "").body
	for _, part := range []string{"2 came so far", "ada@payer.example", "Sign &lt;script&gt; please", "second",
		`href="/letters/2"`} {
		if !strings.Contains(all, part) {
			t.Errorf("the list lacks %q: %s", part, all)
		}
	}
	if got := w.want(200, "GET", "/letters?find=BEN", "").body; !strings.Contains(got, "second") ||
		strings.Contains(got, "ada@payer.example") {
		t.Errorf("letters to ben: %s", got)
	}
	if got := w.want(200, "GET", "/letters?find=%3Cb%3E", "").body; !strings.Contains(got, "“<bdi>&lt;b&gt;</bdi>”") {
		t.Errorf("letters to nobody: %s", got)
	}
	letter := w.want(200, "GET", "/letters/1", "").body
	for _, part := range []string{"&lt;1@harbour.example&gt;", `<a href="https://pay.test/sign/abc">`,
		"Open https://pay.test/sign/abc"} {
		if !strings.Contains(letter, part) {
			t.Errorf("the letter lacks %q: %s", part, letter)
		}
	}
	if got := w.want(200, "GET", "/letters/1/html", "").body; !strings.Contains(got, "<p>Hello</p>") {
		t.Errorf("as HTML: %s", got)
	}
	source := w.want(200, "GET", "/letters/2/source", "")
	if source.body != "Subject: second\r\n\r\nplain\r\n" ||
		source.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the source is %q, %v", source.body, source.header)
	}
	for _, path := range []string{"/letters/3", "/letters/0", "/letters/x", "/letters/3/html", "/letters/-1/source"} {
		w.want(404, "GET", path, "")
	}
	if got := w.want(200, "GET", "/", "").body; !strings.Contains(got, `<a href="/letters">Letters</a>: 2 came so far`) {
		t.Errorf("the operator's page does not lead to the letters: %s", got)
	}
	var listed []catcher.Letter
	must(t, json.Unmarshal([]byte(w.want(200, "GET", "/sandbox/letters?to=ada", "").body), &listed))
	if len(listed) != 1 || listed[0].Subject != "Sign <script> please" || listed[0].HTML != "<p>Hello</p>" ||
		listed[0].Recipients[0] != "ada@payer.example" {
		t.Errorf("got %+v", listed)
	}
	if got := w.form("/sandbox/letters/clear", browser(), nil); got.status != 303 ||
		got.header.Get("Location") != "/letters" {
		t.Errorf("got %d to %s", got.status, got.header.Get("Location"))
	}
	if got := w.want(200, "GET", "/sandbox/letters", "").body; got != "[]\n" {
		t.Errorf("after forgetting all: %s", got)
	}
}

func TestListOfLettersEndsSomewhere(t *testing.T) {
	t.Parallel()
	w, send := newPost(t)
	for range shownLetters + 1 {
		must(t, send("Subject: x\r\n\r\n", "ada@payer.example"))
	}
	got := w.want(200, "GET", "/letters", "").body
	if strings.Contains(got, `"/letters/1"`) || !strings.Contains(got, `"/letters/2"`) ||
		!strings.Contains(got, "The newest 200 of 201 are shown") {
		t.Error("the oldest of 201 letters is listed, or the newest 200 are not")
	}
}

func TestOtherSitesCannotForgetLetters(t *testing.T) {
	t.Parallel()
	w, send := newPost(t)
	must(t, send("Subject: x\r\n\r\n", "ada@payer.example"))
	header := browser()
	header.Set("Sec-Fetch-Site", "cross-site")
	if got := w.form("/sandbox/letters/clear", header, nil); got.status != 403 {
		t.Errorf("a post from another site: got %d", got.status)
	}
	if got := w.want(200, "GET", "/sandbox/letters", "").body; got == "[]\n" {
		t.Error("the letter is gone")
	}
	if got := w.form("/sandbox/letters/clear", http.Header{}, nil); got.status != 204 {
		t.Errorf("a program gets %d", got.status)
	}
}

func TestWithoutAMailServerThereAreNoLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, path := range []string{"/letters", "/letters/1", "/sandbox/letters"} {
		w.want(404, "GET", path, "")
	}
	if got := w.want(200, "GET", "/", "").body; strings.Contains(got, "Letters") {
		t.Errorf("the operator's page speaks of letters: %s", got)
	}
}

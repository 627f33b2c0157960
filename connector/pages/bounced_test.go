package pages_test

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"payersync/connector/pages"
	"payersync/state"
)

// uploaded returns a form with a text and files, each a name and what it holds, and its type.
func uploaded(t testing.TB, text string, files ...string) (body *bytes.Buffer, kind string) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	err := w.WriteField("text", text)
	for i := 0; err == nil && i+1 < len(files); i += 2 {
		var part io.Writer
		if part, err = w.CreateFormFile("report", files[i]); err == nil {
			_, err = part.Write([]byte(files[i+1]))
		}
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return body, w.FormDataContentType()
}

// upload sends letters that came back as the page's form does.
func (v *visitor) upload(want int, text string, files ...string) string {
	v.t.Helper()
	body, kind := uploaded(v.t, text, files...)
	r := must(http.NewRequestWithContext(context.Background(), http.MethodPost, v.base+"/mandates/letters/bounced",
		body))(v.t)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp := must(v.http.Do(r))(v.t)
	defer func() { _ = resp.Body.Close() }()
	page := string(must(io.ReadAll(resp.Body))(v.t))
	if resp.StatusCode != want {
		v.t.Fatalf("the upload was answered %d, want %d:\n%s", resp.StatusCode, want, page)
	}
	return page
}

// came returns what a mail server says of the letter to a payer that was sent first.
func (h *house) came(status, id string) string {
	h.t.Helper()
	sent := must(h.ledger.LettersOf(context.Background(), state.RecordID{Connection: sample, SourceID: id}))(h.t)
	return "From: mailer\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n" +
		"Final-Recipient: rfc822; who@where.example\r\nAction: failed\r\nStatus: " + status +
		"\r\n\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <" + sent[0].MessageID +
		"@harbour.io>\r\n\r\n--b--\r\n"
}

// posted is an installation that has sent letters to so many bakeries.
func posted(t testing.TB, n int) (*house, *visitor) {
	t.Helper()
	h, _ := newPost(t)
	h.asks(bakeries(n))
	olaf := h.enter("olaf", pages.Operator)
	olaf.post("/mandates/letters", http.StatusOK, "shown", hashIn(t, olaf.get("/mandates/letters", http.StatusOK)))
	if res := h.deliver(); res.Sent != n {
		t.Fatalf("%+v", res)
	}
	return h, olaf
}

// A report that comes twice, as servers send them, stops its address once, and the page says who.
//
// covers F134
func TestALetterThatCameBackIsNotedOnThePageAndListed(t *testing.T) {
	t.Parallel()
	h, olaf := posted(t, 3)
	holds(t, olaf.get("/mandates/letters", http.StatusOK), "No letter to a payer with an unsigned mandate has come back.",
		"Enter letters that came back…")
	said := "Nothing more is sent to the address, which 1 payer is written to at; the list of letters that came back tells who."
	for range 2 {
		page := olaf.upload(http.StatusOK, "", "report.eml", h.came("5.1.1", "HB002"))
		holds(t, page, said, "1 payer whose address takes no mail", "Bakery 2 Limited", "accounts@<wbr>bakery2.io",
			"<bdi>olaf</bdi>: <bdi>5.1.1</bdi>", "Correct the address in the accounting system")
		lacks(t, page, "Bakery 1 Limited", "Bakery 3 Limited")
	}
	if stops := must(h.ledger.LetterStops(context.Background()))(t); len(stops) != 1 ||
		stops[0].Recipient != h.ledger.RecipientHash("accounts@bakery2.io") {
		t.Errorf("stopped are %+v", stops)
	}
	if log := h.logged(50); strings.Count(log, "olaf note a letter that came back") != 2 ||
		strings.Contains(log, "bakery2.io") {
		t.Errorf("the audit log says %q", log)
	}
	holds(t, olaf.upload(http.StatusOK, h.came("5.2.2", "HB001")),
		"The letter did not arrive for now; that is noted, and the next one goes out.")
	viewer := h.enter("vera", pages.Viewer)
	lacks(t, viewer.get("/mandates/letters", http.StatusOK), "Bakery", "bakery", "Enter letters that came back")
	holds(t, viewer.upload(http.StatusForbidden, "accounts@bakery1.io"), "You may not do this")
	if stops := must(h.ledger.LetterStops(context.Background()))(t); len(stops) != 1 {
		t.Errorf("a viewer stopped %+v", stops)
	}
}

// Who learns that an address works after all says so where the page lists it, with a reason; to
// it, and to all who are written to at it, the next letter goes out again.
//
// covers F134
func TestAnAddressThatWorksAfterAllIsWrittenToAgain(t *testing.T) {
	t.Parallel()
	h, olaf := posted(t, 2)
	viewer := h.enter("vera", pages.Viewer)
	olaf.upload(http.StatusOK, "accounts@bakery1.io")
	holds(t, olaf.get("/mandates/letters", http.StatusOK), `action="/mandates/letters/revive"`, `value="quickstart/HB001"`,
		"The address works…")
	revive := func(v *visitor, want int, id, why string) string {
		return v.post("/mandates/letters/revive", want, "payer", sample+"/"+id, "reason", why)
	}
	viewerSees := revive(viewer, http.StatusForbidden, "HB001", "they wrote to me")
	holds(t, viewerSees, "You may not do this")
	holds(t, revive(olaf, http.StatusUnprocessableEntity, "HB001", " "), "A reason is missing")
	holds(t, revive(olaf, http.StatusOK, "HB002", "a wrong row"), "Nothing was changed.")
	for _, id := range []string{"HB999", "", "../HB001"} {
		holds(t, revive(olaf, http.StatusConflict, id, "who is this"), "payersync has no e-mail address of this payer.")
	}
	if stops := must(h.ledger.LetterStops(context.Background()))(t); len(stops) != 1 {
		t.Fatalf("stopped are %+v", stops)
	}
	holds(t, revive(olaf, http.StatusOK, "HB001", "they repaired it"),
		"The next letter goes to this address when it is due.")
	if stops := must(h.ledger.LetterStops(context.Background()))(t); len(stops) != 0 {
		t.Errorf("stopped are %+v", stops)
	}
	holds(t, olaf.get("/mandates/letters", http.StatusOK), "No letter to a payer with an unsigned mandate has come back.")
	if log := h.logged(50); !strings.Contains(log, "olaf note an address that works again") ||
		strings.Contains(log, "bakery1.io") {
		t.Errorf("the audit log says %q", log)
	}
	holds(t, revive(olaf, http.StatusOK, "HB001", "twice"), "Nothing was changed.") // somebody else was faster
}

// What is typed is taken a line at a time: what is understood is noted, and all else stays there.
//
// covers F134
func TestAddressesThatTakeNoMailAreNotedByLine(t *testing.T) {
	t.Parallel()
	h, olaf := posted(t, 2)
	h.books(bakeries(1)) // a payer of other books has the address, too
	h.conn.Name = "other"
	h.run(false)
	h.do(func(tx *state.Tx) error {
		return tx.NoteLetterAddress(state.RecordID{Connection: "other", SourceID: "HB001"},
			h.ledger.RecipientHash("accounts@bakery1.io"))
	})
	hostile := "<script>alert(1)</script>\r\n\u202eevil\r\n=1+1 {{.}}\r\n" + strings.Repeat("Ö", 255)
	page := olaf.upload(http.StatusUnprocessableEntity, "Accounts@bakery1.io\r\n"+hostile+"\r\nnobody@nowhere.io",
		"<b>.txt", "accounts@bakery2.io\nmoo\n")
	holds(t, page, "Not all was understood.",
		"line 1, <bdi>Accounts@bakery1.io</bdi>: Nothing more is sent to the address, which 2 payers are written to at",
		"line 2, <bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>: <strong>not understood:</strong> it is no e-mail address",
		"line 3, <bdi>\ufffdevil</bdi>", "line 5, <bdi>"+strings.Repeat("Ö", 120)+"…</bdi>",
		"line 6, <bdi>nobody@nowhere.io</bdi>: Nothing more is sent to the address. No payer is written to at it",
		"<bdi>&lt;b&gt;.txt</bdi>: line 2, <bdi>moo</bdi>", "2 payers whose address takes no mail",
		"&lt;script&gt;alert(1)&lt;/script&gt;\n\u202eevil\n=1&#43;1 {{.}}\n"+strings.Repeat("Ö", 255)+"</textarea>")
	lacks(t, page, "<script>alert", "<b>.txt")
	if stops := must(h.ledger.LetterStops(context.Background()))(t); len(stops) != 3 {
		t.Errorf("stopped are %+v", stops)
	}
	page = olaf.upload(http.StatusOK, "accounts@bakery1.io\r\naccounts@bakery2.io")
	holds(t, page, "All was understood.")
	lacks(t, page, "not understood:", "Problem:")
	for _, nothing := range []string{"", " \r\n "} {
		holds(t, olaf.upload(http.StatusUnprocessableEntity, nothing), "Nothing was saved")
	}
	holds(t, olaf.upload(http.StatusUnprocessableEntity, strings.Repeat("a@b.io\r\n", 501)),
		"There are more than 500 lines.")
}

// A form above the limit is refused as a whole, whatever length it declares.
func TestReportsLargerThanAMegabyteAreRefused(t *testing.T) {
	t.Parallel()
	h, _ := newPost(t)
	cookie := cookieOf(t, h.ledger, h.pages, pages.Operator, nil)
	for _, length := range []bool{true, false} {
		body, kind := uploaded(t, "accounts@bakery1.io", "big.eml", strings.Repeat("x", 10<<20))
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mandates/letters/bounced", body)
		r.Host = "127.0.0.1:8070"
		if !length {
			r.ContentLength = -1
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		h.pages.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "larger than a megabyte") {
			t.Errorf("it was answered %d:\n%s", w.Code, w.Body)
		}
	}
	if stops := must(h.ledger.LetterStops(context.Background()))(t); len(stops) != 0 {
		t.Errorf("of a form that was refused was noted %+v", stops)
	}
}

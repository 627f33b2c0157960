package pages_test

import (
	"context"
	"fmt"
	"net/http"
	netmail "net/mail"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/connector/letters/templates"
	"payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/pages"
	"payersync/state"
)

// monday is a morning on which letters leave.
var monday = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// newPost returns an installation with letters, on a Monday morning, and the mailbox that receives them.
func newPost(t testing.TB) (*house, *mailtest.Box) {
	t.Helper()
	return newPostIn(t, t.TempDir())
}

// newPostIn returns one whose ledger lies in a folder.
func newPostIn(t testing.TB, folder string) (*house, *mailtest.Box) {
	t.Helper()
	box := mailtest.New(t, mail.NoTLS)
	server := box.Server(mail.NoTLS)
	window := must(letters.ParseWindow("Mon-Fri 08:30-17:00"))(t)
	legal := "Harbour Bakery Ltd, 1 Quay Street, Whitby"
	set := must(templates.Load(templates.Config{From: netmail.Address{Name: "Harbour Bakery",
		Address: "accounts@harbour.io"}, ReplyTo: "accounts@harbour.io", Legal: legal, LinkHosts: []string{"localhost"},
		Languages: []string{"en", "de"}}))(t)
	h := newHouseOf(t, folder, func() time.Time { return monday }, func(h *house) *admin.Letters {
		path, _ := h.ledger.Path()
		return &admin.Letters{Example: func(kind letters.Kind, language string) (admin.ExampleLetter, error) {
			l, err := set.Render(kind, language, templates.Examples(kind, "localhost"))
			return admin.ExampleLetter(l), err
		}, Desk: &letters.Desk{Ledger: h.ledger, Reader: h.reader, Settings: letters.Settings{
			Sender: letters.SenderPayersync, From: "Harbour Bakery <accounts@harbour.io>", Address: "accounts@harbour.io",
			ReplyTo: "accounts@harbour.io", Legal: legal,
			LinkHosts: []string{"localhost"}, Languages: []string{"en", "de"}, Steps: []int{0, 3, 7, 14, 30}, Window: window,
			PerMinute: 600, PerDay: 500,
			Own: []string{"harbour.io"}, Journal: path + ".letters", Templates: set, Post: &server,
		}, Wait: func(context.Context, time.Duration) error { return nil }}}
	})
	return h, box
}

// bakeries are books of so many customers, of whom every fourth reads German.
func bakeries(n int, more ...string) []byte {
	out := "AccountNumber,Name,Contact,Email,Phone,Address,City,Postcode,Second Address,Second City,Second Postcode,Status,Language\n"
	for i := 1; i <= n; i++ {
		language := "en"
		if i%4 == 0 {
			language = "de"
		}
		out += fmt.Sprintf("HB%03d,Bakery %d Limited,Ada Crumb,accounts@bakery%d.io,,%d High Street,Leeds,LS1 1AA,,,,Active,%s\n", i, i, i, i, language)
	}
	return []byte(out + strings.Join(more, ""))
}

// asks makes these the books, sends what they say, and reads the service.
func (h *house) asks(books []byte) {
	h.t.Helper()
	h.books(books)
	h.run(true)
	h.run(true) // what was made is confirmed by the next
	h.sweep()
}

// deliver sends what may leave, as payersync serve does.
func (h *house) deliver() letters.Counts {
	h.t.Helper()
	defer h.letters.Renew()
	return must(h.letters.Desk.Run(context.Background()))(h.t)
}

// unclear has the letters that wait approved and sent, and no answer of the mail server is heard.
func (h *house) unclear(box *mailtest.Box) {
	h.t.Helper()
	eve := h.enter("eve", pages.Operator)
	eve.post("/mandates/letters", http.StatusOK, "shown", hashIn(h.t, eve.get("/mandates/letters", http.StatusOK)))
	box.Fail(mailtest.AtAnswer, mailtest.ErrCut)
	if res := h.deliver(); res.Unclear != 2 {
		h.t.Fatalf("%+v", res)
	}
	box.Fail(mailtest.AtAnswer, nil)
}

// hashIn is the hash that a page's form approves by.
func hashIn(t testing.TB, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="shown" value="([0-9a-f]+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has nothing to approve:\n%s", page)
	}
	return found[1]
}

func TestLettersThatAreOffSayWhatToSet(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	for _, role := range pages.Roles {
		v := h.enter("anna the "+string(role), role)
		page := v.get("/mandates/letters", http.StatusOK)
		holds(t, page, "Letters are off.", "letters.sender: nobody", "letters.sender: payersync", "letters.smtp")
		lacks(t, page, "Approve", "Pause letters")
		if role.May(pages.Operator) {
			for _, act := range []string{"", "/alone", "/pause", "/resume", "/continue", "/word"} {
				holds(t, v.post("/mandates/letters"+act, http.StatusConflict, "reason", "x"), "Letters are off",
					"nothing was changed")
			}
		}
	}
	h, _ = newPost(t)
	h.letters.Desk.Settings.Sender = letters.SenderService
	holds(t, h.enter("anna", pages.Operator).get("/mandates/letters", http.StatusOK),
		"The billing service itself sends letters to payers", "letters.sender: service")
}

// Waiting letters are read in full, approved as shown, and sent; a viewer sees their number.
func TestLettersAreReadApprovedAndSent(t *testing.T) {
	t.Parallel()
	h, box := newPost(t)
	viewer, anna := h.enter("vera", pages.Viewer), h.enter("anna", pages.Operator)
	holds(t, anna.get("/mandates/letters", http.StatusOK), "No letter waits for approval", "No letter is due now")
	h.asks(bakeries(55))
	holds(t, anna.get("/mandates", http.StatusOK), `href="/mandates/letters"`)

	page := anna.get("/mandates/letters", http.StatusOK)
	holds(t, page, "55 letters wait for approval.", "They are the first with these templates", "Approve these 55 letters",
		"Bakery 1 Limited", "accounts@<wbr>bakery25.io",
		"To: &lt;accounts@bakery1.io&gt;", "Ada Crumb", "http://localhost/...", "Next page", "25 of 55",
		"letters.sender: payersync")
	lacks(t, page, "/sign/", "Bakery 26 Limited")
	if n := strings.Count(page, `class="letter"`); n != 3 {
		t.Errorf("%d letters are shown in full, want 3", n)
	}
	counts := regexp.MustCompile(`data-label="Language">(..)</td><td class="n" data-label="Leave now">(\d+)</td><td class="n" data-label="Wait">(\d+)<`).FindAllStringSubmatch(page, -1)
	if got := fmt.Sprint(counts); !strings.Contains(got, " de 0 13]") || !strings.Contains(got, " en 0 42]") {
		t.Errorf("by language there are %s", got)
	}
	rest := anna.get("/mandates/letters?after=quickstart%2FHB030", http.StatusOK)
	holds(t, rest, "Bakery 31 Limited", "Bakery 55 Limited", "First page")
	lacks(t, rest, "accounts@<wbr>bakery25.io")

	seen := viewer.get("/mandates/letters", http.StatusOK)
	holds(t, seen, "55 letters wait for approval", "Wait for a person")
	lacks(t, seen, "Bakery", "bakery", "Approve", "Pause letters", "class=\"letter\"")
	hash := hashIn(t, page)
	viewer.post("/mandates/letters", http.StatusForbidden, "shown", hash)

	if res := h.deliver(); res.Sent != 0 || len(box.Received()) != 0 {
		t.Fatalf("%d letters left, and nobody approved them", res.Sent)
	}
	holds(t, anna.post("/mandates/letters", http.StatusOK, "shown", hash), "55 letters approved. Nothing was sent yet",
		"55 letters leave by themselves")
	if log := h.logged(1); log != "anna approve letters 55 letters, batch "+hash+": " {
		t.Errorf("the audit log says %q", log)
	}
	if n := len(box.Received()); n != 0 {
		t.Fatalf("the page sent %d letters", n)
	}
	if res := h.deliver(); res.Sent != 55 {
		t.Fatalf("%+v", res)
	}
	holds(t, viewer.get("/mandates/letters", http.StatusOK), "55 left today", "No letter is due now")
	h.settled(viewer, "/mandates", "Sent, not signed")
}

// Exactly what was shown is approved: when a letter comes or goes meanwhile, none is.
func TestLettersThatChangedAreNotApproved(t *testing.T) {
	t.Parallel()
	h, box := newPost(t)
	h.asks(bakeries(3))
	anna := h.enter("anna", pages.Operator)
	before := hashIn(t, anna.get("/mandates/letters", http.StatusOK))
	h.asks(bakeries(4))
	for _, c := range h.box.Customers() {
		if c.Name == "Bakery 1 Limited" {
			if err := h.box.Sign(c.Mandates[0].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.sweep()
	page := anna.post("/mandates/letters", http.StatusConflict, "shown", before)
	holds(t, page, "The letters changed while you were reading them.", "Nothing was approved.",
		"1 letter is new, and 1 letter of those you read waits no more", "New since you looked: 1", "Bakery 4 Limited",
		"</span> New</span>", "Approve these 3 letters")
	lacks(t, page, "Bakery 1 Limited")
	if res := h.deliver(); res.Sent != 0 || len(box.Received()) != 0 {
		t.Errorf("%d letters left, and none was approved", res.Sent)
	}
	page = anna.post("/mandates/letters", http.StatusConflict, "shown", "0123456789abcdef")
	holds(t, page, "Here is what waits now.")
	if log := h.logged(50); strings.Contains(log, "approve letters") {
		t.Errorf("the audit log says %q", log)
	}
	anna.post("/mandates/letters", http.StatusOK, "shown", hashIn(t, page))
}

// If two people approve the same letters at once, one succeeds and the other is told so.
func TestTwoPeopleApproveTheSameLettersOnce(t *testing.T) {
	t.Parallel()
	h, box := newPost(t)
	h.asks(bakeries(4))
	people := []*visitor{h.enter("anna", pages.Operator), h.enter("olaf", pages.Operator)}
	hash := hashIn(t, people[0].get("/mandates/letters", http.StatusOK))
	statuses, bodies := make([]int, len(people)), make([]string, len(people))
	var both sync.WaitGroup
	for i, v := range people {
		both.Go(func() {
			statuses[i], bodies[i] = v.send(http.MethodPost, "/mandates/letters", map[string][]string{"shown": {hash}})
		})
	}
	both.Wait()
	slices.Sort(statuses)
	if !slices.Equal(statuses, []int{http.StatusOK, http.StatusConflict}) {
		t.Fatalf("they were answered %v:\n%s", statuses, strings.Join(bodies, "\n"))
	}
	holds(t, strings.Join(bodies, ""), "4 letters approved.", "These letters wait no more.", "Nothing was approved.")
	if n := strings.Count(h.logged(50), "approve letters"); n != 1 {
		t.Errorf("the audit log has %d approvals, want 1", n)
	}
	h.deliver()
	if n := len(box.Received()); n != 4 {
		t.Errorf("%d letters came, want 4", n)
	}
}

func TestLettersArePausedAndGoOn(t *testing.T) {
	t.Parallel()
	h, box := newPost(t)
	h.asks(bakeries(2))
	anna := h.enter("anna", pages.Operator)
	anna.post("/mandates/letters", http.StatusOK, "shown", hashIn(t, anna.get("/mandates/letters", http.StatusOK)))
	for _, bad := range [][]string{{"until", "yesterday"}, {"until", "2026-11-23"}, {"connection", "nowhere"}} {
		anna.post("/mandates/letters/pause", http.StatusUnprocessableEntity, bad...)
	}
	page := anna.post("/mandates/letters/pause", http.StatusOK, "until", "2026-12-01", "reason", "<b>price change</b>")
	holds(t, page, "All letters are paused until 2026-12-01.", "are paused</strong> by <bdi>anna</bdi>",
		"&lt;b&gt;price change&lt;/b&gt;", "Resume letters")
	if log := h.logged(1); log != "anna pause letters all: <b>price change</b>" {
		t.Errorf("the audit log says %q", log)
	}
	if h.deliver(); len(box.Received()) != 0 {
		t.Error("a letter left while letters were paused")
	}
	holds(t, anna.post("/mandates/letters/resume", http.StatusOK), "All letters are sent again.")
	if log := h.logged(1); log != "anna resume letters all: " {
		t.Errorf("the audit log says %q", log)
	}
	holds(t, anna.post("/mandates/letters/resume", http.StatusOK), "All letters were not paused.")
	if h.deliver(); len(box.Received()) != 2 {
		t.Errorf("%d letters came, want 2", len(box.Received()))
	}
	if err := os.Remove(h.letters.Desk.Settings.Journal); err != nil {
		t.Fatal(err)
	}
	h.letters.Renew()
	holds(t, anna.get("/mandates/letters", http.StatusOK), "Nothing leaves", "The journal of letters is not there",
		"Go on with letters")
	anna.post("/mandates/letters/continue", http.StatusUnprocessableEntity)
	holds(t, anna.post("/mandates/letters/continue", http.StatusOK, "reason", "the disk failed"),
		"Letters continue, and the next ones wait for your approval.")
	if log := h.logged(1); log != "anna continue letters all: the disk failed" {
		t.Errorf("the audit log says %q", log)
	}
}

// A letter of which nobody knows whether it arrived is decided by a person, once.
func TestAnUnclearLetterIsDecidedOnThePage(t *testing.T) {
	t.Parallel()
	h, box := newPost(t)
	h.asks(bakeries(2))
	viewer, anna := h.enter("vera", pages.Viewer), h.enter("anna", pages.Operator)
	h.unclear(box)
	page := anna.get("/mandates/letters", http.StatusOK)
	holds(t, page, "Delivery unknown", "It arrived", "Send once more…", "The payer may get it twice.")
	lacks(t, viewer.get("/mandates/letters", http.StatusOK), "It arrived", "Bakery")
	var ids []string
	for _, m := range regexp.MustCompile(`name="letter" value="(\d+)"><button`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	if len(ids) != 2 {
		t.Fatalf("%q are to be decided about", ids)
	}
	viewer.post("/mandates/letters/word", http.StatusForbidden, "letter", ids[0], "word", "arrived")
	anna.post("/mandates/letters/word", http.StatusUnprocessableEntity, "letter", ids[0], "word", "burn")
	holds(t, anna.post("/mandates/letters/word", http.StatusOK, "letter", ids[0], "word", state.WordArrived),
		"Noted: the letter arrived.")
	if log := h.logged(1); log != "anna letter arrived "+ids[0]+": " {
		t.Errorf("the audit log says %q", log)
	}
	anna.post("/mandates/letters/word", http.StatusConflict, "letter", ids[0], "word", state.WordArrived)
	holds(t, anna.post("/mandates/letters/word", http.StatusOK, "letter", ids[1], "word", state.WordAgain),
		"sends the letter again when it is due")
	lacks(t, anna.get("/mandates/letters", http.StatusOK), "It arrived<")
	if res := h.deliver(); res.Sent != 1 {
		t.Errorf("%+v: the one letter was to be sent once more", res)
	}
}

// A letter that could be to the wrong person is read and let go by itself.
func TestALetterThatWaitsByItselfIsApprovedByItself(t *testing.T) {
	t.Parallel()
	h, box := newPost(t)
	h.asks(bakeries(1, "HB900,Our Own Canteen,,canteen@harbour.io,,,,,,,,Active,en\n"))
	anna := h.enter("anna", pages.Operator)
	page := anna.get("/mandates/letters", http.StatusOK)
	holds(t, page, "1 letter waits by itself", "Our Own Canteen", "The address is one of ours.", "Approve this letter")
	hash := regexp.MustCompile(`value="quickstart/HB900"><input type="hidden" name="shown" value="([0-9a-f]+)"`).FindStringSubmatch(page)[1]
	anna.post("/mandates/letters/alone", http.StatusConflict, "payer", "quickstart/HB900", "shown", "0123456789abcdef")
	anna.post("/mandates/letters/alone", http.StatusConflict, "payer", "nowhere/HB900", "shown", hash)
	holds(t, anna.post("/mandates/letters/alone", http.StatusOK, "payer", "quickstart/HB900", "shown", hash, "reason",
		"it is theirs"), "1 letter approved.")
	if log := h.logged(1); log != "anna approve letters to HB900: it is theirs" {
		t.Errorf("the audit log says %q", log)
	}
	h.deliver()
	if got := box.Received(); len(got) != 1 || !slices.Equal(got[0].To, []string{"canteen@harbour.io"}) {
		t.Errorf("came: %+v", got)
	}
}

// Names in letters and in the list of who gets them are texts, however they are written.
func TestHostileNamesInLettersAreTexts(t *testing.T) {
	t.Parallel()
	h, _ := newPost(t)
	h.asks(bakeries(0,
		"HB001,<script>alert(1)</script>,<b>Ada</b>,a@one.io,,,,,,,,Active,en\n",
		"HB002,\u202eevil,\u202eevil,b@two.io,,,,,,,,Active,en\n",
		"HB003,"+strings.Repeat("Ö", 255)+",=1+1,c@three.io,,,,,,,,Active,en\n",
		"HB004,=1+1 {{.}},,d@four.io,,,,,,,,Active,de\n"))
	page := h.enter("anna", pages.Operator).get("/mandates/letters", http.StatusOK)
	holds(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;", "<bdi>\ufffdevil</bdi>", strings.Repeat("Ö", 200),
		"=1&#43;1 {{.}}", `class="letter"`)
	lacks(t, page, "<script>alert", "<b>Ada")
}

func TestAReasonForLettersIsNoLongerThanAnyOther(t *testing.T) {
	t.Parallel()
	h, _ := newPost(t)
	v := h.enter("olaf", pages.Operator)
	holds(t, v.post("/mandates/letters/pause", http.StatusUnprocessableEntity, "reason",
		strings.Repeat("x", admin.LongestReason+1)), "The reason is too long")
}

// When the next letter comes is what the desk decides, on the payer's page and in the work list.
func TestTheNextLetterIsToldOnThePayersPageAndInTheWorkList(t *testing.T) {
	t.Parallel()
	h, olaf := posted(t, 2)
	list := func(text string) { h.settled(olaf, "/mandates", text) }
	payer := func(id string) string { return olaf.get("/payers/"+sample+"/"+id, http.StatusOK) }
	list("Reminder on 26 Nov 2026.")
	holds(t, payer("HB001"), "The signing link was sent 1 time", "<strong>Next letter:</strong> Reminder on 26 Nov 2026.")
	olaf.post("/mandates/letters/pause", http.StatusOK, "until", "2026-12-01")
	list("Paused until 1 Dec 2026.")
	holds(t, payer("HB001"), "<strong>Next letter:</strong> Paused until 1 Dec 2026.")
	olaf.post("/mandates/letters/resume", http.StatusOK)
	h.asks(bakeries(2, "HB900,Our Own Canteen,,canteen@harbour.io,,,,,,,,Active,en\n"))
	list("Invitation: waits for a decision, because the address is one of ours.")
	holds(t, payer("HB900"), "was not sent yet", "Invitation: waits for a decision, because the address is one of ours.")
	olaf.upload(http.StatusOK, "accounts@bakery2.io")
	list("Correct it in the accounting system.")
	holds(t, payer("HB002"), "Reminders are stopped: the address accepts no mail.")
	for _, c := range h.box.Customers() {
		if c.Name == "Bakery 1 Limited" {
			if err := h.box.Sign(c.Mandates[0].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.sweep()
	lacks(t, payer("HB001"), "Next letter")
}

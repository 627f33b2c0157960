package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/webhook"
	"payersync/connector/writeback"
	"payersync/internal/browsertest"
	"payersync/internal/longtest"
	"payersync/state"
)

// press is a button on the page of a finding, or of a payer.
type press struct {
	reason connector.Reason // "" for a button below the findings
	act    connector.Act
}

// deed is a case of a person in a browser: something happens, and the person presses some buttons.
type deed struct {
	happens func(*stage) string // returns the id of the record, or of the delivery
	of      connector.Reason    // of the page; "" for the page of the payer
	presses []press
}

// takenBack are the acts that are taken back in the browser, with a finding of each.
var takenBack = map[connector.Act]connector.Reason{
	connector.ActMerge: connector.ReasonEnteredTwice, connector.ActUnlink: connector.ReasonKeyChanged,
	connector.ActReject: connector.ReasonUnlinked, connector.ActGiveUp: connector.ReasonEmailMalformed,
}

// deedsOfAll returns cases with a button for every act.
func deedsOfAll() (out []deed) {
	seen := map[connector.Act]bool{}
	for _, reason := range slices.Sorted(maps.Keys(connector.Reasons)) {
		for _, way := range reason.Ways() {
			if only := takenBack[way.Act]; seen[way.Act] || only != "" && only != reason {
				continue
			}
			seen[way.Act] = true
			d := deed{func(s *stage) string {
				id := situations[reason](s)
				if before := beforehand[way.Act]; before != nil {
					before(s)
				}
				return id
			}, reason, []press{{reason, way.Act}}}
			if takenBack[way.Act] == reason {
				d.presses = append(d.presses, press{"", admin.Acts[way.Act].Undo})
			}
			out = append(out, d)
		}
	}
	return append(out,
		deed{situations[connector.ReasonEmailMalformed], "",
			[]press{{"", connector.ActAsk}, {"", connector.ActAskNot}, {"", connector.ActAskByRule}}},
		deed{func(s *stage) string {
			s.edit("payersync.yaml", "  profile: sandbox\n", "  profile: sandbox\n  dialect: {reinstate: colon}\n")
			s.reads(matterRow, otherRow)
			changed := matterRow
			changed.Street = "2 Row"
			return s.reads(changed, otherRow)
		}, "", []press{{"", connector.ActUndo}, {"", connector.ActStopLetters}, {"", connector.ActAllowLetters},
			{"", connector.ActCancel}, {"", connector.ActReinstate}}},
		deed{fieldChanged, "", []press{{"", connector.ActTakeField}}})
}

// fieldChanged notes that somebody changed the field that payersync writes for a payer.
func fieldChanged(s *stage) string {
	const url = "https://books.example.org/dd"
	s.edit("payersync.yaml", "mapping: mapping.yaml}",
		"mapping: mapping.yaml, writeback: {webhook: {url: \""+url+"\", secret: file:webhook.secret}}}")
	id := s.reads(matterRow, otherRow)
	l, err := state.Open(s.t.Context(), state.Options{Path: s.path("payersync.db"), KeyFile: s.path("payersync.key")})
	s.must(err)
	field := writeback.Target{Writer: &writeback.Webhook{Receiver: webhook.Receiver{URL: url}}}
	s.must(l.Do(s.t.Context(), func(tx *state.Tx) error {
		return tx.FieldIsTheirs(state.RecordID{Connection: "acme", SourceID: id}, field.SetupHash(), state.WritebackField{}, "")
	}))
	s.must(l.Close())
	return id
}

// A person presses the button of every act in a real browser, and finds the effect on the page before the last press.
func TestEveryActIsPerformedInABrowser(t *testing.T) {
	longtest.Story(t, longtest.Browser)
	t.Parallel()
	browser, end, err := browsertest.Start()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v, and CI needs it", err)
		}
		t.Skipf("%v", err)
	}
	t.Cleanup(end)
	var mu sync.Mutex
	pressed, played, all := map[connector.Act]bool{}, 0, deedsOfAll()
	t.Run("acts", func(t *testing.T) {
		for _, d := range all {
			t.Run(fmt.Sprintf("%s/%s", d.of, d.presses[0].act), func(t *testing.T) {
				t.Parallel()
				done := d.inBrowser(t, browser)
				mu.Lock()
				defer mu.Unlock()
				played++
				for _, act := range done {
					pressed[act] = true
				}
			})
		}
	})
	if played < len(all) { // only some were performed, or one of them failed
		return
	}
	for act := range admin.Acts {
		if !pressed[act] {
			t.Errorf("nobody pressed the button of %s", act)
		}
	}
}

// inBrowser plays a case, and returns the performed acts.
func (d deed) inBrowser(t *testing.T, browser context.Context) (done []connector.Act) {
	s := newStage(t)
	id := d.happens(s)
	s.another = s.added(`{"name":"Somebody Else Again","people":[{"name":"Else","email":"else@example.org"}]}`)
	if d.presses[0].act == connector.ActLink {
		s.sync() // so that the customer is known
	}
	s.onPages(func(sign func(pages.Role) *reader) {
		c := s.clicker(browser, sign)
		for _, p := range d.presses {
			c.perform(pageOf(id, d.of), p, s.another)
			done = append(done, p.act)
		}
	})
	for _, act := range done {
		if why := whyOf(act); admin.Acts[act].Asks(admin.InputReason) && !s.audited(why) {
			t.Errorf("the audit log does not say %q", why)
		}
	}
	return done
}

// whyOf is the reason that the person gives.
func whyOf(act connector.Act) string { return "pressed the button of " + string(act) }

// clicker is a person with a mouse in a browser.
type clicker struct {
	t    testing.TB
	ctx  context.Context
	base string
}

// clicker signs an admin in, in a window of its own.
func (s *stage) clicker(browser context.Context, sign func(pages.Role) *reader) *clicker {
	s.t.Helper()
	r := sign(pages.Admin)
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	s.t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	s.t.Cleanup(cancel)
	c := &clicker{t: s.t, ctx: ctx, base: r.base}
	c.open(r.link())
	c.press("button.primary")
	return c
}

func (c *clicker) open(path string) {
	c.t.Helper()
	if err := chromedp.Do(c.ctx, chromedp.Navigate(c.base+path)); err != nil {
		c.t.Fatalf("open %s: %v", path, err)
	}
}

// press clicks on what a selector finds first, and waits for the answer.
func (c *clicker) press(selector string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, 20*time.Second)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, chromedp.Click(selector))
	if err != nil || answer.Status >= 400 {
		c.t.Fatalf("press %s: %v, %+v\n%s", selector, err, answer, c.text())
	}
}

func (c *clicker) has(selector string) bool {
	c.t.Helper()
	return ask(c, chromedp.Evaluate[bool](fmt.Sprintf("document.querySelector(%q) !== null", selector)))
}

func (c *clicker) text() string { return ask(c, chromedp.Text("body")) }

// ask returns what an action finds.
func ask[T any](c *clicker, a chromedp.Action[T]) T {
	c.t.Helper()
	found, err := chromedp.Run(c.ctx, a)
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// perform presses the button of an act, and does what the pages behind it ask for.
func (c *clicker) perform(path string, p press, customer string) {
	c.t.Helper()
	c.open(path)
	offer := fmt.Sprintf(`[data-act="%s"][data-reason="%s"]`, p.act, p.reason)
	if p.reason == connector.ReasonLikeness && p.act == connector.ActReject { // one button for both answers
		offer = `[data-act="accept"][data-reason="likeness"]`
	}
	switch {
	case c.has("form" + offer):
		c.reads(admin.Acts[p.act].Becomes)
		if c.has("form" + offer + " input[name=reason]") {
			c.fill("form"+offer+" input[name=reason]", whyOf(p.act))
		}
		c.press("form" + offer + " button")
	case c.has("a" + offer):
		c.press("a" + offer)
		c.answer(p, customer)
	default:
		c.t.Fatalf("%s has no button for %s of %s:\n%s", path, p.act, p.reason, c.text())
	}
	if !c.has(`p[role="status"], div[role="status"]`) {
		c.t.Errorf("no page tells the outcome of %s:\n%s", p.act, c.text())
	}
}

// answer fills in the page that asks, and presses its button.
func (c *clicker) answer(p press, customer string) {
	c.t.Helper()
	if c.has("main form[method=get] #open") {
		c.fill("#open", customer)
		c.press("main form[method=get] button")
	}
	c.reads(admin.Acts[p.act].Becomes)
	c.fill("main form[method=post] #reason", whyOf(p.act))
	if c.has("form.decide") { // the page of a match
		c.press(map[connector.Act]string{connector.ActAccept: "button[value=same]",
			connector.ActReject: "button[value=not]"}[p.act])
		return
	}
	c.press("main form[method=post] .actions button")
}

func (c *clicker) fill(selector, text string) {
	c.t.Helper()
	if err := chromedp.Do(c.ctx, chromedp.SendKeys(selector, text)); err != nil {
		c.t.Fatalf("fill %s: %v", selector, err)
	}
}

// reads fails unless the page shows a text.
func (c *clicker) reads(text string) {
	c.t.Helper()
	if !strings.Contains(c.text(), text) {
		c.t.Errorf("the page before the act lacks %q:\n%s", text, c.text())
	}
}

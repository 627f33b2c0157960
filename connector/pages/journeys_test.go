package pages_test

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/sandbox"
	"payersync/state"
)

var everyWalk = flag.Bool("every-walk", false,
	"go the journeys in a browser in all ways, and look at the pages as every role")

// walks are the ways in which a journey can be gone. Every two of script, width and scheme meet in one.
var walks = []look{{width: 1280}, {width: 1280, dark: true, noScript: true}, {width: 390, noScript: true},
	{width: 390, dark: true}}

// fewWalks are those in which it is gone unless all are asked for.
var fewWalks = []look{{width: 1280}, {width: 390, dark: true, noScript: true}}

// ways are those in which journeys are gone now.
func ways() []look {
	if *everyWalk {
		return walks
	}
	return fewWalks
}

// journey goes a journey in some ways, each in an installation of its own.
func journey(t *testing.T, name string, fill func(*house), walk func(*house, *tab)) {
	t.Helper()
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			fill(h)
			b := h.browse(l)
			b.name = name + "-" + l.String()
			walk(h, b)
		})
	}
}

// stop looks at a page of a journey as a person does: it must hold these, and be sound.
func (b *tab) stop(want ...string) {
	b.t.Helper()
	b.stops++
	b.reads(want...)
	b.sound(b.path())
	b.picture(b.name + "-" + strconv.Itoa(b.stops))
	b.fits(b.name + " " + strconv.Itoa(b.stops))
}

// answered clicks on what a selector finds first, and fails unless the answer has the status.
func (b *tab) answered(status int64, selector string) {
	b.t.Helper()
	if answer := b.click(selector); answer == nil || answer.Status != status {
		b.t.Fatalf("%s was answered %+v, want %d", selector, answer, status)
	}
}

// until waits for a page to show something by itself, as script makes it do, or follows a link
// until it does, as a person without script.
func (b *tab) until(text, link string) {
	b.t.Helper()
	for range 200 {
		if strings.Contains(b.text(), text) {
			return
		}
		if b.noScript {
			b.press(link)
		} else if err := chromedp.Do(b.ctx,
			chromedp.Evaluate[chromedp.Void]("new Promise(r => setTimeout(r, 100)).then(() => 0)",
				chromedp.EvalAwaitPromise)); err != nil && b.ctx.Err() != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Fatalf("%s never shows %q:\n%s", b.path(), text, b.text())
}

// A plan is read, what is ticked is approved, and a plan that changed meanwhile is not.
func TestAPlanIsReadAndApprovedInPartInABrowser(t *testing.T) {
	journey(t, "plan", func(h *house) { h.run(false) }, func(h *house, b *tab) {
		h.signIn(b, "olaf", pages.Operator)
		b.open("/plans")
		b.press("a[href='/plans/1']")
		b.stop("Nothing has been sent.", "Why:", "Approve all", "Reject the plan")
		ids := ask(b, chromedp.Evaluate[[]string]("[...document.querySelectorAll('input[name=change]')].slice(0, 2).map(e => { e.click(); return e.value })"))
		b.press("button[value=some]")
		b.stop("2 changes of plan 1 approved. Nothing was sent yet")
		if n := h.box.Writes(); n != 0 {
			t.Fatalf("the page sent %d requests", n)
		}
		first, second := h.change(ids[0]), h.change(ids[1])
		b.open("/plans/1") // and while it is being read, the books change
		h.books(sampleBooks(h.t, "Crumb & Crust Bakery Ltd", "Crumb & Sons"))
		h.run(false)
		waiting := h.approved()
		b.answered(http.StatusConflict, "button[form=judge].primary")
		b.stop("The plan changed while you were reading it.", "Nothing was approved or rejected.", "Crumb & Sons")
		if now := h.approved(); now != waiting {
			t.Errorf("%d changes are approved, and %d were before", now, waiting)
		}
		for _, name := range h.customers() {
			if name != first.Wanted.Name && name != second.Wanted.Name {
				t.Errorf("%s was made, and nobody approved it", name)
			}
		}
		b.do(chromedp.Click(".stick .reject summary"))
		b.fill(".reject #reason", "a wrong export")
		b.press("button[value=reject]")
		b.stop("is rejected. payersync sends none of its changes.", "a wrong export")
	})
}

// A viewer sees no address on any page, and is let do nothing, however the request is made.
func TestAViewerSeesNoAddressAndMayDoNothingInABrowser(t *testing.T) {
	journey(t, "viewer", func(h *house) { h.run(true) }, func(h *house, b *tab) {
		h.signIn(b, "vera", pages.Viewer)
		writes := h.box.Writes()
		for _, pattern := range sortedKeys() {
			row := access[pattern]
			method, _, _ := strings.Cut(pattern, " ")
			switch {
			case method == http.MethodGet && row.role == pages.Viewer && !row.file:
				b.open(row.path)
				for _, private := range []string{"accounts@crumbandcrust.example", "01632 960101", "4 Harbour Street", "/sign/"} {
					if page := ask(b, chromedp.OuterHTML("html")); strings.Contains(page, private) {
						t.Errorf("%s shows a viewer %q", row.path, private)
					}
				}
			case method == http.MethodPost && row.role != pages.Viewer:
				b.open("/")
				answer, err := chromedp.RunResponse(b.ctx,
					chromedp.Evaluate[chromedp.Void](`(() => { const f = document.createElement("form"); f.method = "post"; f.action = `+strconv.Quote(row.path)+`; document.body.append(f); f.submit() })()`))
				if err != nil || answer.Status != http.StatusForbidden {
					t.Errorf("%s was answered %+v, want 403: %v", pattern, answer, err)
					continue
				}
				b.reads("You may not do this", "Nothing was changed.")
			}
		}
		b.stop("You may not do this")
		if n := h.box.Writes(); writes == 0 || n != writes {
			t.Errorf("the service saw %d writes, and %d before the viewer came", n, writes)
		}
	})
}

// sortedKeys are the addresses of the table, in order.
func sortedKeys() (keys []string) {
	for pattern := range access {
		keys = append(keys, pattern)
	}
	slices.Sort(keys)
	return keys
}

// A run is asked for, is seen at work, and its end is seen.
func TestARunIsStartedAndFollowedToItsEndInABrowser(t *testing.T) {
	journey(t, "run", func(*house) {}, func(h *house, b *tab) {
		gate := make(chan struct{})
		h.conn.Source = gated{h.conn.Source, gate}
		h.signIn(b, "olaf", pages.Operator)
		b.open("/runs")
		b.stop("There was no run yet")
		b.press("form[action='/runs'] button")
		b.stop("Run 1 of quickstart was started.", "Running", "Look again")
		close(gate)
		b.until("Waits for approval", "#run a[href='/runs/1']")
		b.stop("39 records read", "The counts add up to what was read.", "Plan 1")
		b.open("/audit")
		b.reads("start run")
	})
}

// A delivery that was not understood is looked at, read again, and closed with a reason.
func TestADeliveryIsReadAgainAndClosedInABrowser(t *testing.T) {
	journey(t, "delivery", func(h *house) {
		h.run(true)
		h.receive(state.Delivery{Key: "event:e1#1", Type: "odd", State: connector.InboxQuarantined,
			Detail: "It names no customer.", Body: []byte(`{"who":{"ref":"<script>alert(1)</script>"}}`)})
	}, func(h *house, b *tab) {
		h.signIn(b, "ada", pages.Admin)
		b.open("/webhooks")
		b.press("tbody th a")
		b.stop("It names no customer.", "who.ref", "Closing loses nothing")
		b.press("form[action$='/body'] button")
		b.stop("<script>alert(1)</script>")
		b.open("/webhooks")
		b.press("tbody th a")
		b.answered(http.StatusConflict, "form[action$='/replay'] button")
		b.stop("still cannot read it", "Nothing was changed")
		b.open("/webhooks")
		b.press("tbody th a")
		b.fill("form[action$='/close'] input[name=reason]", "a test of the provider")
		b.press("form[action$='/close'] button")
		b.stop("The delivery is closed", "Not needed")
		b.open("/audit")
		b.reads("show delivery body", "close delivery", "a test of the provider")
	})
}

// hostileBooks are books whose names try to be more than names.
var hostileBooks = []byte("AccountNumber,Name,Contact,Email,Phone,Address,City,Postcode,Second Address,Second City,Second Postcode,Status,Language\n" +
	`HB001,<script>window.hacked=1</script><img src=x onerror=window.hacked=1>,"<svg onload=window.hacked=1>",a@x.example,,,,,,,,Active,` + "\n" +
	"HB002,\u202eevil\u202c,,b@x.example,,,,,,,,Active,\n" +
	"HB003," + strings.Repeat("Ö", 255) + ",,c@x.example,,,,,,,,Active,\n" +
	"HB004,=1+1 🎂,'\"><b>,d@x.example,,,,,,,,Active,\n" +
	"HB005,{{.}} %s \u0000 \u2028,,no address,,,,,,,,Active,\n")

// Names that try to be more than names are names, on every page and in every width.
func TestHostileNamesAreNamesOnEveryPageInABrowser(t *testing.T) {
	journey(t, "hostile", func(h *house) {
		h.books(hostileBooks)
		h.run(true)
		h.books([]byte(strings.ReplaceAll(string(hostileBooks), "Active", "Active ")))
		h.run(false)
	}, func(h *house, b *tab) {
		h.signIn(b, "ada <i>admin</i>", pages.Admin)
		seen := false
		for _, pattern := range sortedKeys() {
			row := access[pattern]
			if !strings.HasPrefix(pattern, "GET ") || row.file {
				continue
			}
			b.open(row.path)
			if ask(b, chromedp.Evaluate[bool](`"hacked" in window || !!document.querySelector("main script, main img, main i, main b:not(.ours)")`)) {
				t.Errorf("on %s a name became more than a name:\n%s", pattern, ask(b, chromedp.OuterHTML("main")))
			}
			seen = seen || strings.Contains(b.text(), "<script>window.hacked")
			b.sound(pattern)
		}
		if !seen {
			t.Error("no page shows the name, so the test shows nothing")
		}
	})
}

// While the ledger is locked or full, or the service is down, nothing is done by half and the
// pages say so; afterwards all goes on.
func TestWhatCannotBeDoneIsSaidAndNotDoneByHalfInABrowser(t *testing.T) {
	ways := map[string]func(*house) (undo func()){
		"service down": func(h *house) func() {
			h.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore})
			return h.box.ClearFaults
		},
		"ledger locked": func(h *house) func() {
			path, _ := h.ledger.Path()
			other := must(state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"}))(h.t)
			locked, done := make(chan struct{}), make(chan struct{})
			var holder sync.WaitGroup
			holder.Go(func() {
				_ = other.Do(context.Background(), func(*state.Tx) error { close(locked); <-done; return nil })
			})
			<-locked
			return func() { close(done); holder.Wait(); _ = other.Close() }
		},
		"disk full": func(h *house) func() {
			path, _ := h.ledger.Path()
			ballast := filepath.Join(filepath.Dir(path), "ballast")
			file := must(os.Create(ballast))(h.t)
			for size := 1 << 20; size > 0; {
				if _, err := file.Write(make([]byte, size)); err != nil {
					size /= 2
				}
			}
			_ = file.Close()
			return func() { _ = os.Remove(ballast) }
		},
	}
	for name, way := range ways {
		journey(t, strings.ReplaceAll(name, " ", "-"), func(h *house) { h.run(true) }, func(h *house, b *tab) {
			if name == "disk full" {
				h = h.onSmallDisk()
				h.run(true)
				b.base = h.server.URL
			}
			h.signIn(b, "olaf", pages.Operator)
			mandates := must(h.ledger.Mandates(context.Background(), state.Filter{Limit: 1000}))(h.t)
			writes := h.box.Writes()
			b.open("/payers/quickstart/HB001")
			b.press("form[action$='/link'] button") // the page with the link offers to fetch it again
			undo := way(h)
			ended := sync.OnceFunc(undo)
			h.t.Cleanup(ended)
			b.press("form[action$='/request'] button")
			if name == "service down" {
				b.stop("The action failed", "The billing service cannot be reached just now")
			} else {
				b.stop("The ledger cannot be used at the moment", "Nothing was changed.")
				if n := h.box.Writes(); n != writes {
					t.Errorf("%s: %d requests were sent that the ledger does not know", name, n-writes)
				}
			}
			for _, path := range []string{"/", "/payers", "/mandates", "/payers/quickstart/HB001"} { // reading goes on
				b.open(path)
				b.reads("payersync", "Sign out")
			}
			ended()
			b.press("form[action$='/link'] button")
			b.press("form[action$='/request'] button")
			b.stop("Crumb & Crust Bakery Ltd")
			if now := must(h.ledger.Mandates(context.Background(), state.Filter{Limit: 1000}))(h.t); len(now) != len(mandates) {
				t.Errorf("%s: there are %d mandates, and %d were before", name, len(now), len(mandates))
			}
		})
	}
}

// onSmallDisk returns an installation with its ledger on a small disk of its own.
func (h *house) onSmallDisk() *house {
	h.t.Helper()
	disk := h.t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=16m,mode=700"); err != nil {
		h.t.Skipf("this machine lets no test make a small disk: %v", err)
	}
	h.t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			h.t.Error(err)
		}
	})
	return newHouseIn(h.t, disk)
}

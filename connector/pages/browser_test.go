package pages_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
	"payersync/internal/browsertest"
	"payersync/internal/longtest"
)

var screenshots = flag.String("screenshots", "", "a folder in which pictures of all pages are kept")

// chromium is the one browser of this test binary, started by the first test that needs it.
var chromium = sync.OnceValues(func() (context.Context, error) {
	browser, end, err := browsertest.Start()
	closeBrowser = end
	return browser, err
})

// closeBrowser ends the browser, once there is one.
var closeBrowser = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	closeBrowser()
	os.Exit(code)
}

// look is how a page is looked at.
type look struct {
	width    int64
	dark     bool
	noScript bool
}

func (l look) String() string {
	text := fmt.Sprintf("%d-light", l.width)
	if l.dark {
		text = fmt.Sprintf("%d-dark", l.width)
	}
	if l.noScript {
		text += "-noscript"
	}
	return text
}

// tab is a window of the browser, with cookies of its own.
type tab struct {
	t    testing.TB
	ctx  context.Context
	base string

	name     string // of the journey that is gone in it
	stops    int    // that it made
	clicks   int    // on links, buttons and boxes
	keys     int    // pressed in the place of clicks
	width    int64
	noScript bool
}

// browse opens a window. It skips the test in a short run, and where there is no browser.
func (h *house) browse(l look) *tab {
	h.t.Helper()
	longtest.Story(h.t, longtest.Browser)
	browser, err := chromium()
	if err != nil {
		if os.Getenv("CI") != "" {
			h.t.Fatalf("%v, and CI needs it", err)
		}
		h.t.Skipf("%v", err)
	}
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	h.t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		h.t.Fatalf("open a window: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	h.t.Cleanup(cancel)
	b := &tab{t: h.t, ctx: ctx, base: h.server.URL, width: l.width, noScript: l.noScript}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: 800, DeviceScaleFactor: 1})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.noScript})
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("the browser did not do it: %v", err)
	}
}

// ask returns what an action finds.
func ask[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	found, err := chromedp.Run(b.ctx, a)
	if err != nil {
		b.t.Fatalf("the browser did not find it: %v", err)
	}
	return found
}

// call sends a command of the browser's protocol.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, c, params); err != nil {
		b.t.Fatalf("the browser did not take it: %v", err)
	}
}

// open opens a page.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// signIn signs in by a link, as a person does.
func (h *house) signIn(b *tab, name string, role pages.Role) {
	h.t.Helper()
	b.open(h.link(name, role))
	b.press("button.primary")
}

// press clicks on what a selector finds first, and waits until a page is there.
func (b *tab) press(selector string) {
	b.t.Helper()
	b.click(selector)
}

// click clicks on what a selector finds first, and returns what was answered.
func (b *tab) click(selector string) *network.Response {
	b.t.Helper()
	b.clicks++
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, chromedp.Click(selector))
	if err != nil {
		b.t.Fatalf("press %s on %s: %v\n%s", selector, b.path(), err, b.text())
	}
	return answer
}

// fill types into a field that is empty.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(selector, text))
}

// text returns the words of a page as a person reads them.
func (b *tab) text() string {
	b.t.Helper()
	return ask(b, chromedp.Text("body"))
}

// path returns the address of the page that is open.
func (b *tab) path() string {
	b.t.Helper()
	return strings.TrimPrefix(ask(b, chromedp.Location()), b.base)
}

// reads fails unless the page shows all of these.
func (b *tab) reads(want ...string) {
	b.t.Helper()
	text := b.text()
	for _, w := range want {
		if !strings.Contains(text, w) {
			b.t.Errorf("%s lacks %q:\n%s", b.path(), w, text)
		}
	}
}

// picture keeps a picture of the page, where pictures are asked for.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	png := ask(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// axe is the accessibility checker's script; CI installs it.
var axe = sync.OnceValues(func() (string, error) {
	path := os.Getenv("PAYERSYNC_AXE")
	if path == "" {
		return "", fmt.Errorf("PAYERSYNC_AXE names no axe.min.js (npm install axe-core)")
	}
	text, err := os.ReadFile(path)
	return string(text), err
})

// sound fails where the page is not: what axe finds, sideways scrolling, small targets.
func (b *tab) sound(what string) {
	b.t.Helper()
	sideways := ask(b, chromedp.Evaluate[[]string](`document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *, header *")]
		.filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 4).map(e => e.outerHTML.slice(0, 120))`))
	if len(sideways) > 0 {
		b.t.Errorf("%s scrolls sideways because of %q", what, sideways)
	}
	small := ask(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll("button, .button, select, textarea, input:not([type=hidden]):not([type=checkbox]):not([type=radio]), header nav a, .pager a")]
		.filter(e => e.getClientRects().length && e.getBoundingClientRect().height < 43.5).slice(0, 4).map(e => e.outerHTML.slice(0, 120))`))
	if len(small) > 0 {
		b.t.Errorf("%s has targets under 44 px: %q", what, small)
	}
	if b.noScript { // axe is script itself, and the page is the same one
		return
	}
	script, err := axe()
	if err != nil {
		if os.Getenv("CI") != "" {
			b.t.Fatalf("%v, and CI needs it", err)
		}
		b.t.Logf("axe was not asked: %v", err)
		return
	}
	b.do(chromedp.Evaluate[chromedp.Void](script + "; 0"))
	found := ask(b, chromedp.Evaluate[string](`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160))}))))`, chromedp.EvalAwaitPromise))
	var violations []json.RawMessage
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: axe: %s", what, v)
	}
}

// Each page for each role, and with all permissions also narrow and dark: axe finds nothing, nothing scrolls
// sideways, and no control is too small.
func TestEveryPageIsSoundInABrowser(t *testing.T) {
	h := newHouse(t)
	h.run(true)
	for _, role := range pages.Roles {
		if role == pages.Operator && !*everyWalk { // who sees nothing that nobody else does
			continue
		}
		looks := []look{{width: 1280}}
		if role == pages.Admin { // who sees all there is
			looks = append(looks, look{width: 320, dark: true})
		}
		for _, l := range looks {
			b := h.browse(l)
			h.signIn(b, "anna the "+string(role), role)
			for pattern, row := range access {
				if path, ok := strings.CutPrefix(pattern, "GET "); ok && role.May(row.role) && !row.file {
					b.open(row.path)
					what := fmt.Sprintf("%s as %s at %s", path, role, l)
					b.sound(what)
					b.picture(strings.NewReplacer("/", "_", "{", "", "}", "", "$", "", "...", "").Replace(path) + "-" + string(role) +
						"-" + l.String())
				}
			}
		}
	}
}

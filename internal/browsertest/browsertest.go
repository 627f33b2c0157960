// Package browsertest starts a browser for tests.
package browsertest

import (
	"context"
	"errors"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// Start starts the installed Chromium, and returns its context and the function that ends it. It prefers the headless
// one, because that needs less processor time.
func Start() (browser context.Context, end func(), err error) {
	var program string
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return nil, func() {}, errors.New("no chromium is installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("lang", "en-GB"), chromedp.Env("TZ=Europe/London"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	browser, closeBrowser := chromedp.NewContext(allocator)
	return browser, func() { closeBrowser(); stop() }, chromedp.Do(browser)
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector/sandbox"
	"payersync/connector/worker"
)

func TestConsentOfAConnectionThatIsNoLongerConfiguredNeedsNobody(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 3)
	v.auth.Life = 0
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	v.auth.Withdraw()
	w.expect(exitFailed, "sync", "books")
	if r := w.run("check"); !strings.Contains(r.out, "consent books") {
		t.Errorf("while it is configured, check says:\n%s", r.out)
	}
	w.edit("payersync.yaml", "name: books", "name: ledgers")
	for _, command := range []string{"check", "status"} {
		if r := w.run(command); strings.Contains(r.out, "connect books") {
			t.Errorf("%s tells to connect what is not configured:\n%s", command, r.out)
		}
	}
}

// A token endpoint in trouble names a time for the next try, too; that must not
// hide what is wrong.
//
// covers F26
func TestRunWithoutATokenSaysWhyAndNotThatItIsThrottled(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 3)
	v.auth.Life = 0 // every token has ended when it comes
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	w.env["BOOKS_SECRET"] = "of another app"
	for _, want := range []string{"check client_id and client_secret", "the last try failed, and the next is made at"} {
		r := w.expect(exitFailed, "sync", "books")
		if !strings.Contains(r.out, want) || !strings.Contains(r.out, "try again at "+time.Now().Format(time.DateOnly)) ||
			strings.Contains(r.out, "throttled") {
			t.Errorf("sync does not say %q:\n%s", want, r.out)
		}
	}
	if r := w.expect(exitFailed, "sync", "books", "--output", "json"); !strings.Contains(r.out,
		`"problem":"read the accounting system:`) {
		t.Errorf("as JSON, sync does not say what is wrong:\n%s%s", r.out, r.errOut)
	}
}

// The billing service of the sandbox takes tokens of a consent alone, rotates
// refresh tokens, and its login page is played by the test.
//
// covers F77
func TestConsentForTheBillingServiceIsPasted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(4), func(o *sandbox.Options) {
		o.Switches.APITokens, o.TokenLife = sandbox.AuthorizationCode, 61*time.Second
	})
	w.edit("payersync.yaml", "  redirect_url:",
		"  authorize_url: https://login.example.com/auth\n  dialect: {api_auth: authorization_code}\n  redirect_url:")
	if r := w.expect(exitFailed, "sync"); !strings.Contains(r.errOut+r.out, "payersync connect billing") {
		t.Errorf("without consent, sync says: %s%s", r.out, r.errOut)
	}
	const redirect = "https://app.example.com/connected"
	paste := func(answer func(asked url.Values) string) result {
		out, in := io.Pipe()
		p := w.startWith(out, "connect", "billing", "--paste", "--redirect", redirect)
		at, err := url.Parse(p.consent())
		if err != nil || at.Host != "login.example.com" || at.Query().Get("redirect_uri") != redirect {
			t.Fatalf("the consent page is %s, %v", at, err)
		}
		if _, err := fmt.Fprintln(in, answer(at.Query())); err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		return p.wait()
	}
	forged := paste(func(url.Values) string { return redirect + "?code=" + w.box.IssueCode() + "&state=guess" })
	if forged.code != exitFailed || !strings.Contains(forged.errOut, "another request") {
		t.Errorf("a forged answer ended with %d: %s", forged.code, forged.errOut)
	}
	taken := paste(func(asked url.Values) string {
		return redirect + "?" + url.Values{"code": {w.box.IssueCode()}, "state": asked["state"]}.Encode()
	})
	if taken.code != exitDone || !strings.Contains(taken.out, "billing is connected.") {
		t.Fatalf("connect ended with %d:\n%s%s", taken.code, taken.out, taken.errOut)
	}
	w.expect(exitDone, "sync")
	w.expectOnePerRow(people(4))
	w.box.RevokeTokens() // the refresh token is still good
	w.expect(exitDone, "sync")

	// The same app may be let into another account.
	elsewhere := func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/customers/") {
			return false
		}
		http.NotFound(rw, r)
		return true
	}
	again := func() result {
		return paste(func(asked url.Values) string {
			return redirect + "?" + url.Values{"code": {w.box.IssueCode()}, "state": asked["state"]}.Encode()
		})
	}
	w.front.Store(&elsewhere)
	if r := again(); r.code != exitUsage ||
		!strings.Contains(r.errOut, "the consent is not kept: the ledger belongs to another account") {
		t.Errorf("a consent for another account ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.front.Store(nil)
	w.expect(exitDone, "sync") // with the consent from before
	if r := again(); r.code != exitDone {
		t.Errorf("another consent for the same account ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// covers F67
func TestConnectThatWaitsForAPasteEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	w, _ := newXeroWorld(t, 1)
	nothing, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), nothing.Close() })
	p := w.startWith(nothing, "connect", "books", "--paste", "--redirect", "https://app.example.com/connected")
	p.consent()
	p.signal(syscall.SIGTERM)
	if r := p.wait(); r.code != exitInterrupted {
		t.Errorf("it ended with %d: %s", r.code, r.errOut)
	}
}

// covers F29
func TestKeepAliveRenewsAConsentThatNobodyUsedForAWeek(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 1)
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	for _, step := range []struct {
		days, requests int // requests to the token endpoint so far: the first is connect's
	}{{6, 1}, {8, 2}} {
		_, s := w.later(time.Duration(step.days) * 24 * time.Hour)
		if err := keepAlive(t.Context(), s); err != nil {
			t.Error(err)
		}
		s.Close()
		if got := v.auth.Requests(); got != step.requests {
			t.Errorf("%d days later the token endpoint had %d requests, want %d", step.days, got, step.requests)
		}
	}
}

// A machine that is off at night is never up at the hour of the schedule.
//
// covers F29, F72
func TestKeepAliveIsMadeUpForWhenServeStarts(t *testing.T) {
	t.Parallel()
	w, v := newXeroWorld(t, 1)
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d: %s", r.code, r.errOut)
	}
	a, s := w.later(8 * 24 * time.Hour)
	defer s.Close()
	jobs := slices.DeleteFunc(a.jobs(s), func(j worker.Job) bool { return j.Name != "keep-alive" })
	at, err := worker.New(worker.Config{Jobs: jobs, Drain: func(context.Context) error { return nil }, Now: a.now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- at.Run(ctx) }()
	eventually(t, "the renewal of the consent", func() bool { return v.auth.Requests() == 2 })
	stop()
	if err := await(t, "the worker to end", ran); err != nil {
		t.Error(err)
	}
}

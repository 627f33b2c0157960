package pages

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// route is an address, with its least role and its handler.
type route struct {
	pattern string // as a ServeMux takes it, with the method
	role    Role   // the lowest allowed role
	reach   reach  // its treatment of limited users
	answer  func(*visit) error
}

// all are the addresses for signed-in users. No other address exists; the test of roles has a row for each.
var all = []route{
	{"GET /{$}", Viewer, theirs, (*visit).overview},
	{"GET /todo/{reason}", Viewer, theirs, (*visit).told},
	{"POST /todo/{reason}", Operator, theirs, (*visit).settle},
	{"GET /todo/{reason}/export", Operator, theirs, (*visit).exportTold},
	{"GET /payers", Viewer, theirs, (*visit).payers},
	{"POST /payers", Viewer, theirs, (*visit).searchPayers},
	{"POST /payers/ask", Operator, theirs, (*visit).askTicked},
	{"POST /payers/export", Operator, theirs, (*visit).exportPayers},
	{"GET /payers/{connection}/{id}", Viewer, theirs, (*visit).payer},
	{"POST /payers/{connection}/{id}/link", Operator, theirs, (*visit).showLink},
	{"POST /payers/{connection}/{id}/raw", Admin, theirs, (*visit).showRaw},
	{"GET /payers/{connection}/{id}/{act}", Operator, theirs, (*visit).askDeed},
	{"POST /payers/{connection}/{id}/{act}", Operator, theirs, (*visit).doDeed},
	{"GET /mandates", Viewer, theirs, (*visit).mandates},
	{"POST /mandates/handover", Operator, theirs, (*visit).handOver},
	{"POST /mandates/sent", Operator, theirs, (*visit).noteSent},
	{"GET /mandates/links", Operator, theirs, (*visit).lostLinks},
	{"POST /mandates/links", Operator, theirs, (*visit).fetchLinks},
	{"GET /mandates/writeback/{connection}", Viewer, theirs, (*visit).writes},
	{"POST /mandates/writeback/{connection}", Operator, theirs, (*visit).approveWrites},
	{"GET /mandates/letters", Viewer, ofLetters, (*visit).letters},
	{"POST /mandates/letters", Operator, ofLetters, (*visit).approveLetters},
	{"POST /mandates/letters/alone", Operator, ofLetters, (*visit).approveAlone},
	{"POST /mandates/letters/pause", Operator, ofLetters, (*visit).pauseLetters},
	{"POST /mandates/letters/resume", Operator, ofLetters, (*visit).resumeLetters},
	{"POST /mandates/letters/continue", Operator, ofLetters, (*visit).continueLetters},
	{"POST /mandates/letters/word", Operator, ofLetters, (*visit).sayOfLetter},
	{"GET /mandates/letters/examples", Viewer, ofLetters, (*visit).examples},
	{"GET /mandates/letters/example/{kind}/{language}", Viewer, ofLetters, (*visit).example},
	{"GET /mandates/letters/prepared/{connection}/{id}", Operator, ofLetters, (*visit).prepared},
	{"POST /mandates/letters/bounced", Operator, ofLetters, (*visit).noteBounced},
	{"POST /mandates/letters/revive", Operator, ofLetters, (*visit).reviveBounced},
	{"GET /mandates/report", Viewer, theirs, (*visit).report},
	{"POST /mandates/report", Operator, theirs, (*visit).exportReport},
	{"GET /matches", Viewer, theirs, (*visit).matches},
	{"GET /matches/likely", Operator, theirs, (*visit).likely},
	{"POST /matches/likely", Operator, theirs, (*visit).linkLikely},
	{"POST /matches/separate", Operator, theirs, (*visit).separateBooks},
	{"POST /matches/finish", Operator, theirs, (*visit).finishMatching},
	{"GET /matches/linked", Operator, theirs, (*visit).linked},
	{"POST /matches/linked", Operator, theirs, (*visit).unlink},
	{"GET /matches/{connection}/{id}", Viewer, theirs, (*visit).match},
	{"POST /matches/{connection}/{id}", Operator, theirs, (*visit).decideMatch},
	{"GET /connections/move", Operator, ofMoves, (*visit).moves},
	{"POST /connections/move", Operator, ofMoves, (*visit).decideMove},
	{"GET /runs", Viewer, theirs, (*visit).runs},
	{"GET /webhooks", Viewer, ofWebhooks, (*visit).webhooks},
	{"POST /webhooks", Operator, ofWebhooks, (*visit).sendTest},
	{"POST /webhooks/subscription", Operator, ofWebhooks, (*visit).leaveSubscription},
	{"POST /webhooks/subscription/again", Admin, ofWebhooks, (*visit).subscribeAgain},
	{"GET /webhooks/{key}", Viewer, ofWebhooks, (*visit).delivery},
	{"POST /webhooks/{key}/body", Admin, ofWebhooks, (*visit).deliveryBody},
	{"POST /webhooks/{key}/replay", Operator, ofWebhooks, (*visit).replay},
	{"POST /webhooks/{key}/close", Operator, ofWebhooks, (*visit).closeDelivery},
	{"GET /settings", Viewer, theirs, (*visit).settings},
	{"GET /settings/systems", Viewer, theirs, (*visit).systems},
	{"GET /settings/users", Admin, ofUsers, (*visit).users},
	{"POST /settings/users", Admin, ofUsers, (*visit).invite},
	{"GET /settings/users/{name}", Admin, ofUsers, (*visit).user},
	{"POST /settings/users/{name}", Admin, ofUsers, (*visit).changeUser},
	{"GET /settings/password", Viewer, theirs, (*visit).askPassword},
	{"POST /settings/password", Viewer, theirs, (*visit).changePassword},
	{"GET /again", Viewer, theirs, (*visit).askAgain},
	{"POST /again", Viewer, theirs, (*visit).again},
	{"GET /audit", Viewer, ofAudit, (*visit).audit},
	{"GET /help", Viewer, theirs, (*visit).helpTopics},
	{"GET /help/{topic}", Viewer, theirs, (*visit).guide},
	{"GET /plans", Viewer, theirs, (*visit).plans},
	{"GET /plans/{n}", Viewer, theirs, (*visit).plan},
	{"POST /plans/{n}", Operator, theirs, (*visit).judge},
	{"GET /runs/{n}", Viewer, theirs, (*visit).run},
	{"POST /runs", Operator, theirs, (*visit).startRun},
	{"GET /mapping", Viewer, theirs, (*visit).mappings},
	{"GET /mapping/{connection}", Viewer, theirs, (*visit).mapping},
	{"POST /mapping/{connection}", Admin, theirs, (*visit).editMapping},
	{"GET /mapping/{connection}/text", Viewer, theirs, (*visit).mappingText},
	{"GET /mapping/{connection}/quality", Viewer, theirs, (*visit).quality},
	{"GET /mapping/{connection}/versions", Viewer, theirs, (*visit).versions},
	{"GET /mapping/{connection}/preview/{hash}", Admin, theirs, (*visit).mappingCount},
	{"POST /mapping/{connection}/preview/{hash}", Admin, theirs, (*visit).stopCounting},
}

// routes returns the handler of all addresses.
func (p *Pages) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range all {
		mux.Handle(r.pattern, p.signedIn(r))
	}
	if p.cfg.Design {
		mux.Handle("GET /design", p.signedIn(route{"GET /design", Viewer, theirs, (*visit).design}))
	}
	mux.HandleFunc("GET /signin", p.signIn)
	mux.HandleFunc("POST /signin", p.usePassword)
	mux.HandleFunc("GET /signin/invited/{token}", p.invited)
	mux.HandleFunc("POST /signin/invited/{token}", p.useInvitation)
	mux.HandleFunc("GET /signin/oidc", p.toProvider)
	mux.HandleFunc("GET /signin/oidc/callback", p.fromProvider)
	mux.HandleFunc("POST /signin/oidc/callback", p.useProvider)
	mux.HandleFunc("GET /signin/once/{token}", p.once)
	mux.HandleFunc("POST /signin/once/{token}", p.useOnce)
	mux.HandleFunc("POST /signout", p.signOut)
	mux.HandleFunc("GET /assets/{name}", asset)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { p.refuse(w, r, nil, notFound) })
	return mux
}

// policy limits the loads and forms of a page to its own site.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guarded accepts forms only from our own pages, and sets the browser's policy on every answer. The referrer stays
// within the site: without any referrer, browsers send forms without an origin, and these would be refused.
func (p *Pages) guarded(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		p.refuse(w, r, nil, elsewhere)
	}))
	next = origin.Handler(p.readForm(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if p.cfg.Secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		answer := &answer{ResponseWriter: w}
		err := connector.Guard(func() error {
			if !p.answersTo(r.Host) {
				return otherName
			}
			r.Body = http.MaxBytesReader(answer, r.Body, maxForm)
			next.ServeHTTP(answer, r)
			return nil
		})
		if err == nil {
			return
		}
		if answer.begun { // a truncated answer must not look complete
			p.cfg.Report(Event{Route: r.Pattern, Status: http.StatusInternalServerError, Err: err})
			panic(http.ErrAbortHandler)
		}
		p.refuse(answer, r, nil, err)
	})
}

// readForm reads the form of a request before a page looks at it, or refuses it.
func (p *Pages) readForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if err := connector.ReadForm(r, maxForm); err != nil {
				w.Header().Set("Connection", "close") // the rest of the form may still come
				p.refuse(w, r, nil, unreadForm(err))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// unreadForm says why a form could not be read.
func unreadForm(err error) problem {
	is := problem{Status: connector.BodyStatus(err), Title: "The form arrived incomplete",
		Sentence: "Nothing was changed. The connection broke off, or the form was damaged on its way.",
		Next:     "Go back, and send it again."}
	switch is.Status {
	case http.StatusRequestTimeout:
		is.Title, is.Sentence = "The form did not arrive in time",
			"Nothing was changed. The connection was too slow, or broke off."
	case http.StatusRequestEntityTooLarge:
		is.Title, is.Sentence, is.Next = "The form is too large", "Nothing was changed. The form is larger than a megabyte.",
			"Go back, and send less at once; the commands of payersync take larger files."
	}
	return is
}

// answer is a ResponseWriter with a record of whether the answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, too.
func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// maxForm is how many bytes a form may have.
const maxForm = 1 << 20

// answersTo reports whether a Host header names us. Otherwise another site could point its name at this machine (DNS
// rebinding), then read and act here in a visitor's browser.
func (p *Pages) answersTo(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(append([]string{"localhost"}, p.cfg.Hosts...),
		func(n string) bool { return strings.EqualFold(n, name) })
}

// problem is an error answer: the failed action, the reason, and the next step.
type problem struct {
	Status   int
	Title    string
	Sentence string
	Next     string
	Path     string       // where that is done; "" for the overview
	Do       connector.Do // the command for Next; "" for none
	err      error        // why, for the log
	need     Role         // the required role, if the role is the reason
	limits   bool         // the user's limits are the reason
}

// notHere is the next step for an act that needs the billing service.
const notHere = "Ask the operator of payersync for pages that can reach the billing service."

// at returns the problem with the address to continue at.
func (e problem) at(path string) problem {
	e.Path = path
	return e
}

// Error describes the problem.
func (e problem) Error() string { return e.Title + ": " + e.Sentence }

// Unwrap returns why.
func (e problem) Unwrap() error { return e.err }

var (
	notFound = problem{Status: http.StatusNotFound, Title: "There is no such page", Sentence: "No page has this address.",
		Next: "Go to the overview."}
	elsewhere = problem{Status: http.StatusForbidden, Title: "Nothing was changed",
		Sentence: "The request was not sent by one of these pages.", Next: "Open the page here, and try again."}
	otherName = problem{Status: http.StatusMisdirectedRequest, Title: "These pages have another address",
		Sentence: "They are not served under this host name.",
		Next:     "Open them by an address of this machine, for example 127.0.0.1."}
	signInNow = problem{Status: http.StatusUnauthorized, Title: "Sign in first",
		Sentence: "You are not signed in, or your sign-in has ended. Nothing was changed.",
		Next:     "Sign in, and open the page again.", Path: "/signin"}
)

// noWrites is the text for people while the ledger is full, locked or damaged.
var noWrites = problem{
	Status: http.StatusServiceUnavailable, Title: "The ledger cannot be used at the moment",
	Sentence: "Nothing was changed. Its disk is full, another program has locked it, or it is damaged. See the log of payersync.",
	Next:     "Try again in a minute. If it stays, ask the operator of payersync to check the installation.",
	Do:       connector.DoCheck,
}

func forbidden(need Role) problem {
	return problem{
		Status: http.StatusForbidden, Title: "You may not do this", Sentence: fmt.Sprintf("It needs the role %s.", need),
		Next: "Nothing was changed. An admin can give you another role.", need: need,
	}
}

// refuse answers with a problem. For any other error it logs the cause and does not show it on the page.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	var is problem
	switch {
	case errors.As(err, &is):
	case state.Unwritable(err):
		is = noWrites
		is.err = err
	default:
		is = problem{
			Status: http.StatusInternalServerError, Title: "The page could not be made", err: err,
			Sentence: "An error occurred. The log of payersync has the details.",
			Next:     "Try again. If it stays, ask the operator of payersync.",
		}
	}
	user := ""
	if v != nil {
		user = v.User.Name
		switch {
		case is.need != "":
			p.noteRefusal(r.Context(), user,
				state.Entry{Actor: user, Action: "refuse", Subject: r.Pattern, Reason: "it needs the role " + string(is.need)})
		case is.limits:
			p.noteRefusal(r.Context(), user,
				state.Entry{Actor: user, Action: "refuse", Subject: r.Pattern, Reason: "limited to connections"})
		}
	}
	p.cfg.Report(Event{Route: r.Pattern, User: user, Status: is.Status, Err: is.err})
	if is == signInNow { // done immediately
		p.showSignIn(w, r, is.Status, signInForm{Sentence: is.Sentence})
		return
	}
	command := ""
	if is.Do != "" {
		command = p.command(is.Do, "")
	}
	p.render(w, v, is.Status, "problem", "Problem: "+is.Title, struct {
		problem
		Command string
	}{is, command})
}

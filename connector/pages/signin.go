package pages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// signInForm is the content of the sign-in page.
type signInForm struct {
	Sentence  string // why it is shown; "" for who came to sign in
	Problem   string // the mistake in the input
	Name      string // as it was typed
	Passwords bool   // somebody has one
	Provider  string // what the provider is called; "" for none
	Command   string // that makes a link to sign in
}

// signIn says how to get in.
func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) {
	p.showSignIn(w, r, http.StatusOK, signInForm{})
}

func (p *Pages) showSignIn(w http.ResponseWriter, r *http.Request, status int, form signInForm) {
	users, err := p.cfg.Ledger.Users(r.Context())
	form.Passwords = len(users) > 0 || err != nil
	if p.cfg.Provider != nil {
		form.Provider = p.cfg.Provider.called()
	}
	form.Command = p.command(connector.DoOpenPages, "")
	title := "Sign in"
	if form.Problem != "" {
		title = "Problem: Sign in"
	}
	p.render(w, nil, status, "signin", title, form)
}

// usePassword signs in a user by name and password.
func (p *Pages) usePassword(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("name")
	user, err := p.knock(r, name, r.PostFormValue("password"))
	var is problem
	switch {
	case errors.As(err, &is) && is.err == nil:
		p.cfg.Report(Event{Route: r.Pattern, Status: is.Status})
		p.showSignIn(wait(w, err), r, is.Status, signInForm{Problem: is.Sentence + " " + is.Next, Name: shortened(name)})
		return
	case err == nil:
		err = p.begin(w, r, arrival{user: User{Name: user.Name, Role: Role(user.Role)}, way: byPassword,
			said: fmt.Sprintf("as %s, by password", user.Role), ends: user.Generation, password: user.Password})
	}
	p.home(w, r, err)
}

// wait sets the header with the time to wait, for an error about too many attempts.
func wait(w http.ResponseWriter, err error) http.ResponseWriter {
	var is tooSoon
	if errors.As(err, &is) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(time.Duration(is).Seconds()))))
	}
	return w
}

// tooSoon is how long nothing is looked at.
type tooSoon time.Duration

// Error says so.
func (w tooSoon) Error() string { return "wait " + time.Duration(w).String() }

var wrongPassword = problem{Status: http.StatusUnauthorized, Title: "You are not signed in",
	Sentence: "The name or the password is not right.",
	Next:     "Type both again. An admin can invite you to choose another password."}

func tooOften(d time.Duration) problem {
	return problem{
		Status: http.StatusTooManyRequests, Title: "Wait a little",
		Sentence: "There were too many wrong passwords. payersync accepts none for now, not even the right one.",
		Next: fmt.Sprintf("Wait %s, and type it again. A browser that you signed in with before need not wait.",
			exactly(d)),
	}
}

// exactly writes a time to wait in minutes and seconds. It rounds up, so that the wait is over then.
func exactly(d time.Duration) string {
	seconds := int((d + time.Second - 1) / time.Second)
	minutes, rest := connector.Plural(seconds/60, "minute"), connector.Plural(seconds%60, "second")
	switch {
	case seconds < 60:
		return rest
	case seconds%60 == 0:
		return minutes
	}
	return minutes + " and " + rest
}

var busy = problem{Status: http.StatusServiceUnavailable, Title: "Wait a little",
	Sentence: "Too many people sign in at this moment.", Next: "Type the password again in a few seconds."}

// knock returns the user for a name and password. For an unknown name, its answer and duration are the same as for a
// wrong password.
func (p *Pages) knock(r *http.Request, typed, password string) (*state.User, error) {
	name, err := admin.UserName(typed)
	if err != nil {
		name = shortened(strings.ToLower(typed)) // nobody's
	}
	user, err := p.cfg.Ledger.User(r.Context(), name)
	if err != nil {
		return nil, err
	}
	hash := connector.Secret{}
	if user != nil {
		hash = user.Password
	}
	now, door := time.Now(), p.cfg.Door
	try, left, err := door.enter(r.Context(), name, p.cfg.Network(r), p.deviceOf(r, name, hash, now), now)
	if err != nil {
		return nil, err
	}
	if left > 0 {
		p.noteWrong(r.Context(), user)
		return nil, errors.Join(tooOften(left), tooSoon(left))
	}
	right, err := door.passwords.Right(r.Context(), try.from, password, hash)
	switch {
	case errors.Is(err, admin.ErrHashing):
		return nil, errors.Join(busy, door.unchecked(r.Context(), try))
	case err != nil:
		return nil, errors.Join(err, door.unchecked(r.Context(), try))
	case !right:
		p.noteWrong(r.Context(), user)
		if _, err := door.save(r.Context(), now, saveEvery); err != nil {
			p.cfg.Report(Event{Route: "the counters of wrong passwords", Err: err})
		}
		return nil, wrongPassword
	}
	return user, door.good(r.Context(), try)
}

// shortened returns so much of a name as can be one.
func shortened(name string) string {
	runes := []rune(strings.TrimSpace(name))
	return string(runes[:min(len(runes), 64)])
}

// noteWrong notes wrong passwords in the audit log. It does not note the text of an unknown name, because this may have
// been the password. The answer does not wait for the entry: entries for users and for other names differ in frequency,
// so the duration would reveal users.
func (p *Pages) noteWrong(ctx context.Context, user *state.User) {
	whose := "a name that is nobody's"
	if user != nil {
		whose = user.Name
	}
	p.cfg.Door.later(func() {
		p.noteRefusal(ctx, "password "+whose,
			state.Entry{Actor: "somebody", Action: "refuse to sign in", Subject: whose, Reason: "wrong password"})
	})
}

// noteRefusal notes a refusal in the audit log, at most once a minute of each kind, so refused clients cannot fill the
// ledger. It counts the others.
func (p *Pages) noteRefusal(ctx context.Context, of string, e state.Entry) {
	n := p.cfg.Door.countRefusal(of, time.Now())
	if n == 0 {
		return
	}
	if n > 1 {
		e.Reason += fmt.Sprintf("; %d times since the line before", n)
	}
	if err := admin.Audit(context.WithoutCancel(ctx), p.cfg.Ledger, e); err != nil {
		p.cfg.Report(Event{Route: "the audit log", User: e.Actor, Err: err})
	}
}

// noInvitation is the answer to an invalid invitation.
var noInvitation = problem{
	Status: http.StatusGone, Title: "This invitation is used up",
	Sentence: "It was used before, was replaced by another one, or is older than three days.",
	Next:     "Sign in if you have chosen a password. Otherwise ask the person who invited you for another invitation.",
	Path:     "/signin",
}

// invitation is the content of the page to choose a password.
type invitation struct {
	Name    string
	Problem string
	Least   int
}

// invited asks for a password. A GET uses nothing up: previews and scanners follow links, too.
func (p *Pages) invited(w http.ResponseWriter, r *http.Request) {
	user, err := p.users().Invited(r.Context(), r.PathValue("token"))
	if err != nil {
		p.refuse(w, r, nil, invitationProblem(err))
		return
	}
	p.render(w, nil, http.StatusOK, "invited", "Choose a password",
		invitation{Name: user.Name, Least: admin.ShortestPassword})
}

func invitationProblem(err error) error {
	if errors.Is(err, admin.ErrInvitation) {
		return noInvitation
	}
	return err
}

// useInvitation stores the chosen password, and signs in.
func (p *Pages) useInvitation(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	user, err := p.users().Invited(r.Context(), token)
	if err != nil {
		p.refuse(w, r, nil, invitationProblem(err))
		return
	}
	hash, problem, err := p.chosen(r, user.Name)
	if problem != "" {
		p.render(w, nil, http.StatusUnprocessableEntity, "invited", "Problem: Choose a password",
			invitation{Name: user.Name, Least: admin.ShortestPassword, Problem: problem})
		return
	}
	if err == nil {
		err = p.begin(w, r, arrival{
			user: User{Name: user.Name, Role: Role(user.Role)}, way: byPassword,
			said: fmt.Sprintf("as %s, by invitation", user.Role), note: "Your password is kept. You are signed in.",
			password: hash,
			use: func(tx *state.Tx) error {
				return invitationProblem(p.users().UseInvitation(tx, token, user.Name, hash))
			},
		})
	}
	p.home(w, r, err)
}

// chosen returns the hash of a password typed twice, or the problem with it.
func (p *Pages) chosen(r *http.Request, name string) (hash connector.Secret, problem string, err error) {
	password := r.PostFormValue("password")
	switch {
	case password != r.PostFormValue("again"):
		return hash, "The two passwords differ. Type the same one twice.", nil
	case strings.Contains(strings.ToLower(password), name) && len(password) < len(name)+admin.ShortestPassword:
		return hash, "The password contains the name. Choose another one.", nil
	}
	hash, err = p.cfg.Door.passwords.Hash(r.Context(), password)
	switch {
	case errors.Is(err, admin.ErrPasswordLength):
		return hash, fmt.Sprintf("The password is too short or too long. Choose one of %d to %d characters.",
			admin.ShortestPassword, admin.LongestPassword), nil
	case errors.Is(err, admin.ErrHashing):
		return hash, busy.Sentence + " " + busy.Next, nil
	}
	return hash, "", err
}

// users holds the acts on users.
func (p *Pages) users() admin.Users { return admin.Users{Ledger: p.cfg.Ledger} }

package pages

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"payersync/connector"
	"payersync/state"
)

const (
	idleFor    = 30 * time.Minute // without a request a login ends
	loginFor   = 12 * time.Hour   // however busy, a login ends
	touchEvery = time.Minute      // the time between updates of the last activity
	linkFor    = 10 * time.Minute // the life of an unused sign-in link
)

// The keys of a login's data.
const (
	keyUser  = "user"
	keyRole  = "role"
	keySeen  = "seen"  // the last stored activity
	keyBegan = "began" // when somebody signed in
	keyNote  = "note"  // the last act's result, for the next page
	keyWay   = "way"   // how somebody signed in
	keyBack  = "back"  // the page after retyping the password
	keyEnds  = "ends"  // the count of endings of all the person's logins
	keyShow  = "show"  // an invitation, shown once
	keySees  = "sees"  // the login's connections
)

// How somebody signed in. By a provider it is the third, with the provider behind it.
const (
	byLink     = "link"
	byPassword = "password"
	byProvider = "provider "
)

// store keeps logins in the ledger. They expire by the system clock, not by the ledger's clock, because a demonstration
// advances that by days.
type store struct{ ledger *state.Ledger }

func (s store) FindCtx(ctx context.Context, hash string) (data []byte, found bool, err error) {
	data, expires, err := s.ledger.Login(ctx, hash)
	return data, data != nil && time.Now().Before(expires), err
}

func (s store) CommitCtx(ctx context.Context, hash string, data []byte, expires time.Time) error {
	if tx, begins := ctx.Value(signingIn{}).(*state.Tx); begins {
		return tx.AddLogin(hash, data, expires, time.Now())
	}
	return s.ledger.Do(ctx, func(tx *state.Tx) error { return tx.KeepLogin(hash, data, expires) })
}

func (s store) DeleteCtx(ctx context.Context, hash string) error {
	if tx, begins := ctx.Value(signingIn{}).(*state.Tx); begins {
		return tx.DropLogin(hash)
	}
	return s.ledger.Do(ctx, func(tx *state.Tx) error { return tx.DropLogin(hash) })
}

// signingIn is the context key of the write to use up a link: the login begins in the same write.
type signingIn struct{}

// errNoContext means the library now calls without a context.
var errNoContext = errors.New("a login is asked for without a context")

func (store) Find(string) ([]byte, bool, error)      { return nil, false, errNoContext }
func (store) Commit(string, []byte, time.Time) error { return errNoContext }
func (store) Delete(string) error                    { return errNoContext }

// newLogins returns the session manager. It does not use scs.New, because this starts a goroutine for an unused store,
// and every reload of the configuration makes new pages.
func (p *Pages) newLogins() *scs.SessionManager {
	m := &scs.SessionManager{
		Lifetime: loginFor, IdleTimeout: idleFor, Codec: scs.GobCodec{}, Store: store{p.cfg.Ledger}, HashTokenInStore: true,
		Cookie: scs.SessionCookie{Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: p.cfg.Secure},
	}
	m.Cookie.Name = "payersync-" + ledgerMark(p.cfg.Ledger) // cookies know no ports: two ledgers on one machine are two
	if p.cfg.Secure {
		m.Cookie.Name = "__Host-" + m.Cookie.Name
	}
	return m
}

// ledgerMark distinguishes the ledgers of one machine without revealing their place.
func ledgerMark(l *state.Ledger) string {
	path, _ := l.Path()
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:4])
}

// NewLink stores a single-use sign-in link in the ledger and returns its path. It is valid for ten minutes by the
// machine's clock. by names its creator in the audit log.
func NewLink(ctx context.Context, ledger *state.Ledger, user User, by string) (path string, err error) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	text := base64.RawURLEncoding.EncodeToString(token)
	now := time.Now()
	made := fmt.Sprintf("%s as %s", user.Name, user.Role)
	if user.Connections != nil {
		made += ", limited to " + strings.Join(user.Connections, " ")
	}
	err = ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(
			tx.Audit(state.Entry{Actor: by, Action: "make a sign-in link", Subject: made}),
			tx.AddLoginLink(hashed(text),
				state.LoginLink{Person: user.Name, Role: string(user.Role), MadeAt: now, ExpiresAt: now.Add(linkFor),
					Connections: user.Connections}))
	})
	return "/signin/once/" + text, err
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// signedIn answers requests of signed-in users with the role for the route.
func (p *Pages) signedIn(to route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := p.visitOf(w, r)
		if err == nil && !v.User.Role.May(to.role) {
			err = forbidden(to.role)
		}
		if err == nil {
			err = v.within(to)
		}
		if err == nil {
			err = to.answer(v)
		}
		if err != nil {
			p.refuse(w, r, v, err)
		}
	})
}

// visitOf returns the visit of a request.
func (p *Pages) visitOf(w http.ResponseWriter, r *http.Request) (*visit, error) {
	ctx, err := p.logins.Load(r.Context(), p.token(r))
	if err != nil {
		return nil, err
	}
	v := &visit{Request: r.WithContext(ctx), w: w, pages: p}
	v.User = User{Name: p.logins.GetString(ctx, keyUser), Role: Role(p.logins.GetString(ctx, keyRole))}
	if v.User.Name == "" {
		return nil, signInNow
	}
	v.User.Connections, _ = p.logins.Get(ctx, keySees).([]string)
	v.way = p.logins.GetString(ctx, keyWay)
	if err := p.stillIn(ctx, v); err != nil {
		return nil, err
	}
	v.touch()
	return v, nil
}

// stillIn fails if all logins of a person have ended since, or the login's provider is no longer configured. For users
// limited to connections it restricts the pages. It reads the limits for each request, for every kind of sign-in.
func (p *Pages) stillIn(ctx context.Context, v *visit) error {
	user, err := p.cfg.Ledger.User(ctx, strings.ToLower(v.User.Name))
	if err != nil {
		return err
	}
	var ends int64
	if user != nil {
		ends = user.Generation
	}
	issuer, provided := strings.CutPrefix(v.way, byProvider)
	sees := v.User.Connections
	if user != nil {
		sees = both(sees, user.Connections)
	}
	if sees != nil {
		v.pages = p.only(sees)
	}
	if ends != p.logins.GetInt64(ctx, keyEnds) || provided && (p.cfg.Provider == nil || p.cfg.Provider.Issuer != issuer) {
		return signInNow
	}
	return nil
}

// token returns the token of a request; "" for none.
func (p *Pages) token(r *http.Request) string {
	c, err := r.Cookie(p.logins.Cookie.Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// touch records the user's activity. A ledger without writes still shows its pages; only the login is not extended.
func (v *visit) touch() {
	ctx := v.Context()
	if time.Since(time.Unix(v.pages.logins.GetInt64(ctx, keySeen), 0)) < touchEvery {
		return
	}
	v.pages.logins.Put(ctx, keySeen, time.Now().Unix())
	if err := v.keep(); err != nil {
		v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: http.StatusOK, Err: err})
	}
}

// keep commits the values stored with the login.
func (v *visit) keep() error {
	_, _, err := v.pages.logins.Commit(v.Context())
	return err
}

var usedUp = problem{
	Status: http.StatusGone, Title: "This sign-in link does not work",
	Sentence: "It was used before, or is older than ten minutes.",
	Next:     "Make another one on the machine that runs payersync.", Do: connector.DoOpenPages,
}

// once shows a button. A GET uses nothing up: previews and scanners follow links, too.
func (p *Pages) once(w http.ResponseWriter, r *http.Request) {
	link, err := p.cfg.Ledger.LoginLink(r.Context(), hashed(r.PathValue("token")))
	if err == nil && (link == nil || link.Invites || !link.UsedAt.IsZero() || !time.Now().Before(link.ExpiresAt)) {
		err = usedUp
	}
	if err != nil {
		p.refuse(w, r, nil, err)
		return
	}
	p.render(w, nil, http.StatusOK, "once", "Sign in", userOf(link))
}

// userOf returns the user of a link.
func userOf(link *state.LoginLink) User {
	return User{Name: link.Person, Role: Role(link.Role), Connections: link.Connections}
}

// useOnce uses a link up and signs its person in.
func (p *Pages) useOnce(w http.ResponseWriter, r *http.Request) {
	hash := hashed(r.PathValue("token"))
	link, err := p.cfg.Ledger.LoginLink(r.Context(), hash)
	if err == nil && (link == nil || link.Invites) {
		err = usedUp
	}
	if err == nil {
		err = p.begin(w, r, arrival{user: userOf(link), way: byLink, said: "as " + link.Role, use: func(tx *state.Tx) error {
			good, err := tx.UseLoginLink(hash, time.Now())
			if err == nil && !good {
				err = usedUp
			}
			return err
		}})
	}
	p.home(w, r, err)
}

// home leads to the overview, or explains the problem.
func (p *Pages) home(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		p.refuse(w, r, nil, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// arrival is a user after a successful sign-in.
type arrival struct {
	user User
	way  string
	said string                // of the sign-in, for the audit log; "" where it is none
	note string                // for the next page
	use  func(*state.Tx) error // the check within the write that begins the login; nil if checked before
	ends int64                 // without use: the count of endings of all the person's logins at the check

	password connector.Secret // the hash of the typed or chosen password, for a device cookie; zero for none
}

// begin begins a login with a new token. The browser's earlier login ends.
func (p *Pages) begin(w http.ResponseWriter, r *http.Request, who arrival) error {
	ctx, err := p.logins.Load(r.Context(), p.token(r))
	if err != nil { // an unreadable cookie must not lock anybody out
		if ctx, err = p.logins.Load(r.Context(), ""); err != nil {
			return err
		}
	}
	var token string
	var expires time.Time
	err = p.cfg.Ledger.Do(ctx, func(tx *state.Tx) error {
		if who.use != nil {
			if err := who.use(tx); err != nil {
				return err
			}
		}
		ends, err := tx.Generation(strings.ToLower(who.user.Name))
		if err != nil {
			return err
		}
		if who.use == nil && ends != who.ends { // the role or the password is another one meanwhile
			return signInNow
		}
		ctx := context.WithValue(ctx, signingIn{}, tx)
		if err := errors.Join(p.logins.RenewToken(ctx), p.logins.Clear(ctx)); err != nil {
			return err
		}
		for key, value := range map[string]any{
			keyUser: who.user.Name, keyRole: string(who.user.Role), keyWay: who.way, keyEnds: ends, keyNote: who.note,
			keySeen: time.Now().Unix(), keyBegan: time.Now().Unix(),
		} {
			p.logins.Put(ctx, key, value)
		}
		if who.user.Connections != nil {
			p.logins.Put(ctx, keySees, who.user.Connections)
		}
		if token, expires, err = p.logins.Commit(ctx); err != nil || who.said == "" {
			return err
		}
		return tx.Audit(state.Entry{Actor: who.user.Name, Action: "sign in", Subject: who.said})
	})
	if err == nil {
		p.logins.WriteSessionCookie(ctx, w, token, expires)
		if !who.password.IsZero() {
			p.keepDevice(w, r, strings.ToLower(who.user.Name), who.password, time.Now())
		}
	}
	return err
}

// signOut ends a login.
func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) {
	v, err := p.visitOf(w, r)
	if err == nil {
		err = p.logins.Destroy(v.Context())
	}
	if err != nil && !errors.Is(err, signInNow) {
		p.refuse(w, r, v, err)
		return
	}
	p.logins.WriteSessionCookie(r.Context(), w, "", time.Time{}) // it removes the cookie
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

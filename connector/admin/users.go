package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"payersync/connector"
	"payersync/state"
)

// Users are the people with a password for the pages, with the actions on them. Any removal of a right (another role,
// another password, removal of the user) ends all logins of the person.
type Users struct{ Ledger *state.Ledger }

// The errors of actions on users.
var (
	// ErrNoUser means there is no user with this name.
	ErrNoUser = errors.New("there is no user of this name")
	// ErrLastAdmin means nobody else with a password could manage users.
	ErrLastAdmin = errors.New("nobody else with a password has the role admin and sees all connections")
	// ErrUserName means a name is invalid for a user.
	ErrUserName = errors.New("a name has letters, digits, spaces and . _ @ + ' -, begins with a letter or digit, and is 64 characters long at most")
	// ErrInvitation means an invitation was used, or is too old.
	ErrInvitation = errors.New("the invitation was used before, was replaced, or is older than three days")
)

// InvitationFor is how long an invitation waits to be used.
const InvitationFor = 3 * 24 * time.Hour

// userName is the form of a user's name, and longestName how many letters it has at most.
var userName = regexp.MustCompile(`^[\pL\pN][\pL\pN\pM ._@+'-]*$`)

const longestName = 64

// UserName returns the standard spelling of a user's name, in lower case.
func UserName(text string) (string, error) {
	name := strings.ToLower(strings.TrimSpace(text))
	if utf8.RuneCountInString(name) > longestName || !userName.MatchString(name) {
		return "", ErrUserName
	}
	return name, nil
}

// reservedNames are the names of other actors in the audit log.
var reservedNames = []string{"payersync", "root", "schedule"}

// ErrReservedName is an ErrUserName: another actor in the audit log has the name.
var ErrReservedName error = reservedName{}

type reservedName struct{}

// Error lists the reserved names.
func (reservedName) Error() string {
	return "the names " + strings.Join(reservedNames, ", ") +
		" are reserved: they stand in the audit log for actors that are no users of the pages"
}

// Is reports a reserved name as an ErrUserName.
func (reservedName) Is(target error) bool { return target == ErrUserName }

// NewUserName returns the standard spelling of a name for a new user. It fails with ErrUserName, or with
// ErrReservedName for the name of another actor.
func NewUserName(text string) (string, error) {
	name, err := UserName(text)
	if err == nil && slices.Contains(reservedNames, name) {
		return "", ErrReservedName
	}
	return name, err
}

// Invite creates a user with a role, or lets an existing user choose a new password. It returns the path of a
// single-use link. A new user is limited to these connections; none means all. An existing user keeps the role and the
// limits, and the old password works until the link is used. Earlier invitations of the person end.
func (u Users) Invite(ctx context.Context, name, role string, connections []string, by string) (path string,
	err error) {
	if name, err = NewUserName(name); err != nil {
		return "", err
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	text := base64.RawURLEncoding.EncodeToString(token)
	now := time.Now() // a demonstration moves the ledger's clock, not the browsers'
	err = u.Ledger.Do(ctx, func(tx *state.Tx) error {
		added, err := tx.AddUser(name, role)
		if err != nil {
			return err
		}
		entry := state.Entry{Actor: by, Action: "invite a user", Subject: fmt.Sprintf("%s as %s", name, role)}
		switch {
		case added && len(connections) > 0:
			entry.Subject += ", limited to " + strings.Join(connections, " ")
			if _, err := tx.LimitUser(name, connections); err != nil {
				return err
			}
		case !added:
			entry = state.Entry{Actor: by, Action: "invite to another password", Subject: name}
		}
		return errors.Join(tx.Audit(entry), tx.DropInvitations(name),
			tx.AddLoginLink(hashOfToken(text),
				state.LoginLink{Person: name, Role: role, MadeAt: now, ExpiresAt: now.Add(InvitationFor), Invites: true}))
	})
	return "/signin/invited/" + text, err
}

func hashOfToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Invited returns the user of an invitation without using it up. It fails with ErrInvitation.
func (u Users) Invited(ctx context.Context, token string) (*state.User, error) {
	link, err := u.Ledger.LoginLink(ctx, hashOfToken(token))
	if err != nil {
		return nil, err
	}
	if link == nil || !link.Invites || !link.UsedAt.IsZero() || !time.Now().Before(link.ExpiresAt) {
		return nil, ErrInvitation
	}
	user, err := u.Ledger.User(ctx, link.Person)
	if err == nil && user == nil {
		err = ErrInvitation
	}
	return user, err
}

// UseInvitation sets the password of an invitation's user, within a write for the sign-in, and uses the invitation up.
// Of two simultaneous uses, one succeeds. It fails with ErrInvitation.
func (Users) UseInvitation(tx *state.Tx, token, name string, hash connector.Secret) error {
	good, err := tx.UseLoginLink(hashOfToken(token), time.Now())
	if err != nil {
		return err
	}
	if !good {
		return ErrInvitation
	}
	found, err := tx.SetPassword(name, hash)
	if err == nil && !found {
		err = ErrInvitation
	}
	return errors.Join(err, tx.Audit(state.Entry{Actor: name, Action: "choose a password", Subject: "by invitation"}))
}

// ChangePassword sets a user's new password within a write to keep the person's own login.
func (Users) ChangePassword(tx *state.Tx, name string, hash connector.Secret) error {
	found, err := tx.SetPassword(name, hash)
	if err == nil && !found {
		err = ErrNoUser
	}
	return errors.Join(err, tx.Audit(state.Entry{Actor: name, Action: "change the password"}))
}

// SetRole gives a user another role. The last admin keeps it, unless evenLast says so.
func (u Users) SetRole(ctx context.Context, name, role, by string, evenLast bool) error {
	entry := state.Entry{Actor: by, Action: "change a role", Subject: fmt.Sprintf("%s to %s", name, role)}
	return u.change(ctx, name, entry, evenLast || role == string(Admin),
		func(tx *state.Tx) (bool, error) { return tx.SetRole(name, role) })
}

// Limit limits a user to connections; none means all. The last admin with all connections keeps this, unless evenLast
// is set.
func (u Users) Limit(ctx context.Context, name string, connections []string, by string, evenLast bool) error {
	entry := state.Entry{Actor: by, Action: "limit a user", Subject: name + " to " + strings.Join(connections, " ")}
	if len(connections) == 0 {
		entry = state.Entry{Actor: by, Action: "let a user see all connections", Subject: name}
	}
	return u.change(ctx, name, entry, evenLast || len(connections) == 0,
		func(tx *state.Tx) (bool, error) { return tx.LimitUser(name, connections) })
}

// Remove removes a user. The last admin stays, unless evenLast says so.
func (u Users) Remove(ctx context.Context, name, by string, evenLast bool) error {
	entry := state.Entry{Actor: by, Action: "remove a user", Subject: name}
	return u.change(ctx, name, entry, evenLast, func(tx *state.Tx) (bool, error) { return tx.RemoveUser(name) })
}

// change carries out an action on a user. It refuses to remove the last admin, unless evenLast is set.
func (u Users) change(ctx context.Context, name string, entry state.Entry, evenLast bool,
	do func(*state.Tx) (bool, error)) error {
	return u.Ledger.Do(ctx, func(tx *state.Tx) error {
		last, err := tx.LastAdmin(name)
		switch {
		case err != nil:
			return err
		case last && !evenLast:
			return ErrLastAdmin
		}
		found, err := do(tx)
		if err == nil && !found {
			err = ErrNoUser
		}
		return errors.Join(err, tx.Audit(entry))
	})
}

package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// users lists the users with a password, and shows an invitation just created.
func (v *visit) users() error {
	all, err := v.ledger().Users(v.Context())
	if err != nil {
		return err
	}
	link := v.pages.logins.PopString(v.Context(), keyShow)
	if link != "" {
		if err := v.keep(); err != nil {
			return err
		}
	}
	provider := ""
	if v.pages.cfg.Provider != nil {
		provider = v.pages.cfg.Provider.called()
	}
	return v.show("users", "Users", struct {
		Users    []state.User
		Roles    []Role
		Link     string
		Days     int
		Provider string
		Limits   []limit
	}{all, Roles, link, int(admin.InvitationFor / (24 * time.Hour)), provider, v.limits(nil)})
}

// role returns the role named by a form.
func (v *visit) role() (Role, error) {
	role := Role(v.filled("role"))
	if !slices.Contains(Roles, role) {
		return "", problem{Status: http.StatusUnprocessableEntity, Title: "Choose a role",
			Sentence: "Nothing was changed: the form named no role.", Next: "Go back, and choose one."}
	}
	return role, nil
}

// limit is a connection for limiting a user.
type limit struct {
	Connection string
	Here       bool
}

// limits returns the connections for limiting a user; none if there is only one and the user sees it.
func (v *visit) limits(to []string) (out []limit) {
	out = connector.Map(v.pages.cfg.Connections, func(name string) limit { return limit{name, slices.Contains(to, name)} })
	if len(out) < 2 && to == nil {
		return nil
	}
	return out
}

// limited returns the connections ticked in a form; none for all.
func (v *visit) limited() ([]string, error) {
	ticked := v.PostForm["connection"]
	for _, name := range ticked {
		if !slices.Contains(v.pages.cfg.Connections, name) {
			return nil, problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was changed",
				Sentence: "There is no connection of this name.", Next: "Go back, and tick those that there are."}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ticked))), nil
}

// invite makes a user, and keeps the invitation to be shown once.
func (v *visit) invite() error {
	const list = "/settings/users"
	if err := v.fresh(list); err != nil {
		return err
	}
	role, err := v.role()
	if err != nil {
		return err
	}
	to, err := v.limited()
	if err != nil {
		return err
	}
	return v.inviteAs(v.filled("name"), role, to)
}

func (v *visit) inviteAs(name string, role Role, to []string) error {
	path, err := v.pages.users().Invite(v.Context(), name, string(role), to, v.User.Name)
	if errors.Is(err, admin.ErrUserName) {
		return problem{Status: http.StatusUnprocessableEntity, Title: "The name cannot be used",
			Sentence: "Nothing was changed: " + err.Error() + ".",
			Next:     "Go back, and choose another name; an e-mail address will do."}
	}
	if err != nil {
		return err
	}
	v.pages.logins.Put(v.Context(), keyShow, v.base()+path)
	return v.done("The invitation is below, and is shown only once. Give it to that person alone.", "/settings/users")
}

// base is how the browser reaches these pages; its host is one of ours.
func (v *visit) base() string {
	scheme := "http"
	if v.pages.cfg.Secure {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: v.Host}).String()
}

// namedUser returns the user named by the address.
func (v *visit) namedUser() (*state.User, error) {
	user, err := v.ledger().User(v.Context(), v.PathValue("name"))
	if err == nil && user == nil {
		err = problem{Status: http.StatusNotFound, Title: "There is no such user",
			Sentence: "No user with this name signs in with a password.", Next: "The list of users shows all users.",
			Path: "/settings/users"}
	}
	return user, err
}

// user shows one user, with the possible acts.
func (v *visit) user() error {
	user, err := v.namedUser()
	if err != nil {
		return err
	}
	return v.show("user", user.Name, struct {
		*state.User
		Roles  []Role
		Self   bool
		Limits []limit
	}{user, Roles, user.Name == v.User.Name, v.limits(user.Connections)})
}

// changeUser gives a user another role or other limits, invites to another password, or removes
// the user.
func (v *visit) changeUser() error {
	user, err := v.namedUser()
	if err != nil {
		return err
	}
	if err := v.fresh(v.URL.Path); err != nil {
		return err
	}
	note, users := "", v.pages.users()
	switch v.filled("do") {
	case "role":
		role, wrong := v.role()
		if wrong != nil {
			return wrong
		}
		err = users.SetRole(v.Context(), user.Name, string(role), v.User.Name, false)
		note = fmt.Sprintf("%s now has the role %s, and must sign in again.", user.Name, role)
	case "limit":
		to, wrong := v.limited()
		if wrong != nil {
			return wrong
		}
		err = users.Limit(v.Context(), user.Name, to, v.User.Name, false)
		note = fmt.Sprintf("%s now sees only %s, and must sign in again.", user.Name, strings.Join(to, ", "))
		if len(to) == 0 {
			note = user.Name + " now sees all connections, and must sign in again."
		}
	case "invite":
		return v.inviteAs(user.Name, Role(user.Role), nil)
	case "remove":
		err = users.Remove(v.Context(), user.Name, v.User.Name, false)
		note = user.Name + " is no longer a user. All sessions of that person have ended."
	default:
		return problem{Status: http.StatusBadRequest, Title: "Nothing was changed", Sentence: "The form has no action.",
			Next: "Open the user, and use one of the buttons."}
	}
	if errors.Is(err, admin.ErrLastAdmin) {
		return problem{
			Status: http.StatusConflict, Title: "The last admin stays",
			Sentence: "No other admin with a password sees all connections, so nobody could manage users. Nothing was changed.",
			Next:     "Give somebody else the role first.", Path: "/settings/users",
		}
	}
	if err != nil {
		return err
	}
	return v.done(note, "/settings/users")
}

// passwordForm is the content of the pages with a password field.
type passwordForm struct {
	Problem string
	Least   int
}

// hasPassword fails for users signed in without a password.
func (v *visit) hasPassword() error {
	if v.way == byPassword {
		return nil
	}
	return problem{Status: http.StatusConflict, Title: "There is no password to type",
		Sentence: "You signed in by a sign-in link or by a provider.",
		Next:     "If a recent sign-in is needed, sign out and sign in again."}
}

// typed shows a form for passwords once more, with the mistake.
func (v *visit) typed(page, title string, err error) error {
	var is problem
	if !errors.As(err, &is) || is.err != nil {
		return err
	}
	v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: is.Status})
	status := is.Status
	if status == http.StatusUnauthorized { // the person is signed in
		status = http.StatusUnprocessableEntity
	}
	sentence := is.Sentence + " " + is.Next
	if is == wrongPassword {
		sentence = "The password is not right. Type it once more."
	}
	v.pages.render(wait(v.w, err), v, status, page, "Problem: "+title,
		passwordForm{Problem: sentence, Least: admin.ShortestPassword})
	return nil
}

// askPassword asks for another password.
func (v *visit) askPassword() error {
	if err := v.hasPassword(); err != nil {
		return err
	}
	return v.show("password", "Your password", passwordForm{Least: admin.ShortestPassword})
}

// changePassword stores a new password. All other logins of the person end.
func (v *visit) changePassword() error {
	if err := v.hasPassword(); err != nil {
		return err
	}
	if _, err := v.pages.knock(v.Request, v.User.Name, v.PostFormValue("current")); err != nil {
		return v.typed("password", "Your password", err)
	}
	hash, wrong, err := v.pages.chosen(v.Request, v.User.Name)
	if wrong != "" {
		return v.typed("password", "Your password", problem{Status: http.StatusUnprocessableEntity, Sentence: wrong})
	}
	if err != nil {
		return err
	}
	err = v.pages.begin(v.w, v.Request, arrival{
		user: v.User, way: byPassword, note: "Your password is changed. All your other sessions have ended.", password: hash,
		use: func(tx *state.Tx) error { return v.pages.users().ChangePassword(tx, v.User.Name, hash) },
	})
	if err == nil {
		http.Redirect(v.w, v.Request, "/settings", http.StatusSeeOther)
	}
	return err
}

// askAgain asks the signed-in user for the password.
func (v *visit) askAgain() error {
	if err := v.hasPassword(); err != nil {
		return err
	}
	return v.show("again", "Type your password again", passwordForm{})
}

// again accepts the password as a new sign-in, and returns to the requesting page.
func (v *visit) again() error {
	if err := v.hasPassword(); err != nil {
		return err
	}
	user, err := v.pages.knock(v.Request, v.User.Name, v.PostFormValue("password"))
	if err != nil {
		return v.typed("again", "Type your password again", err)
	}
	back := v.pages.logins.GetString(v.Context(), keyBack)
	back = cmp.Or(back, "/")
	err = v.pages.begin(v.w, v.Request, arrival{
		user: v.User, way: byPassword, note: "Your password is confirmed. Now repeat the action.",
		said: fmt.Sprintf("as %s, by password once more", user.Role), ends: user.Generation, password: user.Password,
	})
	if err == nil {
		http.Redirect(v.w, v.Request, back, http.StatusSeeOther) //nolint:gosec // back is a page of ours, kept with the login
	}
	return err
}

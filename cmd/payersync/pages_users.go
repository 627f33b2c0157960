package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/state"
)

func (a *app) pagesUsersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "users",
		Short: "Manage the users that sign in to the pages with a password",
		Long: `Users sign in to the pages of payersync serve. You invite a user by a link, and the
user chooses a password there, unknown to anybody else. A viewer reads; an operator
also sees addresses and signing links, and acts; an admin may do all. You can limit a
user to some connections: the pages hide all others. Admins without such limits can do
the same on the pages, under Settings, Users.`,
		Example: "  payersync pages users\n  payersync pages users invite anna --role operator --connection acme",
	}
	return shows(subcommands(c, a.usersInviteCmd(), a.usersRoleCmd(), a.usersLimitCmd(), a.usersRemoveCmd()),
		a.usersListCmd())
}

// userRow is a user as the list shows it.
type userRow struct {
	Name       string    `json:"name"`
	Role       string    `json:"role"`
	MadeAt     time.Time `json:"made_at"`
	PasswordAt time.Time `json:"password_at,omitzero"` // left out until the invitation is used

	Connections []string `json:"connections,omitempty"` // the user's limits; omitted for none
}

func (a *app) usersListCmd() *cobra.Command {
	return asCSV(&cobra.Command{
		Use: "list", Short: "List the users",
		Long:    "Lists the users with a password, with role, connections and date.",
		Example: "  payersync pages users",
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, _ []string) error {
			users, err := s.Ledger.Users(ctx)
			if err != nil {
				return err
			}
			return userListing().On(a.Console).Print(connector.Map(users, func(u state.User) userRow {
				return userRow{u.Name, u.Role, u.MadeAt, u.PasswordAt, u.Connections}
			}))
		}),
	})
}

func userListing() *show.Listing[userRow] {
	password := show.Moment("", "", func(u userRow) time.Time { return u.PasswordAt })
	made := show.Moment("", "", func(u userRow) time.Time { return u.MadeAt })
	return &show.Listing[userRow]{Empty: "Nobody signs in with a password yet: payersync pages users invite NAME --role viewer", Columns: []show.Column[userRow]{
		{Name: "name", Title: "Name", Cell: func(u userRow) string { return u.Name }},
		{Name: "role", Title: "Role", Cell: func(u userRow) string { return u.Role }},
		{Name: "connections", Title: "Sees", Cell: func(u userRow) string {
			if u.Connections == nil {
				return "all"
			}
			return strings.Join(u.Connections, " ")
		}},
		{Name: "password_at", Title: "Password", Cell: func(u userRow) string {
			if u.PasswordAt.IsZero() {
				return "invited"
			}
			return "since " + u.PasswordAt.UTC().Format(time.DateOnly)
		}, Stored: password.Stored},
		{Name: "made_at", Title: "Since", Cell: func(u userRow) string { return u.MadeAt.UTC().Format(time.DateOnly) },
			Stored: made.Stored},
	}}
}

// roleNamed returns the role of a text.
func roleNamed(text string) (string, error) {
	if !slices.Contains(pages.Roles, pages.Role(text)) {
		return "", usage.Errorf("there is no role %q; it is viewer, operator or admin", text)
	}
	return text, nil
}

func (a *app) usersInviteCmd() *cobra.Command {
	role := string(pages.Viewer)
	var connections []string
	c := &cobra.Command{
		Use:   "invite NAME",
		Short: "Invite somebody to choose a password",
		Long: `Prints an invitation. By this link a person chooses a password, once, within three
days. Give it to that person alone: payersync mails nothing. An existing user sets
another password with it, and all earlier logins end; role and limits stay.`,
		Example: "  payersync pages users invite anna --role operator\n  payersync pages users invite bob --connection acme --connection beta",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runUsersInvite(cmd.Context(), args, role, connections)
		},
	}
	c.Flags().StringVar(&role, "role", role, "viewer, operator or admin")
	c.Flags().StringArrayVar(&connections, "connection", nil, "limit a new user to the connection `NAME`; may be repeated")
	return c
}

func (a *app) runUsersInvite(ctx context.Context, args []string, role string, connections []string) error {
	as, err := roleNamed(role)
	if err != nil {
		return err
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		address, err := adminAddress(s)
		if err != nil {
			return err
		}
		to, err := limitsNamed(s, connections)
		if err != nil {
			return err
		}
		path, err := admin.Users{Ledger: s.Ledger}.Invite(ctx, args[0], as, to, actor())
		if errors.Is(err, admin.ErrUserName) {
			return usage.Errorf("cannot invite %q: %w; choose another name, an e-mail address will do", args[0], err)
		}
		if err != nil {
			return err
		}
		a.Print("It lets %s choose a password, once, within three days:", args[0])
		fmt.Fprintln(a.Out, address+path)
		return nil
	})
}

// limitsNamed returns the connections of a text.
func limitsNamed(s *session.Session, typed []string) ([]string, error) {
	for _, name := range typed {
		if _, err := s.Config.One(name); err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(typed))), nil
}

func (a *app) usersLimitCmd() *cobra.Command {
	var connections []string
	var all, evenLast bool
	c := &cobra.Command{
		Use:   "limit NAME",
		Short: "Limit a user to connections",
		Long: `Limits a user to the connections of --connection, or removes the limits. All logins of
the user end. A limited user sees nothing of other connections on the pages. Webhooks,
letters, users and the audit log are hidden too, because they belong to all
connections; a limited admin does not manage users.`,
		Example: "  payersync pages users limit anna --connection acme\n  payersync pages users limit anna --all",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runUsersLimit(cmd.Context(), args, connections, all, evenLast)
		},
	}
	c.Flags().StringArrayVar(&connections, "connection", nil, "the connection `NAME`; may be repeated")
	c.Flags().BoolVar(&all, "all", false, "all connections, also those to come")
	c.Flags().BoolVar(&evenLast, "even-last", false, "also if no other user with a password is an admin without limits")
	return c
}

func (a *app) runUsersLimit(ctx context.Context, args, connections []string, all, evenLast bool) error {
	if all == (len(connections) > 0) {
		return usage.Errorf("the limits are missing, so nothing was changed; give --connection NAME, which may be repeated, or --all")
	}
	said := "sees all connections now; all logins of that person have ended."
	if !all {
		said = "sees " + strings.Join(connections, ", ") + " alone now; all logins of that person have ended."
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		to, err := limitsNamed(s, connections)
		if err != nil {
			return err
		}
		return a.changeUserOf(s, args[0], func(u admin.Users, name string) error {
			return u.Limit(ctx, name, to, actor(), evenLast)
		}, said)
	})
}

func (a *app) usersRoleCmd() *cobra.Command {
	var evenLast bool
	c := &cobra.Command{
		Use:     "role NAME ROLE",
		Short:   "Give a user another role",
		Long:    "Gives a user another role: viewer, operator or admin. All logins of that person end.",
		Example: "  payersync pages users role anna admin",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			role, err := roleNamed(args[1])
			if err != nil {
				return err
			}
			return a.changeUser(cmd, args[0], func(u admin.Users, name string) error {
				return u.SetRole(cmd.Context(), name, role, actor(), evenLast)
			}, "has the role "+role+" now; all logins of that person have ended.")
		},
	}
	c.Flags().BoolVar(&evenLast, "even-last", false, "also if no other user with a password is an admin")
	return c
}

func (a *app) usersRemoveCmd() *cobra.Command {
	var evenLast bool
	c := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a user",
		Long:    "Removes a user. All logins and invitations end at once. The audit log keeps your name.",
		Example: "  payersync pages users remove anna",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeUser(cmd, args[0], func(u admin.Users, name string) error {
				return u.Remove(cmd.Context(), name, actor(), evenLast)
			}, "is no user any more; all logins of that person have ended.")
		},
	}
	c.Flags().BoolVar(&evenLast, "even-last", false, "also if no other user with a password is an admin")
	return c
}

// changeUser changes a user, and reports it.
func (a *app) changeUser(cmd *cobra.Command, typed string, do func(admin.Users, string) error, said string) error {
	return a.with(cmd.Context(), a.openLedger,
		func(s *session.Session) error { return a.changeUserOf(s, typed, do, said) })
}

func (a *app) changeUserOf(s *session.Session, typed string, do func(admin.Users, string) error, said string) error {
	name, err := admin.UserName(typed)
	if err == nil {
		err = do(admin.Users{Ledger: s.Ledger}, name)
	}
	switch {
	case errors.Is(err, admin.ErrNoUser), errors.Is(err, admin.ErrUserName):
		return usage.Errorf("there is no user %q, so nothing was changed; payersync pages users names them", typed)
	case errors.Is(err, admin.ErrLastAdmin):
		return usage.Errorf("nothing was changed: %w, so nobody could manage users on the pages; first give another user the role, or add --even-last", err)
	case err == nil:
		a.Print("%s %s", name, said)
	}
	return err
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/office"
	"payersync/connector/pages"
)

func (a *app) pagesUsersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "users",
		Short: "Who signs in to the pages with a password",
		Long: `Users sign in to the pages that payersync serve shows. Each is invited by a link, and
chooses a password by it that nobody else learns. A viewer looks; an operator also sees
addresses and signing links, and acts; an admin may do all. An admin does the same on
the pages, under Settings, Users.`,
		Example: "  payersync pages users list\n  payersync pages users invite anna --role operator",
	}
	c.AddCommand(a.usersListCmd(), a.usersInviteCmd(), a.usersRoleCmd(), a.usersRemoveCmd())
	return c
}

// userRow is a user as the list shows it.
type userRow struct {
	Name       string    `json:"name"`
	Role       string    `json:"role"`
	MadeAt     time.Time `json:"made_at"`
	PasswordAt time.Time `json:"password_at,omitzero"` // left out until the invitation is used
}

func (a *app) usersListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the users",
		Long:    "Lists who signs in to the pages with a password, with the role, and since when.",
		Example: "  payersync pages users list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				users, err := s.Ledger.Users(cmd.Context())
				if err != nil {
					return err
				}
				var rows [][]string
				for _, u := range users {
					if a.JSON() {
						if err := show.JSON(a.Out, userRow{u.Name, u.Role, u.MadeAt, u.PasswordAt}); err != nil {
							return err
						}
						continue
					}
					password := "invited"
					if !u.PasswordAt.IsZero() {
						password = "since " + u.PasswordAt.UTC().Format(time.DateOnly)
					}
					rows = append(rows, []string{u.Name, u.Role, password, u.MadeAt.UTC().Format(time.DateOnly)})
				}
				switch {
				case len(rows) > 0:
					show.Table(a.Out, []string{"Name", "Role", "Password", "Since"}, rows)
				case !a.JSON():
					a.Say("Nobody signs in with a password yet: payersync pages users invite NAME --role viewer")
				}
				return nil
			})
		},
	}
}

// roleNamed returns the role that a person means.
func roleNamed(text string) (string, error) {
	if !slices.Contains(pages.Roles, pages.Role(text)) {
		return "", usage.Errorf("there is no role %q; it is viewer, operator or admin", text)
	}
	return text, nil
}

func (a *app) usersInviteCmd() *cobra.Command {
	role := string(pages.Viewer)
	c := &cobra.Command{
		Use:   "invite NAME",
		Short: "Invite somebody to choose a password",
		Long: `Prints a link by which somebody chooses a password, once, within three days. Hand it to
that person alone: nothing is mailed. For somebody who is a user it leads to another
password, which ends all logins of before; the role stays.`,
		Example: "  payersync pages users invite anna --role operator",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			as, err := roleNamed(role)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				address, err := adminAddress(s)
				if err != nil {
					return err
				}
				path, err := office.Users{Ledger: s.Ledger}.Invite(cmd.Context(), args[0], as, nil, actor())
				if errors.Is(err, office.ErrUserName) {
					return usage.Errorf("cannot invite %q: %w; choose another name, an e-mail address will do", args[0], err)
				}
				if err != nil {
					return err
				}
				a.Say("It lets %s choose a password, once, within three days:", args[0])
				fmt.Fprintln(a.Out, address+path)
				return nil
			})
		},
	}
	c.Flags().StringVar(&role, "role", role, "viewer, operator or admin")
	return c
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
			return a.changeUser(cmd, args[0], func(u office.Users, name string) error {
				return u.SetRole(cmd.Context(), name, role, actor(), evenLast)
			}, "has the role "+role+" now; all logins of that person have ended.")
		},
	}
	c.Flags().BoolVar(&evenLast, "even-last", false, "also where nobody else with a password is an admin")
	return c
}

func (a *app) usersRemoveCmd() *cobra.Command {
	var evenLast bool
	c := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a user",
		Long:    "Removes a user, whose logins and invitations end at once. The audit log keeps what was done.",
		Example: "  payersync pages users remove anna",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeUser(cmd, args[0], func(u office.Users, name string) error {
				return u.Remove(cmd.Context(), name, actor(), evenLast)
			}, "is no user any more; all logins of that person have ended.")
		},
	}
	c.Flags().BoolVar(&evenLast, "even-last", false, "also where nobody else with a password is an admin")
	return c
}

// changeUser does something to a user, and says what.
func (a *app) changeUser(cmd *cobra.Command, typed string, do func(office.Users, string) error, said string) error {
	return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
		name, err := office.UserName(typed)
		if err == nil {
			err = do(office.Users{Ledger: s.Ledger}, name)
		}
		switch {
		case errors.Is(err, office.ErrNoUser), errors.Is(err, office.ErrUserName):
			return usage.Errorf("there is no user %q, so nothing was changed; payersync pages users list names them", typed)
		case errors.Is(err, office.ErrLastAdmin):
			return usage.Errorf("nothing was changed: %w, so that nobody could look after users on the pages; give somebody else the role first, or add --even-last", err)
		case err == nil:
			a.Say("%s %s", name, said)
		}
		return err
	})
}

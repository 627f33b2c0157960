package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/mapping"
)

func (a *app) sourceTryCmd() *cobra.Command {
	var p privacy
	limit := 0
	c := &cobra.Command{
		Use:   "try CONNECTION",
		Short: "Read one page of a company by its profile, and show what the mapping makes of it; nothing is stored",
		Long: `Asks the system for the company and for the first page of its customers. It shows the
state of each record and the result of the mapping. It stores nothing and sends nothing
to the billing service. Personal values are shortened, unless you give --show-values.`,
		Example: "  payersync source --try acme\n  payersync source --try acme --limit 3 --show-values",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.profiled(cmd.Context(), names[0],
				func(s *session.Session, c config.Connection, source *httpsource.Source) error {
					return a.trySource(cmd.Context(), s, c, source, limit, p)
				})
		},
	}
	c.Flags().IntVar(&limit, "limit", 20, "records shown; 0 for the whole page")
	p.flag(c)
	return c
}

func (a *app) sourceRecordCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "record CONNECTION",
		Short: "Print an example of one page for examples.yaml, with invented names and addresses",
		Long: `Reads the first page of a company, and prints it as an example of its profile: the
answers, and the records that come out of them. Names, addresses, telephone numbers and
amounts are replaced. Ids, times and states stay: use a company of a sandbox, and read
the file before you share it. Headers with keys are never part of it.`,
		Example: "  payersync source --record acme > examples.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.profiled(cmd.Context(), names[0],
				func(_ *session.Session, _ config.Connection, source *httpsource.Source) error {
					text, err := source.Record(cmd.Context())
					if err != nil {
						return fmt.Errorf("cannot record: %w", err)
					}
					_, err = a.Out.Write(text)
					return err
				})
		},
	}
}

var profileName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func (a *app) sourceNewCmd() *cobra.Command {
	file := ""
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Print a draft of a profile, from the system's OpenAPI description",
		Long: `Reads a description of the API (OpenAPI 3 or Swagger 2) and prints a draft: the list of
customers, the credentials, the parameters for pages and changes, and the fields. What
it guessed is marked. What the description does not tell is a ? in the draft. payersync
does not run with such a profile: it names the line of each ? until you fill it in.`,
		Example: "  payersync source --new ours --openapi openapi.yaml > ours.yaml\n  payersync source --check ours.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runSourceNew(args, file) },
	}
	c.Flags().StringVar(&file, "openapi", "", "the description of the API, a `FILE` in YAML or JSON")
	return c
}

func (a *app) runSourceNew(args []string, file string) error {
	switch {
	case !profileName.MatchString(args[0]):
		return usage.Errorf("the name %q of the profile must be small letters, digits and dashes, at most 32", args[0])
	case config.ShippedProfile(args[0]) != nil:
		return usage.Errorf("there is a shipped profile %s; choose another name", args[0])
	case file == "":
		return usage.Errorf("name the description of the API with --openapi FILE")
	}
	description, err := os.ReadFile(file) //nolint:gosec // the person at the keyboard names it
	if err != nil {
		return usage.Mistake{Err: fmt.Errorf("cannot read the description: %w", err)}
	}
	draft, err := httpsource.Draft(args[0], description)
	if err != nil {
		return fmt.Errorf("cannot draft a profile from %s: %w", file, err)
	}
	if _, err = a.Out.Write(draft); err != nil {
		return err
	}
	a.Print("%s values are still open, each a ? in the draft; payersync source --check names their lines, and payersync init --source FILE FOLDER writes the set-up then",
		fmt.Sprint(strings.Count(string(draft), `"?"`)+strings.Count(string(draft), "'?'")))
	return nil
}

// profiled hands the source of a connection to do. It must be one with a profile.
func (a *app) profiled(ctx context.Context, name string,
	do func(*session.Session, config.Connection, *httpsource.Source) error) error {
	s, err := a.openWithSecrets(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.Config.One(name)
	if err != nil {
		return err
	}
	if c.Source.ProfileOf() == nil {
		return usage.Errorf("the source of %s is of the kind %s and has no profile; payersync check %[1]s reads it", c.Name,
			c.Source.Kind)
	}
	source, err := s.OpenSource(ctx, c)
	if err != nil {
		return err
	}
	return do(s, c, source.(*httpsource.Source))
}

// triedRow is a record as source --try shows it.
type triedRow struct {
	SourceID string    `json:"source_id"`
	State    string    `json:"state"`
	Edited   time.Time `json:"edited,omitzero"`
	Result   string    `json:"result"`
}

func (a *app) trySource(ctx context.Context, s *session.Session, c config.Connection, source *httpsource.Source,
	limit int, p privacy) error {
	page, err := source.Try(ctx)
	if err != nil {
		return err
	}
	info := connector.SourceInfo{Kind: c.Source.Name(), Tenant: page.Company.ID, TenantName: page.Company.Name,
		Organisation: c.Name, Fields: c.Source.ProfileOf().Fields()}
	m, err := session.LoadMapping(c.Mapping, info, s.Config.Billing.Dialect.Dialect)
	if err != nil {
		return err
	}
	states, rows := map[string]int{}, make([]triedRow, len(page.Records))
	for i, r := range page.Records {
		states[string(r.State)]++
		rows[i] = triedRow{SourceID: r.SourceID, State: string(r.State), Edited: r.UpdatedAt, Result: resultOf(m, r, p)}
	}
	shown := rows
	if limit > 0 {
		shown = rows[:min(limit, len(rows))]
	}
	if a.JSON() {
		return show.JSON(a.Out, map[string]any{"connection": c.Name, "tenant": page.Company.ID,
			"tenant_name": page.Company.Name, "last_page": page.Last, "states": states, "records": shown})
	}
	var counts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		counts = append(counts, fmt.Sprintf("%d %s", states[state], state))
	}
	a.Hanging("", fmt.Sprintf("%s is %s (%s). The first page has %s%s.", c.Name, show.Visible(page.Company.Name),
		page.Company.ID, connector.Plural(len(rows), "record"),
		map[bool]string{true: ": " + strings.Join(counts, ", ")}[len(rows) > 0]))
	var cells [][]string
	for _, r := range shown {
		edited := ""
		if !r.Edited.IsZero() {
			edited = r.Edited.UTC().Format(time.DateTime)
		}
		cells = append(cells, []string{show.Visible(r.SourceID), r.State, edited, r.Result})
	}
	a.Rows([]string{"ID", "STATE", "EDITED (UTC)", "RESULT"}, cells)
	if absent := fieldsInNone(page.Records, info.Fields); len(absent) > 0 && len(rows) > 0 {
		a.Hanging("", fmt.Sprintf("No record of the page has %s: the system may leave a blank field out, or the profile misspells it.",
			strings.Join(absent, ", ")))
	}
	if !page.Last {
		a.Print("there are further pages; payersync check %s reads all of them", c.Name)
	}
	return nil
}

// fieldsInNone returns the declared fields that no record has.
func fieldsInNone(records []connector.Record, fields []connector.Field) (absent []string) {
	there := map[string]bool{}
	var note func(before string, raw json.RawMessage)
	note = func(before string, raw json.RawMessage) {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) == nil {
			for name, member := range members {
				there[before+name] = true
				note(before+name+".", member)
			}
		}
	}
	for _, r := range records {
		note("", r.Data)
	}
	for _, f := range fields {
		if !there[f.Name] {
			absent = append(absent, f.Name)
			continue
		}
		for _, part := range f.Fields {
			if name := f.Name + "." + part.Name; f.Type == connector.TypeObject && !there[name] {
				absent = append(absent, name)
			}
		}
	}
	return absent
}

// resultOf says what the mapping makes of a record.
func resultOf(m *mapping.Mapping, r connector.Record, p privacy) string {
	if r.Problem != "" {
		return "on hold: " + r.Problem
	}
	if r.State != connector.RecordActive {
		return "no payer: the record is not active"
	}
	res, err := m.Apply(r)
	switch {
	case err != nil:
		return "on hold: " + show.Visible(err.Error())
	case !res.Included:
		return "excluded by the mapping"
	case len(res.Customer.Problems()) > 0:
		return "on hold: " + string(res.Customer.Problems()[0].Reason)
	}
	mail := "no e-mail address"
	for _, person := range res.Customer.People {
		if person.Email != "" {
			mail = p.Text(person.Email)
			break
		}
	}
	asked := "not asked for a mandate"
	if res.RequestMandate {
		asked = "asked for a mandate"
	}
	return "payer " + p.Text(res.Customer.Name) + ", " + mail + ", " + asked
}

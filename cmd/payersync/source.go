package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/pages"
)

func (a *app) sourceCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "source [NAME]",
		Short: "List the accounting systems that payersync reads, and show a profile of one",
		Long: `A profile is a file that tells payersync how to read one accounting system. A few
systems have code of their own instead. Without NAME, it lists all of them: what each
was tested with, what a run reads, and the system's limits. With NAME, it shows one
profile: what to register at the vendor, the settings, the fields, and what surprises
people. With --output json, the list has the profiles only.

For a system without a profile, write one: --new makes a draft, --keys explains its
keys, --print shows a shipped profile, --check checks yours, --try reads one page of
your company, and --record makes examples from it.`,
		Example: "  payersync source\n  payersync source freeagent\n  payersync source --new ours --openapi openapi.yaml > ours.yaml\n  payersync source --try acme",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runSource(args) },
	}
	for _, way := range []struct {
		name  string
		other *cobra.Command
	}{{"check", a.sourceCheckCmd()}, {"try", a.sourceTryCmd()}, {"record", a.sourceRecordCmd()}, {"new", a.sourceNewCmd()},
		{"keys", a.sourceKeysCmd()}, {"print", a.sourcePrintCmd()}} {
		c = also(c, way.name, way.other)
	}
	return c
}

func (a *app) runSource(args []string) error {
	if len(args) == 0 {
		return a.listProfiles()
	}
	p, _, err := profileNamed(args[0])
	if err != nil {
		return err
	}
	return a.showProfile(p)
}

func (a *app) sourceCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check NAME|FILE",
		Short: "Check a profile: its file, its examples, and a reading of a model of the system",
		Long: `Checks a shipped profile, or the profile in a file of yours, and sends nothing. It
reads the file strictly. It reads the examples beside it, in examples.yaml, and
compares the records. Then it makes a model of the system from the profile, and reads
it: whole, after edits, while customers are edited and removed, and in ten kinds of
trouble. That shows that the profile fits itself. Only a reading of your own company
shows that the system is as the profile says: payersync check and payersync plan.`,
		Example: "  payersync source --check ours.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, examples, err := profileNamed(args[0])
			if err != nil {
				return err
			}
			return a.checkProfile(cmd.Context(), p, examples)
		},
	}
}

// profileNamed returns a shipped profile, or the one in a file, with the examples beside it.
func profileNamed(name string) (p *httpsource.Profile, examples []byte, err error) {
	if p = config.ShippedProfile(name); p != nil {
		examples, err = configs.FS.ReadFile("sources/" + name + "/examples.yaml")
		return p, examples, err
	}
	if slices.ContainsFunc(builtIn, func(s pages.System) bool { return s.Name == name }) {
		return nil, nil, usage.Errorf("%s has code of its own and no profile; payersync help systems and payersync help sources describe it", name)
	}
	if !strings.ContainsAny(name, "./\\") {
		return nil, nil, usage.Errorf("there is no profile %q%s; the profiles are %s, and a file of yours is named with its ending, as in books.yaml", name, didYouMean(name, config.Profiles()), strings.Join(config.Profiles(), ", "))
	}
	if p, err = config.LoadProfile(name); err != nil {
		return nil, nil, usage.Mistake{Err: err}
	}
	examples, err = os.ReadFile(filepath.Join(filepath.Dir(name), "examples.yaml"))
	switch {
	case !os.IsNotExist(err):
		return p, examples, err
	case p.Extends() != "":
		examples, err = configs.FS.ReadFile("sources/" + p.Extends() + "/examples.yaml")
		return p, examples, err
	}
	return p, nil, nil
}

// profileRow is a profile as the list shows it.
type profileRow struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Documents string `json:"documents_read"`
	Live      string `json:"live"`
	Auth      string `json:"auth"`
	Walk      string `json:"walk"`
	Changes   bool   `json:"reads_changes"`
	Limits    string `json:"limits"`
}

func rowOf(p *httpsource.Profile) profileRow {
	r := profileRow{Name: p.Name(), Title: p.Title(), Walk: string(p.Walk()), Changes: !p.Whole(), Auth: p.Auth(),
		Limits: p.LimitsText()}
	r.Documents, r.Live = p.Proven()
	return r
}

// reads says for people what a reading asks for.
func (r profileRow) reads() string {
	return map[bool]string{true: "changes", false: "all each time"}[r.Changes]
}

func (a *app) listProfiles() error {
	if a.JSON() {
		return show.JSON(a.Out,
			connector.Map(config.Profiles(), func(name string) profileRow { return rowOf(config.ShippedProfile(name)) }))
	}
	a.Rows([]string{"NAME", "SYSTEM", "ACCESS", "TESTED WITH", "READS", "LIMITS"},
		connector.Map(append(systems(), systemOf(config.ShippedProfile(besidePackage))), func(s pages.System) []string {
			return []string{s.Name, s.Title, s.Access, s.Tested, s.Reads, s.Limits}
		}))
	return nil
}

// systemOf describes the system of a profile for people. The list of profiles and the pages show the same.
func systemOf(p *httpsource.Profile) pages.System {
	r := rowOf(p)
	tested := "a model, no company yet"
	if r.Live != "never" {
		tested = "a company, " + r.Live
	}
	return pages.System{Name: r.Name, Title: r.Title, Access: accessOf[r.Auth], Tested: tested, Walk: "is read " + r.Walk,
		Reads: r.reads(), Limits: r.Limits, Register: p.Register(), Traps: p.Traps(), Begin: beginWith(r.Name)}
}

// builtIn are the systems that payersync reads without a profile.
var builtIn = []pages.System{
	{Name: config.KindCSV, Title: "CSV export of any system", Access: "a file", Reads: "all each time", Limits: "none",
		Tested: "headings of 24 programs", Begin: "payersync init --csv FILE FOLDER"},
	{Name: config.KindSQL, Title: "SQL database of any system", Access: "a login", Reads: "all each time", Limits: "none",
		Tested: "SQLite, PostgreSQL, MariaDB", Begin: "payersync init --source sql --dsn-file FILE FOLDER"},
	{Name: config.KindXero, Title: "Xero", Access: "consent", Tested: modelOfVendor, Reads: "changes"},
	{Name: config.KindQuickBooks, Title: "QuickBooks Online", Access: "consent", Tested: modelOfVendor, Reads: "changes"},
	{Name: config.KindTryton, Title: "Tryton", Access: "a login", Tested: "a Tryton 6.0 server", Reads: "changes",
		Limits: "not known"},
}

// modelOfVendor means that the tests use a model of the system. The model follows the vendor's description of the API.
const modelOfVendor = "a model of the vendor's API"

// systems are all accounting systems that can be connected.
func systems() []pages.System {
	var out []pages.System
	for _, s := range builtIn {
		var source config.Source
		source.Kind = s.Name
		if l := source.Limits(); l.PerMinute > 0 {
			s.Limits = fmt.Sprintf("%d in 1m", l.PerMinute)
		}
		s.Begin = cmp.Or(s.Begin, beginWith(s.Name))
		out = append(out, s)
	}
	for _, name := range config.Profiles() {
		if name != besidePackage {
			out = append(out, systemOf(config.ShippedProfile(name)))
		}
	}
	return out
}

// besidePackage is the profile of a system that has a package of its own. It serves comparison.
const besidePackage = "xero-http"

func beginWith(kind string) string { return "payersync init --source " + kind + " FOLDER" }

// accessOf names the kinds of credentials for people.
var accessOf = map[string]string{httpsource.AuthHeader: "a key", httpsource.AuthLogin: "a key",
	httpsource.AuthCode: "consent", httpsource.AuthClient: "an app"}

func (a *app) showProfile(p *httpsource.Profile) error {
	r := rowOf(p)
	if a.JSON() {
		return show.JSON(a.Out, map[string]any{"profile": r, "register": p.Register(), "settings": p.Settings(),
			"fields": p.Fields(), "traps": p.Traps(), "write_back": p.WriteFacts()})
	}
	fmt.Fprintf(a.Out, "%s (%s)\n", r.Title, r.Name)
	a.printProfile(p)
	fmt.Fprintf(a.Out, "The list is read %s. Limits: %s.\n", r.Walk, r.Limits)
	a.Hanging("", "Write-back: "+p.WriteFacts()+".")
	for _, s := range p.Settings() {
		needed := ""
		if s.Required {
			needed = ", needed"
		}
		a.Hanging("  ", fmt.Sprintf("%s (%s%s): %s", s.Name, s.Type, needed, s.Is))
	}
	fmt.Fprintln(a.Out, "Fields for the mapping:")
	for _, f := range p.Fields() {
		a.Hanging("  ", strings.TrimSuffix(fmt.Sprintf("%s: %s", f.Name, f.Description), ": "))
	}
	return nil
}

// printProfile says what to register for a profile, what was proven of it, and what surprises people.
func (a *app) printProfile(p *httpsource.Profile) {
	if p == nil {
		return
	}
	documents, live := p.Proven()
	tested := "The profile was made from the vendor's documentation of " + documents + ". "
	if live == "never" {
		tested += "Nobody has read a real company with it yet: compare some customers before you rely on it."
	} else {
		tested += "A real company was read with it in " + live + "."
	}
	a.Hanging("", tested)
	if p.Register() != "" {
		a.Hanging("", p.Register())
	}
	for _, trap := range p.Traps() {
		a.Hanging("- ", trap)
	}
}

func (a *app) checkProfile(ctx context.Context, p *httpsource.Profile, examples []byte) error {
	findings := p.Check(ctx, examples)
	if a.JSON() {
		if err := show.JSON(a.Out, findings); err != nil {
			return err
		}
	}
	wrong := 0
	for _, f := range findings {
		if !f.OK {
			wrong++
		}
		if !a.JSON() {
			a.Hanging(map[bool]string{true: "ok    ", false: "wrong "}[f.OK], f.Name+": "+f.Detail)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d checks of the profile %s failed; correct it and check it again", wrong, len(findings),
			p.Name())
	}
	return nil
}

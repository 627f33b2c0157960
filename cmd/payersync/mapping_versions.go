package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// shortHash is how much of a version's hash is shown.
const shortHash = 8

// errVersion names the version meant by a prefix, and says why it was not found.
func errVersion(prefix string, err error) error {
	switch {
	case errors.Is(err, state.ErrNoMapping) && len(prefix) < 6:
		return usage.Errorf("%q is too little of a mapping version; give six characters of it or more, as payersync mapping history shows them", show.Visible(prefix))
	case errors.Is(err, state.ErrNoMapping):
		return usage.Errorf("there is no mapping version %q; payersync mapping history lists them, and six characters are enough", show.Visible(prefix))
	case errors.Is(err, state.ErrManyMappings):
		return usage.Errorf("several mapping versions begin with %q; give more of it", show.Visible(prefix))
	}
	return err
}

func (a *app) mappingHistoryCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "history [CONNECTION]",
		Short: "List the versions of a mapping used by runs",
		Long: `Lists every version of a connection's mapping that a run used, the last one first,
with the person and time of its first run, and the number of its runs.`,
		Example: "  payersync mapping history\n  payersync mapping history acme --output json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.eachMapping(cmd.Context(), names, func(s *session.Session, c config.Connection) (int, error) {
				return exitDone, a.history(cmd.Context(), s, c)
			})
		},
	}
}

// historyReport is the output of `mapping history --output json` for a connection.
type historyReport struct {
	Connection string                 `json:"connection"`
	File       string                 `json:"file"`
	FileHash   string                 `json:"file_hash"` // "" when the file cannot be read
	Versions   []state.MappingVersion `json:"versions"`
}

func (a *app) history(ctx context.Context, s *session.Session, c config.Connection) error {
	versions, err := s.Ledger.MappingVersions(ctx, c.Name)
	if err != nil {
		return err
	}
	r := historyReport{Connection: c.Name, File: c.Mapping, Versions: versions}
	data, unreadable := session.ReadMapping(c.Mapping)
	if unreadable == nil {
		r.FileHash = admin.HashOfMapping(data)
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	var rows [][]string
	for _, v := range versions {
		note := ""
		if v.Hash == r.FileHash {
			note = "the file as it is now"
		}
		rows = append(rows, []string{v.Hash[:shortHash], show.Time(v.SavedAt), v.Author, show.Time(v.LastUsed),
			fmt.Sprint(v.Runs), note})
	}
	fmt.Fprintf(a.Out, "%s: %s\n", c.Name, c.Mapping)
	show.Table(a.Out, []string{"Version", "First used", "By", "Last used", "Runs", ""}, rows)
	switch known := slices.ContainsFunc(versions, func(v state.MappingVersion) bool { return v.Hash == r.FileHash }); {
	case unreadable != nil:
		return unreadable
	case !known:
		fmt.Fprintf(a.Out, "The present file is version %s, not used by a run yet.\n", r.FileHash[:shortHash])
	}
	return nil
}

func (a *app) mappingShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show HASH",
		Short:   "Print a version of a mapping",
		Long:    "Prints a version of a mapping exactly as its run read it. Six characters of its hash are enough.",
		Example: "  payersync mapping history --show 1f0c9b > mapping.old.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				v, err := s.Ledger.FindMapping(cmd.Context(), args[0])
				if err != nil {
					return errVersion(args[0], err)
				}
				if a.JSON() {
					return show.JSON(a.Out, struct {
						state.MappingVersion
						Text string `json:"text"`
					}{v, v.Text})
				}
				_, err = fmt.Fprint(a.Out, v.Text)
				return err
			})
		},
	}
}

func (a *app) mappingDiffCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "diff A [B]",
		Short: "Compare two versions of a mapping, or one with a file",
		Long: `Prints the differences of B from A, line by line. A and B are files, or versions (six
characters are enough). Without B, the command compares with the file of a connection
that has used A.`,
		Example: "  payersync mapping history --diff 1f0c9b 88ad02\n  payersync mapping history --diff 1f0c9b\n  payersync mapping history --diff 1f0c9b mapping.new.yaml",
		Args:    cobra.RangeArgs(1, 2),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			return a.diff(ctx, s, args)
		}),
	}
}

// mappingText is a text to compare and its name.
type mappingText struct {
	Name string `json:"name"`
	text []byte
}

func (a *app) diff(ctx context.Context, s *session.Session, args []string) error {
	if len(args) == 1 {
		v, err := s.Ledger.FindMapping(ctx, args[0])
		if err != nil {
			return errVersion(args[0], err)
		}
		path, err := fileOf(ctx, s, v, nil)
		if err != nil {
			return err
		}
		args = append(args, path)
	}
	var texts [2]mappingText
	for i, arg := range args {
		var err error
		if texts[i], err = textOf(ctx, s, arg); err != nil {
			return err
		}
	}
	out := diff.Diff(texts[0].Name, texts[0].text, texts[1].Name, texts[1].text)
	if a.JSON() {
		return show.JSON(a.Out, struct {
			A    mappingText `json:"a"`
			B    mappingText `json:"b"`
			Diff string      `json:"diff"`
		}{texts[0], texts[1], string(out)})
	}
	if len(out) == 0 {
		a.Print("They are the same.")
	}
	_, err := a.Out.Write(out)
	return err
}

// textOf returns the version with the prefix arg, or the file of that name.
func textOf(ctx context.Context, s *session.Session, arg string) (mappingText, error) {
	v, err := s.Ledger.FindMapping(ctx, arg)
	if err == nil {
		return mappingText{v.Hash[:shortHash], []byte(v.Text)}, nil
	}
	if _, absent := os.Stat(arg); errors.Is(err, state.ErrNoMapping) && absent == nil {
		data, err := session.ReadMapping(arg)
		return mappingText{filepath.Base(arg), data}, err
	}
	return mappingText{}, errVersion(arg, err)
}

// fileOf returns the mapping file of the named connections, or of all, that used a version.
func fileOf(ctx context.Context, s *session.Session, v state.MappingVersion, names []string) (string, error) {
	configured, err := s.Config.Named(names)
	if err != nil {
		return "", err
	}
	var files, users []string
	for _, c := range configured {
		used, err := s.Ledger.MappingVersions(ctx, c.Name)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(used, func(u state.MappingVersion) bool { return u.Hash == v.Hash }) {
			files, users = append(files, c.Mapping), append(users, c.Name)
		}
	}
	switch slices.Sort(files); len(slices.Compact(files)) {
	case 0:
		return "", usage.Errorf("no run of %s has used the mapping version %s; payersync mapping history lists the used ones",
			connectionsNamed(configured), v.Hash[:shortHash])
	case 1:
		return files[0], nil
	}
	return "", usage.Errorf("%[2]s used the mapping version %[1]s, and have different files; name the connection",
		v.Hash[:shortHash], strings.Join(users, " and "))
}

func connectionsNamed(configured []config.Connection) string {
	names := connector.Map(configured, func(c config.Connection) string { return c.Name })
	return strings.Join(names, " or ")
}

func (a *app) mappingRollbackCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback HASH [CONNECTION]",
		Short: "Put an earlier version of a mapping back into its file",
		Long: `Writes an earlier version into the mapping file of its connection. The present file
stays beside it, as NAME.before-HASH.yaml with its own hash. Nothing is sent: the next
run plans with the restored version, and a change of many customers waits for
approval.`,
		Example: "  payersync mapping history\n  payersync mapping rollback 1f0c9b && payersync mapping preview",
		Args:    cobra.RangeArgs(1, 2),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			return a.rollback(ctx, s, args[0], args[1:])
		}),
	}
}

// rollbackReport is the output of `mapping rollback --output json`.
type rollbackReport struct {
	File    string `json:"file"`
	Mapping string `json:"mapping_version"`
	// where the file as it was is now; "" when there was none, or it was this version
	Kept string `json:"kept,omitempty"`
}

func (a *app) rollback(ctx context.Context, s *session.Session, prefix string, names []string) error {
	if s.Config.Node != nil {
		return usage.Errorf("cannot put a mapping back: the database keeps the account's files; put it into the account's folder, with payersync mapping history --show %s, and run payersync accounts apply", prefix)
	}
	v, err := s.Ledger.FindMapping(ctx, prefix)
	if err != nil {
		return errVersion(prefix, err)
	}
	path, err := fileOf(ctx, s, v, names)
	if err != nil {
		return err
	}
	if err := a.mustFit(ctx, s, v, path); err != nil {
		return err
	}
	r := rollbackReport{File: path, Mapping: v.Hash}
	if r.Kept, err = admin.ReplaceMapping(ctx, s.Ledger, path, admin.MappingChange{
		Text: v.Text, Limit: session.MaxMapping, Keep: true,
		Entry: state.Entry{Actor: actor(), Action: "roll back mapping", Subject: v.Hash},
	}); err != nil {
		return fmt.Errorf("the mapping was not rolled back: %w", err)
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	fmt.Fprintf(a.Out, "%s is version %s now.\n", r.File, v.Hash[:shortHash])
	if r.Kept != "" {
		fmt.Fprintf(a.Out, "The file as it was is %s.\n", r.Kept)
	}
	return nil
}

// mustFit refuses a version that no longer fits the source of one of its connections: a bad mapping never
// replaces a good one.
func (a *app) mustFit(ctx context.Context, s *session.Session, v state.MappingVersion, path string) error {
	for _, c := range s.Config.Connections {
		if c.Mapping != path {
			continue
		}
		conn, err := a.declared(ctx, s, c)
		if err != nil {
			return err
		}
		if _, err := session.ParseMapping("version "+v.Hash[:shortHash], []byte(v.Text), conn.Info,
			s.Config.Billing.Dialect.Dialect); err != nil {
			return usage.Mistake{Err: fmt.Errorf("the mapping was not rolled back, because the version does not fit the source of %s any more; correct it by hand:\n%w", c.Name, err)}
		}
	}
	return nil
}

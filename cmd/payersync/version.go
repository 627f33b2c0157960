package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/show"
)

// What a build is told of itself: version by a release, revision, which is a commit, where the
// history is not there to be asked, as in a container's build.
var (
	version  = "development"
	revision = ""
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  payersync version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Commit  string `json:"commit"`
				Go      string `json:"go"`
			}{version, commit(), runtime.Version()}
			if a.JSON() {
				return show.JSON(a.Out, v)
			}
			_, err := fmt.Fprintln(a.Out, versionLine())
			return err
		},
	}
}

// versionLine is what version and --version print.
func versionLine() string {
	return fmt.Sprintf("payersync %s (%s, %s)", version, commit(), runtime.Version())
}

// commit returns the commit that the binary was built from, as far as it says, and
// whether its files had changed since.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	at := cmp.Or(built["vcs.revision"], revision)
	switch {
	case at == "":
		return "unknown commit"
	case built["vcs.modified"] == "true":
		return at + ", changed since"
	}
	return at
}

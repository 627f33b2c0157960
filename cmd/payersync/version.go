package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Values set at build time: version by a release, and revision, a commit, if the build has no access to the
// history, as in a container.
var (
	version  = "development"
	revision = ""
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  payersync version --output json",
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Commit  string `json:"commit"`
				Go      string `json:"go"`
			}{version, commit(), runtime.Version()}
			return a.Answer(v, "%s\n", versionLine())
		},
	}
}

// versionLine is what version and --version print.
func versionLine() string {
	return fmt.Sprintf("payersync %s (%s, %s)", version, commit(), runtime.Version())
}

// commit returns the binary's commit, as far as known, and whether its files had changes.
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

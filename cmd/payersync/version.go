package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/show"
)

// version is set when a release is built.
var version = "development"

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

// commit returns the commit that the binary was built from, as far as it says.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown commit"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown commit"
}

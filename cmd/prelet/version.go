package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *cli) version() *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:     "version",
		GroupID: "other",
		Args:    refuseArguments,
		Short:   "Print the version, as prelet --version does",
		Long:    "Prints the version of prelet, of Go and the platform; -o json adds the revision of the source.",
		Example: "  prelet version\n  prelet version -o json",
		RunE: func(*cobra.Command, []string) error {
			if output.isJSON() {
				return a.printJSON(describeBuild())
			}
			return a.print(func(o io.Writer) error {
				_, err := fmt.Fprintf(o, "prelet %s (%s, %s/%s)\n",
					version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
				return err
			})
		},
	}
	output.addFlag(c, "text", "json")
	return c
}

// describeBuild is the document of `version -o json`.
func describeBuild() map[string]any {
	v := map[string]any{
		"format_version": 1,

		"version":  version,
		"go":       runtime.Version(),
		"platform": runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v["revision"] = s.Value
			}
		}
	}

	return v
}

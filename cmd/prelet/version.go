package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
)

func (a *cli) version() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		GroupID: "other",
		Args:    refuseArguments,
		Short:   "Print the version, as prelet --version does",
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "text":
				return a.print(func(o io.Writer) error {
					_, err := fmt.Fprintf(o, "prelet %s (%s, %s/%s)\n",
						version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
					return err
				})
			case "json":
				v := map[string]string{
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
				return a.printJSON(v)
			}
			return failure(fault.Usage, "-o %s: text or json", output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	return c
}

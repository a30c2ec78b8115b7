package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app/doctor"
	"github.com/prelet/prelet/internal/report/printer"
)

// examination is the document of `doctor -o json`.
type examination struct {
	FormatVersion int              `json:"format_version"`
	Fit           bool             `json:"fit"`
	Findings      []doctor.Finding `json:"findings"`
}

func (a *cli) doctor() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use: "doctor", GroupID: "node", Args: refuseArguments,
		Short: "Look whether this node is fit for a boot with its site",
		Long: "The kubelet, its unit and the gate, the runtime, cgroups and swap, the clock, credentials, the site " +
			"and what the kubelet\n" +
			"would make of it, the cluster and its trust, room and permissions on the disk, whose identity is " +
			"there, what earlier\n" +
			"runs have left, detectors. Each finding says what, why, and what to do. Nothing is changed, and no " +
			"bootstrap token is\n" +
			"sent. It works without root, and says what it could not look at. As root it asks the kubelet's binary " +
			"anew and keeps\n" +
			"the answers, so that no boot has to.\n\n" +
			"Exit status 0 when nothing stands in the way, 3 when something does.",
		Example: "  prelet doctor\n  prelet doctor -o json | jq '.findings[] | select(.state != \"ok\")'",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.isJSON()
			if err != nil {
				return err
			}
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			found, err := a.env().Doctor(ctx, w.Where)
			if err != nil {
				return err
			}

			if asJSON {
				err = a.printJSON(examination{1, found.Fit, found.Findings})
			} else {
				err = a.print(func(o io.Writer) error {
					return present.Doctor(o, found.Findings, present.StyleOf(a.stdout, a.getenv))
				})
			}
			if err == nil && !found.Fit {
				err = exit(3)
			}
			return err
		},
	}
	w.addSiteFlags(c)
	c.Flags().StringArrayVar(&w.Variables, "var", nil, "value of a variable, `NAME=VALUE` (repeatable)")
	return c
}

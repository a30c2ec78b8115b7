package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/fleets"
	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/texts"
)

// folderExit describes the exit status of a command over a folder of recordings, for its help.
const folderExit = "Exit status: the lowest of those that failed,\n" +
	"so that a mistake in the site (10) is reported before a failure of one machine."

const againstUsage = "compare with another `SITE`: a file, a folder, layers with commas between them, " +
	"or a revision of git for the paths of --config"

type fleetOutput struct {
	names   bool
	summary bool

	failAbove string // a percentage
	limit     float64
}

const failAboveFlag = "fail-above"

func (f *fleetOutput) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&f.names, "names", false, "list the recordings of each group, with their node names")
	c.Flags().BoolVar(&f.summary, "summary", false, "only one line for each group, and the sum")
	c.Flags().StringVar(&f.failAbove, failAboveFlag, "",
		"exit 3 when more than this part of the machines, as in `5%`, would be held\n"+
			"or get a taint that keeps pods away")
}

// detail checks the flags, and returns how much of a report is printed.
func (f *fleetOutput) detail() (printer.FleetDetail, error) {
	var err error
	if f.failAbove != "" {
		f.limit, err = strconv.ParseFloat(strings.TrimSuffix(f.failAbove, "%"), 64)
	}
	switch {
	case err != nil || !(f.limit >= 0 && f.limit <= 100):
		return 0, fault.Usage.Errorf(
			"--%s %s: write a percentage from 0 to 100, such as 5%%", failAboveFlag, f.failAbove)
	case f.names && f.summary:
		return 0, fault.Usage.Errorf("--names and --summary exclude each other")
	case f.names:
		return printer.FleetNames, nil
	case f.summary:
		return printer.FleetSummary, nil
	}

	return printer.FleetGroups, nil
}

// checkLimit fails if a report keeps pods away from more machines than --fail-above allows.
func (f *fleetOutput) checkLimit(reports ...*fleet.FleetEffect) error {
	if f.failAbove == "" {
		return nil
	}
	if len(reports) == 0 {
		return fault.Usage.Errorf("--%s is for a folder of recordings, or --against", failAboveFlag)
	}
	for _, r := range reports {
		unknown := r.Failed + r.Incomplete + r.MayBeHeld
		part := 100 * float64(r.KeptAway) / float64(max(1, r.Recordings))
		most := 100 * float64(r.KeptAway+unknown) / float64(max(1, r.Recordings))
		switch {
		case part > f.limit:
			return fault.TestFailed.Errorf(
				"%d of %d machines (%.1f%%) would be held (%d) or get a taint that keeps pods away (%d), "+
					"and --%s allows %s: see the groups with kubelet-held or a new taint",
				r.KeptAway, r.Recordings, part, r.Held, r.Tainted, failAboveFlag, f.failAbove)
		case most > f.limit:
			return fault.TestFailed.Errorf(
				"%d of %d machines have no complete plan, or a hold that is null: with them --%s %s may be exceeded "+
					"(%.1f%%); see their reasons, or record them again",
				unknown, r.Recordings, failAboveFlag, f.failAbove, most)
		}
	}

	return nil
}

// fleetCommand has the commands about many machines.
func (a *cli) fleetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "fleet",
		GroupID: "node",
		Short:   "Work with reports about many machines",
	}
	c.AddCommand(a.mergeFleet())

	return c
}

func (a *cli) mergeFleet() *cobra.Command {
	var f fleetOutput
	var output format
	var file string
	c := &cobra.Command{
		Use:   "merge FILE...",
		Args:  cobra.ArbitraryArgs,
		Short: "Merge the partial results of `prelet plan --shard` into one report",
		Long: `Merges the partial results of all shards into the report that one run over all recordings gives.
It refuses parts that do not belong together, and a part that is missing or given twice.
--html writes a page instead, as prelet report does for a folder.

` + folderExit,
		Example: "  prelet plan --from fleet/ --config site/ --shard 0/2 > 0.json\n" +
			"  prelet plan --from fleet/ --config site/ --shard 1/2 > 1.json\n  prelet fleet merge 0.json 1.json\n" +
			"  prelet fleet merge 0.json 1.json --html fleet.html",
		RunE: stoppable(func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.Usage.Errorf("1 argument or more needed: the partial results of `prelet plan --shard`")
			}
			if err := checkPageFlags(c); err != nil {
				return err
			}
			detail, err := f.detail()
			if err != nil {
				return err
			}
			a.printed = file == "-" // a failure has no document there
			report, err := fleets.Merge(a.env(), args)
			if err != nil {
				return err
			}
			if file != "" {
				err = a.writePage(file, inspect.Reported{Fleet: report})
			} else {
				err = a.printFleet(printer.FleetView{FleetEffect: report, Detail: detail}, output.name)
			}
			if err != nil {
				return err
			}
			if err := f.checkLimit(report); err != nil && report.Code() == "" {
				return err
			}
			return quit(report.Code())
		}),
	}
	f.addFlags(c)
	addPageFlag(c, &file)
	output.addFlag(c, "text", "json", "markdown")

	return c
}

// checkPageFlags refuses --html with flags that change the printed text: a page is always complete.
func checkPageFlags(c *cobra.Command) error {
	for _, name := range []string{"output", "names", "summary"} {
		if c.Flags().Changed("html") && c.Flags().Changed(name) {
			return fault.Usage.Errorf("--html and --%s exclude each other: the page has everything", name)
		}
	}

	return nil
}

// printFleet prints the report about many machines.
func (a *cli) printFleet(v printer.FleetView, format string) error {
	switch format {
	case "json", "yaml":
		return a.printJSON(v.Document())
	case "markdown":
		return printText(a, v, printer.FleetMarkdown)
	}

	return printText(a, v, printer.FleetText)
}

// printRecording prints the heading of one recording of a folder. In JSON there is none.
func (a *cli) printRecording(source string, asJSON bool) {
	if !asJSON {
		fmt.Fprintf(a.stdout, "━━ %s\n\n", texts.EscapeLine(source))
	}
}

// showFailure prints why a command failed for one recording of a folder. In JSON each recording has its document.
func (a *cli) showFailure(source string, err error, asJSON bool) error {
	a.printUnusable(source, err)
	if !asJSON {
		return nil
	}
	return a.printJSON(a.failureDocument(source, toExitError(err)))
}

// printUnusable prints why a recording cannot be used, with its name.
func (a *cli) printUnusable(source string, err error) {
	text := err.Error()
	if !strings.Contains(text, source) {
		text = source + ": " + text
	}
	fmt.Fprintln(a.stderr, "prelet:", a.redact(text))
}

func (f *planFlags) toOptions() fleets.PlanOptions {
	return fleets.PlanOptions{
		Request: f.Request,
		Against: f.against,
		Shard:   f.shard,
		Each:    f.isEach(),
		Report:  f.names || f.summary || f.output.name == "markdown",
	}
}

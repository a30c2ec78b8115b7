package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/fleets"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
)

type planFlags struct {
	where
	fleetOutput
	against  []string
	shard    string
	full     bool
	detailed bool
	strict   bool
}

func (a *cli) plan() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:     "plan",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Show what a run would change, and why",
		Long: `Evaluates the site on this node, or on a recorded one, and shows what a run would change:
labels, taints, flags, each field of the kubelet's configuration, each file.
It writes nothing. Without root it works as far as it may read.
Of a new KubeletConfiguration it shows what differs from its base; --full shows all of it,
and each difference of a file to its end.

--from reads the node from a recording.
--var, --var-file, --objects and --kubelet-version replace parts of it, and the plan lists them:
what would another variable, ConfigMap or kubelet change?

In a repository of sites, .prelet.hcl gives layers, machines and objects that no flag gives.

--from FOLDER plans each recording in the folder, and groups machines on which the site has the same effect.
--names lists the machines of each group, --summary prints one line for each group,
--full prints each plan, whole. -o markdown is for a folder and for --against.
-o json prints a document for each recording; with --names, --summary, --against or --shard
it prints the report of the groups as one document.
-o nodes prints the Node objects with which these kubelets would register, for a rehearsal with a scheduler.
-o capacity prints what the nodes of each pool offer, for an autoscaler that scales it from zero.

--against SITE compares the site with another one over the same machines: a path, a layered site's paths
with commas between them, or a revision of git.
It shows what the new site changes relative to the old site, whatever is on the disks.
A path has precedence; git:main is the revision also if there is a folder main.

` + folderExit + `
With --detailed-exitcode, 2 means that none failed, and that something would change
or is not known because a recording lacks an answer.
With --strict, a warning or a note of any plan ends it with 10, after everything is printed.`,
		Example: "  prelet plan --from node17.prelet --config ./site\n" +
			"  prelet plan --from fleet/ --config ./site\n" +
			"  prelet plan --from fleet/ --config ./site --against main -o markdown\n" +
			"  prelet plan --from fleet/ --config ./site " +
			"--kubelet-version 1.37\n  prelet plan --hardware ./machines/dgx --objects ./objects " +
			"--root ./scratch",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			detail, err := f.check()
			if err != nil {
				return err
			}

			nodes := nodePrinter{cli: a, from: cmp.Or(f.From, f.Hardware), output: f.output.name}
			sum, err := fleets.Plan(ctx, a.env(), f.toOptions(), func(p planning.Planned) error {
				if f.isNodes() {
					return nodes.show(p)
				}
				p.View.Full = f.full
				return a.showPlanned(p, f.output.isJSON())
			})
			switch {
			case err != nil:
				return err
			case f.isNodes():
				err = nodes.end()
			default:
				err = a.endPlan(sum, &f, detail)
			}
			if f.strict && sum.Code == "" && sum.Noted {
				a.printed = true
				return fault.Evaluation.Errorf("the plan has warnings or notes, and --strict makes them errors")
			}
			return err
		}),
	}
	a.addRecordedFlags(c, &f.where)
	f.output.addFlag(c, "text", "json", "markdown", "nodes", "capacity")
	f.addFlags(c)
	c.Flags().StringArrayVar(&f.against, "against", nil, againstUsage+" (repeatable: one report for each)")
	c.Flags().StringVar(&f.shard, "shard", "",
		"only part `I/N` of the recordings of a folder, I from 0 to N-1 as JOB_COMPLETION_INDEX has it;\n"+
			"prints JSON for `prelet fleet merge`")
	c.Flags().StringVar(&f.Runtime, "runtime", "",
		"containerd's `PROGRAM` in place of the installed one: it is asked whether it accepts its configuration with "+
			"the files of the plan")
	c.Flags().BoolVar(&f.full, "full", false,
		"print each file whole, and each plan of a folder, not only the groups")
	c.Flags().BoolVar(&f.strict, "strict", false, strictUsage)
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false,
		"exit 2 when there is something to change, or the plan is not complete")
	return c
}

// check refuses flags that exclude each other, and returns how much of a report is printed.
func (f *planFlags) check() (printer.FleetDetail, error) {
	detail, err := f.detail()
	isReport := f.names || f.summary || len(f.against) > 0 || f.shard != ""
	switch {
	case err != nil:
		return 0, err
	case f.isNodes() && (f.full || isReport || f.detailed || f.failAbove != ""):
		return 0, fault.Usage.Errorf("-o %s excludes --full, --names, --summary, --against, --shard, "+
			"--fail-above and --detailed-exitcode", f.output.name)
	case f.shard != "" && f.failAbove != "":
		return 0, fault.Usage.Errorf(
			"--shard plans a part of the machines: give --%s to `prelet fleet merge`", failAboveFlag)
	case f.full && isReport:
		return 0, fault.Usage.Errorf("--full excludes --names, --summary, --against and --shard")
	case f.shard != "" && f.output.isSet && f.output.name != "json":
		return 0, fault.Usage.Errorf(
			"--shard prints JSON for `prelet fleet merge`, so it excludes -o %s: write that at the merge",
			f.output.name)
	case f.shard != "" && len(f.against) > 1:
		return 0, fault.Usage.Errorf("--shard: one --against at a time")
	case f.shard != "":
		f.output.name = "json"
		return printer.FleetNames, nil
	case len(f.against) > 0 && f.output.isJSON() && !f.summary:
		return printer.FleetNames, nil
	}

	return detail, nil
}

// isEach reports whether each plan of a folder is printed.
func (f *planFlags) isEach() bool {
	isReport := f.names || f.summary || len(f.against) > 0 || f.shard != ""

	return f.full || f.isNodes() || f.output.isJSON() && !isReport
}

// isNodes reports whether Node objects are printed, or what they offer.
func (f *planFlags) isNodes() bool { return f.output.name == "nodes" || f.output.name == "capacity" }

// showPlanned prints one plan, or why there is none.
func (a *cli) showPlanned(p planning.Planned, asJSON bool) error {
	if p.Source != "" {
		a.printRecording(p.Source, asJSON)
	}
	var err error
	if p.Err != nil {
		err = a.showFailure(p.Source, p.Err, asJSON)
	} else {
		err = a.showPlan(p, asJSON)
	}
	if err != nil {
		return err
	}
	if p.Source != "" && !asJSON {
		fmt.Fprintln(a.stdout)
	}
	return nil
}

// showPlan prints a plan, and why a run would not apply it.
func (a *cli) showPlan(planned planning.Planned, asJSON bool) error {
	p := planned.Plan
	p.Diagnostics = a.nameRoots(p.Diagnostics)
	if asJSON {
		return a.printJSON(printer.PlanDocument(planned.View))
	}

	a.printDiagnostics(p.Site, printer.Sorted(p.Diagnostics))
	if !p.Diagnostics.HasErrors() {
		err := printText(a, planned.View, printer.PlanText)
		if err != nil {
			return err
		}
	}
	if planned.Held != "" && planned.Changes() {
		a.printNotice("a run would change none of this: " + planned.Held)
	}
	return nil
}

// endPlan prints the report of a folder or of a comparison, and returns how the command ends.
func (a *cli) endPlan(sum fleets.Plans, f *planFlags, detail printer.FleetDetail) error {
	isPrinted := f.isEach() && f.output.isJSON()
	if f.isEach() {
		detail = printer.FleetSummary
	}
	for i, report := range sum.Reports {
		if isPrinted {
			break
		}
		if i > 0 && !f.output.isJSON() {
			fmt.Fprintln(a.stdout)
		}
		if err := a.printFleet(printer.FleetView{FleetEffect: report, Detail: detail}, f.output.name); err != nil {
			return err
		}
	}
	if err := f.checkLimit(sum.Reports...); err != nil && sum.Code == "" {
		return err
	}
	if sum.Code == "" && f.detailed && sum.Changes {
		return exit(2)
	}
	return quit(sum.Code)
}

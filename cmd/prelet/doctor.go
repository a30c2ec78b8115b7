package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
)

func (a *cli) doctor() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "doctor",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Check whether this node can boot with its site",
		Long: `Makes the checks of a run that changes nothing, and those of an image: the kubelet,
its unit and the gate, the runtime, the kernel, cgroups and swap, credentials,
the site and what the kubelet would reject in it, the cluster and its trust,
free space and permissions on the disk, the node's identity,
the state of earlier runs, and detectors. Each finding has a problem, its cause and the next step.

It changes nothing and sends no bootstrap token.
Without root it works too, and lists what it could not check.
As root it also asks the kubelet's binary again and keeps the result,
so that the next boot does not have to.

With --root it checks the root folder of an image that does not run: the site on
sample machines, the kubelet, whether units are enabled and the gate is in place,
the users of detectors, the configured runtime, the kernels, permissions, and what
an image must not contain. Of the image it starts the kubelet and containerd only, confined,
if they run here: else name the kubelet's version by --kubelet-version. Checks that need a
running machine are skipped.

Exit status 0 if nothing prevents a boot, 3 otherwise.`,
		Example: "  prelet doctor\n  prelet doctor --root /mnt/image --kubelet-version 1.36\n" +
			"  prelet doctor -o json | jq '.findings[] | select(.state != \"ok\")'",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			found, err := inspect.Doctor(ctx, a.env(), w.Request)
			if err != nil {
				return err
			}

			found.Results = a.nameRootOf(found.Results)
			subject := "node"
			if w.Root != "" {
				subject = "image"
			}
			show := func(o io.Writer, e inspect.Examined, s printer.Style) error {
				return printer.Doctor(o, subject, e.Results, s)
			}
			err = printResult(a, w.output.isJSON(), found, show)
			if err == nil && !found.Fit {
				err = exit(3)
			}
			return err
		}),
	}
	w.addSiteFlags(c)
	addRootFlag(c, &w.Root)
	w.addVarFlag(c)
	w.addKubeletVersionFlag(c)
	addKubeletFlag(c, &w.Kubelets)
	return c
}

package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/images"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/check"
)

func (a *cli) seal() *cobra.Command {
	var w where
	var yes bool
	c := &cobra.Command{
		Use:     "seal",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Seal an image that has no identity and no secrets",
		Long: `The last step of an image build. It makes the checks of "doctor --root" and
refuses an image that has identity, secrets or state of the machine on which
it was built: the kubelet's kubeconfig, certificates and state, bootstrap tokens,
keys of a control plane, prelet's generations, the machine id, SSH host keys,
random seeds, DHCP leases, cloud-init's instance, recordings, bundles, secrets in
the site.

Without --yes it writes nothing. --yes puts back what was before prelet, as
"prelet rollback 0" does, removes these files, and empties /etc/machine-id. It
does not edit the site, and nothing on a mount that may show files from outside of
the image. A path that a person must change prevents it.
Then it keeps the output of the kubelet's --version and --help for the first boot,
and writes ` + images.StatementPath + `: versions, the site's files
and the detectors with their hashes, the checks, and what was removed.

It works on this machine's own root, or on that of an image with --root.
With --root it does not start the kubelet: name its version by --kubelet-version.
--root / seals this machine, also while it is a node.
It can be repeated, also after a power cut: a sealed image is not changed.

Exit status 0 if the image is sealed, 3 if it is not, 40 if it cannot be written.`,
		Example: "  prelet seal\n  prelet seal --yes --root /mnt/image --kubelet-version 1.36",
		RunE: stopWriteOnSignal(func(ctx context.Context, _ []string) error {
			got, err := images.Seal(ctx, a.env(), images.SealOptions{Request: w.Request, Yes: yes})
			if err != nil {
				return err
			}

			got.Results = a.nameRootOf(got.Results)
			err = printResult(a, w.output.isJSON(), got, a.printSealed)
			if err == nil && got.Refused != "" {
				err = exit(3)
			}
			return err
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "remove what an image must not contain, and write the statement")
	addRootFlag(c, &w.Root)
	w.addKubeletVersionFlag(c)
	w.output.addFlag(c, "text", "json")
	return c
}

// printSealed prints the results of the checks, or the removed files and the place of the statement.
func (a *cli) printSealed(o io.Writer, got images.Sealed, s printer.Style) error {
	isSkipped := func(f check.Finding) bool { return f.State == check.Skipped }
	checked := slices.DeleteFunc(slices.Clone(got.Results), isSkipped)
	conclusion := ""
	switch {
	case got.Refused != "":
		conclusion = "The image is not sealed: " + got.Refused + "."
	case got.Unchanged:
		conclusion = "The image is sealed already, and nothing has changed: " + images.StatementPath
	}
	if err := printer.CheckResults(o, checked, conclusion, s); err != nil || conclusion != "" {
		return err
	}

	return a.view(o, "sealed", got.Statement)
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/model/origin"
)

func (a *cli) importSite() *cobra.Command {
	var o sites.ImportOptions
	c := &cobra.Command{
		Use:     "import FILE",
		GroupID: "site",
		Short:   "Make a site of a file of kubeadm or init-k8s-node.py",
		Long: `Reads a JoinConfiguration of kubeadm (v1beta4) with its patches, or the
/etc/kubernetes/init-config of init-k8s-node.py, and writes a site that does the
same. It reports what it cannot convert.
Tokens are never printed, and are not in the site.
--out is needed; the folder is new or empty. --ca-cert-hash and --server replace
what the file has. A file without pins of the cluster's CA needs the first.`,
		Example: `  prelet import join.yaml --patches ./patches --out ./site
  prelet import init-config.json --ca-cert-hash sha256:… --out ./site`,
		Args: requireArgs(
			1,
			"one file: a JoinConfiguration of kubeadm, or the /etc/kubernetes/init-config of a node",
		),
		RunE: stoppable(func(_ *cobra.Command, args []string) error {
			o.File = args[0]
			done, err := sites.Import(a.env(), o)
			a.printDiagnostics(nil, printer.Sorted(done.Diagnostics))
			if err != nil {
				return err
			}
			if code := origin.Code(done.Diagnostics); code != "" {
				return quit(code)
			}
			return a.show(false, "import", struct {
				sites.Imported
				Dir string
			}{done, o.Dir})
		}),
	}
	c.Flags().StringArrayVar(&o.Hashes, "ca-cert-hash", nil, "`HASH` of the cluster's CA, sha256:… (repeatable)")
	c.Flags().StringArrayVar(&o.Servers, "server", nil, "apiserver, `HOST:PORT` (repeatable)")
	c.Flags().StringVar(&o.Patches, "patches", "",
		"`FOLDER` with kubeadm's patches; default: that of the file")
	addOutFlag(c, &o.Dir)
	c.Flags().StringVar(&o.Credential, "token-credential", "bootstrap-token",
		"`NAME` of the systemd credential with the bootstrap token")
	return c
}

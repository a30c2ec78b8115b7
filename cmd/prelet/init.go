package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/sites"
)

func (a *cli) init() *cobra.Command {
	o := sites.InitOptions{Dir: "site"}
	c := &cobra.Command{
		Use:     "init [DIR]",
		GroupID: "site",
		Args:    cobra.MaximumNArgs(1),
		Short:   "Write a first site",
		Long: `Writes DIR/site.hcl (default: ./site): a worker of a kubeadm cluster, ready for prelet validate.
The hashes of the cluster's CA come from --ca-cert-hash, from a CA file (--ca-file),
or, with --from-node, from a node that has joined.`,
		Example: "  prelet init --server 10.0.0.11:6443 --ca-file ca.crt\n  prelet init --from-node /etc/prelet",
		RunE: stoppable(func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Dir = args[0]
			}

			path, err := sites.Init(a.env(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(
				a.stdout,
				"Wrote %s. Next:\n  prelet validate %[2]s\n  prelet plan --config %[2]s\n"+
					"Run the plan on a node; elsewhere add --hardware PATH and --objects DIR.\n",
				path,
				o.Dir,
			)
			return nil
		}),
	}
	f := c.Flags()
	f.StringArrayVar(&o.Servers, "server", nil, "apiserver, `HOST:PORT` (repeatable)")
	f.StringArrayVar(&o.Hashes, "ca-cert-hash", nil, "`HASH` of the cluster's CA, sha256:… (repeatable)")
	f.StringVar(&o.CAFile, "ca-file", "", "the cluster's CA as PEM `FILE`; its pins are written, not its name")
	f.BoolVar(&o.FromNode, "from-node", false, "take server and pins from this node's kubelet.conf")
	f.StringVar(&o.Root, "root", "", "with --from-node: a node's files below `DIR`")
	return c
}

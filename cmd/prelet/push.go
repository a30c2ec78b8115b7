package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
)

// addRegistryFlags adds the flags of a command that asks a registry.
func addRegistryFlags(c *cobra.Command, r *lab.Registry) {
	c.Flags().StringVar(&r.CAFile, "ca-file", "", "trust the registry's CA, a PEM `FILE`, besides the system's CAs")
	c.Flags().StringVar(&r.Credentials, "credentials", "",
		"passwords of registries, a docker config.json `FILE`; default: $DOCKER_CONFIG/config.json or\n"+
			"~/.docker/config.json, if there is one")
	c.Flags().BoolVar(&r.PlainHTTP, "plain-http", false, "ask a registry on this machine without TLS")
}

func (a *cli) push() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "push DIR REF",
		GroupID: "site",
		Args:    requireBoth("a folder with a site, and HOST/REPOSITORY:TAG or oci-layout:FOLDER:TAG"),
		Short:   "Store a site in a registry",
		Long: `Stores the site of a folder as an OCI artifact in a registry, or in an OCI image layout (a folder),
and prints its reference with the digest. The same files have the same digest.

It stores the site's files, tests, and the signed list with its signature. The site must be one that can be loaded;
with --config, it is checked as the last layer after those.`,
		Example: "  prelet push site/ registry.example.com/sites/gpu:stable\n" +
			"  prelet push site/ oci-layout:out:stable",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			o := sites.PushOptions{Request: w.Request, Dir: args[0], Reference: args[1]}
			done, err := sites.Push(ctx, a.env(), o)
			if err != nil {
				return err
			}
			a.printDiagnostics(done.Site, printer.Sorted(done.Diagnostics))
			for _, f := range done.LeftOut {
				a.printNotice("left out: " + f.Path + ": " + f.Why)
			}
			return a.show(w.output.isJSON(), "push", done)
		}),
	}
	w.addSiteFlags(c)
	addRegistryFlags(c, &w.Registry)
	return c
}

func (a *cli) pull() *cobra.Command {
	var o sites.PullOptions
	var output format
	c := &cobra.Command{
		Use:     "pull REF [DIR]",
		GroupID: "site",
		Args:    requireArgs(2, "a reference, and a folder that is new or empty"),
		Short:   "Get a site from a registry",
		Long: `Gets a site from a registry or an OCI image layout, and prints its digest reference and its files.
With DIR it writes them into that folder: all, or after a failure none. Without DIR it writes nothing.

It checks that the files are those of the digest, and not that somebody has signed them: a node does.`,
		Example: "  prelet pull oci://registry.example.com/sites/gpu:stable\n" +
			"  prelet pull registry.example.com/sites/gpu:stable site/",
		RunE: finishOnSignal(func(ctx context.Context, args []string) error {
			o.Reference = args[0]
			if len(args) > 1 {
				o.Dir = args[1]
			}
			done, err := sites.Pull(ctx, a.env(), o)
			if err != nil {
				return err
			}
			return a.show(output.isJSON(), "pull", done)
		}),
	}
	output.addFlag(c, "text", "json")
	addRegistryFlags(c, &o.Registry)
	return c
}

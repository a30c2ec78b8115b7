package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) siteSign() *cobra.Command {
	var o sites.SignOptions
	var output format
	c := &cobra.Command{
		Use:   "sign DIR",
		Args:  requireArgs(1, "the folder of a layer"),
		Short: "Sign the files of a layer",
		Long: `Writes ` + lang.ListFile + ` into DIR, the list of its files, and its signature,
` + lang.SignatureFile + `, which ssh-keygen makes.
An image with keys in ` + machine.SignersFile + `
evaluates only layers that one of them has signed, and its own.
What no flag gives stays as in the list that DIR has; the counter is one more.

With a public key in --key, ssh-keygen uses the private key of the agent.`,
		Example: "  prelet site sign site/ --key site-key\n" +
			"  prelet site sign site/ --key site-key.pub --ring canary --expires 2027-01-31T12:00:00Z",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			o.Dir = args[0]
			got, err := sites.Sign(ctx, o)
			if err != nil {
				return err
			}
			return printResult(a, output.isJSON(), got, printSignedFolder)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&o.Key, "key", "",
		"sign with the key in `FILE`: a private key, or the public key of one in the agent")
	flags.StringVar(&o.List.Name, "name", "", "the `NAME` of the layer; the name of DIR where it has no list")
	flags.StringVar(&o.List.Ring, "ring", "", "only nodes of the ring `NAME` may pull it")
	flags.StringVar(&o.List.Repository, "repository", "",
		"nodes that ask the repository `HOST/PATH` may pull it; without it, only from a folder")
	flags.Uint64Var(&o.List.Counter, "counter", 0, "the number `N` of this version, from 1")
	flags.Uint64Var(&o.List.NotBelow, "not-below", 0,
		"a node that has run it refuses lists of this name with a counter below `N`")
	flags.StringVar(&o.Expires, "expires", "", "a node does not pull it after `TIME`, as 2027-01-31T12:00:00Z")
	output.addFlag(c, "text", "json")
	return c
}

func (a *cli) siteVerify() *cobra.Command {
	var signers string
	var output format
	c := &cobra.Command{
		Use:   "verify DIR",
		Args:  requireArgs(1, "the folder of a layer"),
		Short: "Verify the signature and the files of a layer",
		Long: `Checks the files of DIR as a node would that has the keys of --signers:
that one of them has signed the list, and that the files are exactly those of the list.
It does not know which counter, ring or repository a node accepts.

Exit status 10 if a node would refuse the files.`,
		Example: "  prelet site verify site/ --signers site-key.pub",
		RunE: stoppable(func(_ *cobra.Command, args []string) error {
			got, err := sites.VerifyFolder(args[0], signers)
			if err != nil {
				return err
			}
			return printResult(a, output.isJSON(), got, printSignedFolder)
		}),
	}
	c.Flags().StringVar(&signers, "signers", machine.SignersFile, "the public keys in `FILE`, one a line")
	output.addFlag(c, "text", "json")
	return c
}

// printSignedFolder prints the headers of a signed list.
func printSignedFolder(w io.Writer, got sites.SignedFolder, _ printer.Style) error {
	l := got.List
	fmt.Fprintf(w, "%s is signed as %s, %s, by the key %s.\n",
		got.Folder, l, printer.Count(got.Files, "file"), got.Key)
	for _, row := range []struct {
		isSet bool
		name  string
		value any
	}{
		{l.Ring != "", "ring", l.Ring},
		{l.Repository != "", "repository", l.Repository},
		{l.NotBelow > 0, "not below", l.NotBelow},
		{!l.Expires.IsZero(), "expires", l.Expires.UTC().Format(time.RFC3339)},
	} {
		if row.isSet {
			fmt.Fprintf(w, "  %-10s  %v\n", row.name, row.value)
		}
	}
	return nil
}

// Command kubectl-prelet is a plugin of kubectl: `kubectl prelet` lists nodes with the report that each has written to
// its annotations (`annotations {}` in the site), and shows one node's report. It only reads Nodes, with the user's
// kubeconfig.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	root := newCommand(os.Stdout, os.Stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// version is set by the linker.
var version = "unknown"

// options are the flags.
type options struct {
	output   string // "", wide or json
	selector string
	degraded bool

	cluster  *genericclioptions.ConfigFlags
	password string
	timeout  string // of one request
}

const longHelp = `Lists nodes with what prelet has reported of them, or shows the report of NODE.

A node reports itself if its site has "annotations {}" in the restart stage:
after a good verdict, and after each "prelet run" outside of the boot. A boot
without a change reports nothing. The node is the truth: "prelet status" there.

The list ends with nodes that have no report, and then degraded nodes.`

const examples = `  kubectl prelet                        # all nodes
  kubectl prelet -l wave=1 --degraded   # what a wave has broken
  kubectl prelet n1                     # the report of node n1`

// newCommand returns the command line.
func newCommand(stdout, stderr io.Writer) *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:               "kubectl-prelet [NODE]",
		Short:             "Show what prelet has reported of nodes",
		Long:              longHelp,
		Example:           examples,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl prelet"},
		Version:           version,
		Args:              cobra.MaximumNArgs(1),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return o.checkOutput() },
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return o.list(cmd.Context(), stdout, stderr)
			case o.selector != "" || o.degraded:
				return errors.New("NODE excludes --selector and --degraded, which are for the list")
			}
			return o.show(cmd.Context(), stdout, args[0])
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true // kubectl does not use it
	root.SetOut(stdout)
	root.SetErr(stderr)

	flags := root.PersistentFlags()
	o.cluster = newClusterFlags()
	o.cluster.AddFlags(flags)
	flags.StringVar(&o.password, "password", "", "Password for basic authentication to the API server")
	flags.StringVar(&o.timeout, "request-timeout", "30s", "How long to wait for one response. 0 waits without a limit.")

	flags.StringVarP(&o.output, "output", "o", "", "`FORMAT`: json or wide, a short list without this flag")
	root.Flags().StringVarP(&o.selector, "selector", "l", "", "list only nodes with these `LABELS`, as KEY=VALUE")
	root.Flags().BoolVar(&o.degraded, "degraded", false, "list only degraded nodes, and damaged reports")

	root.AddCommand(&cobra.Command{
		Use:   "show NODE",
		Short: "Show the report of one node",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.show(cmd.Context(), stdout, args[0])
		},
	})

	return root
}

// newClusterFlags returns kubectl's flags for the connection, without two: with a timeout, client-go does not use the
// configuration of the pod that it runs in; with a password, it asks for missing credentials on standard input.
func newClusterFlags() *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(false)
	f.Timeout = nil
	f.Username = new(string)
	f.Namespace = nil // Nodes are in none
	f.CacheDir = nil

	return f
}

// checkOutput refuses an unknown format.
func (o *options) checkOutput() error {
	switch o.output {
	case "", "wide", "json":
		return nil
	}

	return fmt.Errorf("invalid -o %q: the formats are json and wide", o.output)
}

// list prints the nodes, and a summary to stderr.
func (o *options) list(ctx context.Context, stdout, stderr io.Writer) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	nodes, err := c.list(ctx, o.selector)
	if err != nil {
		return err
	}

	if len(nodes) == 0 {
		fmt.Fprintln(stderr, o.describeNone())
	}
	sortNodes(nodes)
	shown := nodes
	if o.degraded {
		shown = keepDegraded(nodes)
	}
	if o.output == "json" {
		return printJSON(stdout, document{FormatVersion: 1, Nodes: shown})
	}

	if len(shown) > 0 {
		if err := printTable(stdout, shown, o.output == "wide"); err != nil {
			return err
		}
	}
	if len(nodes) > 0 {
		fmt.Fprintln(stderr, summarize(nodes))
	}

	return nil
}

// describeNone returns why the list is empty.
func (o *options) describeNone() string {
	if o.selector == "" {
		return "The cluster has no nodes."
	}

	return fmt.Sprintf("No node has the labels %q: kubectl get nodes --show-labels lists them.", o.selector)
}

// show prints the report of one node.
func (o *options) show(ctx context.Context, stdout io.Writer, name string) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	n, err := c.get(ctx, name)
	if err != nil {
		return err
	}

	if o.output == "json" {
		return printJSON(stdout, document{FormatVersion: 1, Nodes: []node{n}})
	}

	return printNode(stdout, n)
}

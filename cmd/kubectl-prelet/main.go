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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prelet/prelet/internal/buildversion"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { // a file system that does not answer holds a read, which no context ends
		time.Sleep(time.Second)
		fmt.Fprintln(os.Stderr, "error: interrupted; a file that it reads, such as the kubeconfig, does not answer")
		os.Exit(1)
	})

	version = buildversion.Or(version)
	root := newCommand(os.Stdout, os.Stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// version is set by the linker.
var version = "unknown"

type listFlags struct {
	output   string // "", wide, json or yaml
	selector string
	degraded bool

	cluster clientcmd.ClientConfig
	timeout string // of one request
}

const longHelp = `Lists nodes with what prelet has reported of them, or shows the report of NODE.

A node reports itself if its site has "annotations {}" in the restart stage:
after a good verdict, and after each "prelet run" outside of the boot. A boot
without a change reports nothing. The node is the truth: "prelet status" there.

The list ends with nodes that have no report, and then degraded nodes.`

const examples = `  kubectl prelet                        # all nodes
  kubectl prelet -l wave=1 --degraded   # what a wave has broken
  kubectl prelet n1                     # the report of node n1`

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	var o listFlags
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
	o.cluster = addClusterFlags(flags)
	flags.StringVar(&o.timeout, "request-timeout", "30s", "How long to wait for one response. 0 waits without a limit.")

	flags.StringVarP(&o.output, "output", "o", "", "`FORMAT`: json, yaml or wide, a short list without this flag")
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

// addClusterFlags adds kubectl's flags for the connection, without the timeout: with it, client-go does not use the
// configuration of the pod that it runs in.
func addClusterFlags(flags *pflag.FlagSet) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "`FILE` to use instead of $KUBECONFIG or ~/.kube/config")

	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.LongName = "" // Nodes are in none
	names.Timeout.LongName = ""
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	overrides := clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults}
	clientcmd.BindOverrideFlags(&overrides, flags, names)

	extra := map[string][]string{}
	overrides.AuthInfo.ImpersonateUserExtra = extra
	flags.Func("as-user-extra", "`KEY=VALUE` to impersonate with the user, may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want KEY=VALUE")
		}
		extra[key] = append(extra[key], value)
		return nil
	})

	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides)
}

// checkOutput refuses an unknown format.
func (o *listFlags) checkOutput() error {
	switch o.output {
	case "", "wide", "json", "yaml":
		return nil
	}

	return fmt.Errorf("invalid -o %q: the formats are json, yaml and wide", o.output)
}

func (o *listFlags) isDocument() bool { return o.output == "json" || o.output == "yaml" }

// list prints the nodes, and a summary to stderr.
func (o *listFlags) list(ctx context.Context, stdout, stderr io.Writer) error {
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
	if o.isDocument() {
		return o.print(stdout, document{FormatVersion: 1, Nodes: shown})
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

func (o *listFlags) describeNone() string {
	if o.selector == "" {
		return "The cluster has no nodes."
	}

	return fmt.Sprintf("No node has the labels %q: kubectl get nodes --show-labels lists them.", o.selector)
}

func (o *listFlags) show(ctx context.Context, stdout io.Writer, name string) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	n, err := c.get(ctx, name)
	if err != nil {
		return err
	}

	if o.isDocument() {
		return o.print(stdout, document{FormatVersion: 1, Nodes: []node{n}})
	}

	return printNode(stdout, n)
}

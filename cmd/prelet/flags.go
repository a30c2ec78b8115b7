package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/plan/lang"
)

// where are the flags for the node and the site of a command, and for its output. A flag has the same name, meaning
// and help in each command that has it; TestFlagsHaveOneMeaning lists the exceptions.
type where struct {
	lab.Request
	output format
}

// addSiteFlags adds the flags of a command that reads a site and prints a result.
func (w *where) addSiteFlags(c *cobra.Command) {
	w.addConfigFlag(c)
	w.output.addFlag(c, "text", "json")
}

// addStateFlags adds the flags of a command that shows the state of a node.
func (w *where) addStateFlags(c *cobra.Command) {
	addRootFlag(c, &w.Root)
	w.output.addFlag(c, "text", "json")
}

// addPlaceFlags adds the flags for the inputs of a plan: the site, the machine, the cluster and the variables.
func (w *where) addPlaceFlags(c *cobra.Command) {
	w.addConfigFlag(c)
	addRootFlag(c, &w.Root)
	w.addHardwareFlag(c)
	w.addObjectsFlag(c)
	w.addVarFlag(c)
}

func (w *where) addObjectsFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.Objects, "objects", "",
		"in place of the cluster: ca.crt, and NAMESPACE/NAME.yaml for each ConfigMap, in `DIR`")
}

// readRepository makes a command take the site, and the settings that no flag gives, from .prelet.hcl, and check its
// flags. Arguments are as --config. Commands about this machine itself do not: run, detect, doctor, detectors, bundle.
func (a *cli) readRepository(c *cobra.Command, w *lab.Request, files lang.Files) {
	c.PreRunE = stoppable(func(c *cobra.Command, args []string) error {
		if strings.HasSuffix(c.Use, " [PATH...]") {
			w.Config = append(w.Config, args...)
		}

		if err := w.UseRepository(a.env(), files); err != nil {
			return err
		}

		if err := w.UseReferences(c.Context(), a.env()); err != nil {
			return err
		}

		return w.Check()
	})
}

// addRecordedFlags adds the flags of a command that plans this node, recorded ones, or those of a repository.
func (a *cli) addRecordedFlags(c *cobra.Command, w *where) {
	a.readRepository(c, &w.Request, lang.OS())
	w.addPlaceFlags(c)
	w.addKubeletVersionFlag(c)
	addKubeletFlag(c, &w.Kubelets)
	w.addFromFlag(c)
	w.addVarFileFlag(c)
}

func (w *where) addFromFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.From, "from", "",
		"read everything from the recording or bundle `FILE`, or from each recording in a folder; "+
			"from this machine only site files, and the values of --var, --var-file and --objects")
}

func (w *where) addVarFileFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.VarFiles, "var-file", nil,
		"values of variables, also sensitive ones, from `FILE`, written as a vars file (repeatable)")
}

func (w *where) addConfigFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.Config, "config", nil, configUsage)
}

func (w *where) addVarFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.Variables, "var", nil, "value of a variable, `NAME=VALUE` (repeatable)")
}

func (w *where) addHardwareFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.Hardware, "hardware", "",
		"a recorded machine at `PATH` in place of this one: a folder with proc and sys, "+
			"or the output of detect -o json")
}

func (w *where) addKubeletVersionFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.KubeletVersion, "kubelet-version", "",
		"a kubelet of `VERSION`, as 1.36 or v1.36.3, in place of the installed one")
}

func addKubeletFlag(c *cobra.Command, programs *[]string) {
	c.Flags().StringArrayVar(programs, "kubelet", nil,
		"the kubelet's `PROGRAM` in place of the installed one: it is asked whether it accepts the plan")
}

const configUsage = "site `PATH`, a file or a folder, instead of /etc/prelet and the other default folders " +
	"(repeatable; a later one wins); a command that only looks takes oci://… and oci-layout:… too"

const strictUsage = "warnings are errors, for plan also notes: exit 10"

// addRootFlag adds --root, for commands about a node whose files are not below /.
func addRootFlag(c *cobra.Command, root *string) {
	c.Flags().StringVar(root, "root", "",
		"the files of the node are below `DIR`, as in a mounted image; no unit is touched")
}

// addOutFlag adds --out, for commands that write files into a folder.
func addOutFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "out", "", "write into the folder `DIR`")
}

type format struct {
	name  string
	known []string // the first is the default
	isSet bool     // the user chose it
}

// addFlag adds -o with the formats that a command prints; the first is the default.
func (f *format) addFlag(c *cobra.Command, known ...string) {
	if at := slices.Index(known, "json"); at >= 0 {
		known = slices.Insert(known, at+1, "yaml")
	}
	f.name = known[0]
	f.known = known

	c.Flags().VarP(f, "output", "o", "`FORMAT`: "+f.list())
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// list returns the formats as text: "text, markdown or json".
func (f *format) list() string {
	last := len(f.known) - 1

	return strings.Join(f.known[:last], ", ") + " or " + f.known[last]
}

// isJSON reports whether a document is printed, as JSON or as YAML.
func (f *format) isJSON() bool { return f.name == "json" || f.name == "yaml" }

// String returns the format, for package pflag.
func (f *format) String() string { return f.name }

// Type returns the kind of value, for package pflag.
func (f *format) Type() string { return "format" }

// Set sets the format, for package pflag. It refuses a format that the command does not print.
func (f *format) Set(name string) error {
	if !slices.Contains(f.known, name) {
		return fault.Usage.Errorf("-o %s: %s", name, f.list())
	}
	f.name = name
	f.isSet = true

	return nil
}

package main

import (
	"bytes"
	"io"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/report/printer"
)

// where are the flags for the node and the site of a command, and for its output.
type where struct {
	app.Where
	output string
}

func (w *where) addSiteFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.Config, "config", nil,
		"site `PATH`, a file or a folder, instead of /etc/prelet and the other default folders (repeatable)")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`FORMAT`: text or json")
}

func (w *where) addNodeFlags(c *cobra.Command) {
	w.addSiteFlags(c)
	c.Flags().StringVar(&w.Root, "root", "", "files and targets below `DIR`; no unit is touched")
	c.Flags().StringVar(&w.Hardware, "hardware", "",
		"facts from a recorded machine: a tree, a snapshot of ghw or hwloc, "+
			"or the output of detect -o json, at `PATH`")
	c.Flags().StringVar(&w.Objects, "objects", "",
		"ConfigMaps (NAMESPACE/NAME.yaml) and ca.crt from `DIR`, in place of the cluster")
	c.Flags().
		StringArrayVar(&w.Variables, "var", nil, "value of a variable, `NAME=VALUE` (repeatable)")
}

func (w *where) addFromFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.From, "from", "",
		"read everything from the recording `FILE`, or from each recording in a folder; "+
			"from this machine only site files,\nand the values of --var, --var-file and --objects")
	c.Flags().StringArrayVar(&w.VarFiles, "var-file", nil,
		"values of variables, also sensitive ones, from `FILE`, written as a vars file (repeatable)")
	c.Flags().StringVar(&w.KubeletVersion, "kubelet-version", "",
		"a kubelet of `VERSION`, as 1.36 or v1.36.3, in place of the installed one")
}

func (w *where) isJSON() (bool, error) {
	switch w.output {
	case "json":
		return true, nil
	case "text", "":
		return false, nil
	}
	return false, failure(fault.Usage, "-o %s: text or json", w.output)
}

// say prints diagnostics for people, redacted.
func (a *cli) say(s *lang.Site, ds hcl.Diagnostics) {
	var sources map[string][]byte
	if s != nil {
		sources = s.Sources
	}
	_ = a.printRedacted(a.stderr, func(w io.Writer) error {
		return printer.Diagnostics(w, sources, ds, printer.StyleOf(a.stderr, a.getenv))
	})
}

// print writes to stdout through the redactor.
func (a *cli) print(f func(io.Writer) error) error {
	a.printed = true
	if err := a.printRedacted(a.stdout, f); err != nil {
		return failure(fault.CannotWrite, "cannot print: %s", err)
	}
	return nil
}

// printDocument writes JSON to stdout, redacted.
func (a *cli) printDocument(f func(io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	a.printed = true
	if err := printer.WriteDocument(a.stdout, b.Bytes(), a.secrets()); err != nil {
		return failure(fault.CannotWrite, "cannot print: %s", err)
	}
	return nil
}

func (a *cli) printRedacted(to io.Writer, f func(io.Writer) error) error {
	w := a.secrets().Writer(to)
	if err := f(w); err != nil {
		return err
	}
	return w.Close()
}

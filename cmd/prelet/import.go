package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) importSite() *cobra.Command {
	var o app.ImportOptions
	c := &cobra.Command{
		Use:     "import FILE",
		GroupID: "site",
		Short:   "Make a site of the init-config of init-k8s-node.py",
		Long: `Reads the /etc/kubernetes/init-config of a node that init-k8s-node.py sets up,
and writes a site that does the same, without the script's bugs.
It reports what it cannot convert, and reads nothing else of the machine.
--out and --ca-cert-hash are needed; the folder is new or empty.`,
		Example: "  prelet import init-config.json --ca-cert-hash sha256:… --out ./site",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return failure(fault.Usage, "import needs one file, the /etc/kubernetes/init-config of a node")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.File = args[0]
			done, err := a.env().Import(o)
			a.printDiagnostics(done.Site, printer.Sorted(done.Diagnostics))
			if err != nil {
				return err
			}
			if code := origin.Code(done.Diagnostics); code != "" {
				return quit(code)
			}
			return a.print(func(w io.Writer) error {
				return printImported(w, o, done, a.width())
			})
		},
	}
	c.Flags().StringArrayVar(&o.Hashes, "ca-cert-hash", nil,
		"`HASH` of the cluster's CA, sha256:… (repeatable)")
	addOutFlag(c, &o.Dir)
	c.Flags().StringVar(&o.Credential, "token-credential", "bootstrap-token",
		"`NAME` of the systemd credential with the bootstrap token")
	return c
}

// printImported prints the written files, their differences from the script, and the next steps.
func printImported(w io.Writer, o app.ImportOptions, done app.Imported, width int) error {
	fmt.Fprintf(w, "%s is written.\n", done.Path)
	printList(w, width, "Differences from init-k8s-node.py", done.Differences)
	printList(w, width, "Look at", done.Open)

	_, err := fmt.Fprintf(w, "\nNext:\n  prelet validate %[1]s\n  prelet plan --config %[1]s\n"+
		"The second one on a node: it shows what would change there, and writes nothing.\n"+
		"Then put the file into /etc/prelet, and give prelet.service the token as\ncredential %[2]q.\n",
		o.Dir, o.Credential)
	return err
}

// printList prints a title and a list of sentences, at most width columns wide. It prints nothing where there are none.
func printList(w io.Writer, width int, title string, sentences []string) {
	if len(sentences) == 0 {
		return
	}

	fmt.Fprintf(w, "\n%s:\n", title)
	for _, s := range sentences {
		line := "  -"
		for _, word := range strings.Fields(s) {
			if len(line)+1+len(word) > width {
				fmt.Fprintln(w, line)
				line = "   "
			}
			line += " " + word
		}
		fmt.Fprintln(w, line)
	}
}

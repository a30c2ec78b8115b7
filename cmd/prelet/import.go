package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/importer"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/site"
)

func (a *cli) importSite() *cobra.Command {
	o := importer.Options{Version: version}
	var dir string
	c := &cobra.Command{Use: "import FILE", GroupID: "site", Short: "Make a site of the init-config of init-k8s-node.py",
		Long: "Reads the /etc/kubernetes/init-config of a node that init-k8s-node.py sets up, and writes a site that does the same\n" +
			"without the script's faults. What cannot be carried over is said; nothing else of the machine is read.",
		Example: "  prelet import init-config.json --ca-cert-hash sha256:… -o ./site",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return failure(fault.Usage, "import needs one file, the /etc/kubernetes/init-config of a node")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkImport(o, dir); err != nil {
				return err
			}
			src, err := readSource(args[0])
			if err != nil {
				return err
			}
			r := importer.Import(args[0], src, o)
			a.say(&site.Site{Sources: map[string][]byte{args[0]: src}}, present.Sorted(r.Diagnostics))
			if code := origin.Code(r.Diagnostics); code != "" {
				return quit(code)
			}
			path, err := writeSite(dir, r.Text)
			if err != nil {
				return failure(fault.CannotWrite, "%s", err)
			}
			return a.print(func(w io.Writer) error {
				fmt.Fprintf(w, "%s is written.\n", path)
				points(w, "Otherwise than init-k8s-node.py", r.Mended)
				points(w, "Look at", r.Open)
				_, err := fmt.Fprintf(w, "\nNext:\n  prelet validate %s\n  prelet plan --config %s\n"+
					"The second one on a node: it shows what would change there, and writes nothing.\n"+
					"Then put the file into /etc/prelet, and give prelet.service the token as\ncredential %q.\n", dir, dir, o.Credential)
				return err
			})
		}}
	c.Flags().StringArrayVar(&o.Hashes, "ca-cert-hash", nil, "`HASH` of the cluster's CA, sha256:… (repeatable, needed)")
	c.Flags().StringVarP(&dir, "output", "o", "", "`DIR` to write to, new or empty (needed)")
	c.Flags().StringVar(&o.Credential, "token-credential", "bootstrap-token", "`NAME` of the systemd credential with the bootstrap token")
	return c
}

// points prints a list of sentences, in 80 columns.
func points(w io.Writer, title string, sentences []string) {
	if len(sentences) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", title)
	for _, s := range sentences {
		line := "  -"
		for _, word := range strings.Fields(s) {
			if len(line)+1+len(word) > 80 {
				fmt.Fprintln(w, line)
				line = "   "
			}
			line += " " + word
		}
		fmt.Fprintln(w, line)
	}
}

// checkImport looks at the flags.
func checkImport(o importer.Options, dir string) error {
	if len(o.Hashes) == 0 {
		return failure(fault.Usage, "--ca-cert-hash is missing: the pin of the cluster's CA.\n%s", importer.HowToHash)
	}
	for _, h := range o.Hashes {
		if err := importer.CheckHash(h); err != nil {
			return failure(fault.Usage, "--ca-cert-hash: %s", err)
		}
	}
	if err := importer.CheckCredential(o.Credential); err != nil {
		return failure(fault.Usage, "--token-credential: %s", err)
	}
	if dir == "" {
		return failure(fault.Usage, "-o is missing: the folder for the site, new or empty")
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return failure(fault.Usage, "-o %s: the folder is not empty, and nothing is overwritten; name a new one", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return failure(fault.Usage, "-o %s: this is a file; name a folder that is new or empty", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return failure(fault.CannotWrite, "-o %s: %s", dir, err)
	}
	return nil
}

// readSource reads one byte more than may be imported, so that the importer can say that it is too much.
func readSource(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, failure(fault.Usage, "%s", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, importer.MaxSource+1))
	if err != nil {
		return nil, failure(fault.Usage, "%s", err)
	}
	return b, nil
}

// writeSite writes the site's file; one that is there by now is not overwritten.
func writeSite(dir string, text []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, importer.FileName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return path, errors.Join(err, f.Close())
}

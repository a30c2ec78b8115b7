package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/replace"
	"github.com/prelet/prelet/internal/site"
)

func (a *cli) validate() *cobra.Command {
	var w where
	var strict bool
	var kubelet string
	c := &cobra.Command{Use: "validate [PATH...]", GroupID: "site", Short: "Check a site with no machine and no network",
		Long: "Checks syntax, names, types, references, owners, labels and taints, then evaluates the whole site on machines that\n" +
			"prelet knows: one of which nothing is known, one where everything failed, a bare VM, one whose facts are null, eight\n" +
			"H100, eight MI300X, two sockets. So gpus[0] is found out on a laptop.\n\n" +
			"--kubelet-version tells what a kubelet of that version would make of it: flags and feature gates that it does not\n" +
			"know or no longer takes, fields that it has not, values that it refuses, and what it swallows without a word.",
		Example: "  prelet validate\n  prelet validate ./site --strict\n  prelet validate ./site --kubelet-version 1.36",
		RunE: func(_ *cobra.Command, args []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if err := kubeletVersion(kubelet); err != nil {
				return err
			}
			w.Config = append(w.Config, args...)
			if err := w.Check(); err != nil {
				return err
			}
			s, diags := w.Load(nil, version)
			if !diags.HasErrors() {
				diags = append(diags, boot.CheckWith(s, boot.Witnesses(), kubelet, a.env().DetectorHost(w.Where))...)
			}
			bad := false
			for _, d := range diags {
				bad = bad || strict && d.Severity == hcl.DiagWarning && !origin.IsNote(d)
			}
			if asJSON {
				err := a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					return e.Encode(struct {
						FormatVersion int                  `json:"format_version"`
						Valid         bool                 `json:"valid"`
						Diagnostics   []present.Diagnostic `json:"diagnostics"`
					}{1, !diags.HasErrors() && !bad, present.DiagnosticsJSON(present.Sorted(diags))})
				})
				if err != nil {
					return err
				}
			} else {
				a.say(s, present.Sorted(diags))
			}
			if code := origin.Code(diags); code != "" {
				return quit(code)
			}
			if bad {
				return failure(fault.Evaluation, "the site has warnings, and --strict makes them errors")
			}
			if !asJSON {
				fmt.Fprintf(a.stdout, "The site is valid: %s, %s, tried on %s.\n", present.Count(len(s.Files), "file"), present.Count(len(s.Stages), "stage"), present.Count(len(boot.Witnesses()), "machine"))
			}
			return nil
		}}
	w.siteFlags(c)
	c.Flags().StringVar(&w.Root, "root", "", "look for the site below `DIR`")
	c.Flags().BoolVar(&strict, "strict", false, "warnings are errors")
	c.Flags().StringVar(&kubelet, "kubelet-version", "", "judge the site for a kubelet of `VERSION`, as 1.36 or v1.36.3")
	return c
}

// kubeletVersion refuses what is no version, and one that prelet knows nothing of.
func kubeletVersion(v string) error {
	if v == "" {
		return nil
	}
	oldest, newest := known.Range()
	minor, ok := known.Minor(v)
	switch {
	case !ok || !strings.Contains(v, "."):
		return failure(fault.Usage, "--kubelet-version %s: write a version of Kubernetes, as 1.%d or v1.%d.3", v, newest, newest)
	case minor < oldest || minor > newest:
		return failure(fault.Usage, "--kubelet-version %s: this prelet knows the kubelets from 1.%d to 1.%d", v, oldest, newest)
	}
	return nil
}

func (a *cli) fmt() *cobra.Command {
	var check bool
	c := &cobra.Command{Use: "fmt [PATH...]", GroupID: "site", Short: "Lay site files out in the canonical form",
		Long: "Rewrites *.hcl and *.prelet.vars files, in the current folder if none is named. Folders are not entered.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			var files []string
			for _, p := range args {
				st, err := os.Stat(p)
				if err != nil {
					return failure(fault.Usage, "%s: there is no such file or folder", p)
				}
				if !st.IsDir() {
					files = append(files, p)
					continue
				}
				for _, pattern := range []string{"*.hcl", "*.prelet.vars"} {
					m, _ := filepath.Glob(filepath.Join(p, pattern))
					files = append(files, m...)
				}
			}
			changed, worst := 0, 0
			for _, f := range files {
				if strings.HasSuffix(f, ".json") {
					return failure(fault.Usage, "%s: fmt lays out *.hcl and *.prelet.vars; JSON is as the program that wrote it left it", f)
				}
				src, why, err := siteFileAt(f)
				if err != nil {
					return failure(fault.FileUnusable, "%s: %s", f, err)
				}
				if why != "" {
					a.say(nil, hcl.Diagnostics{origin.Error(fault.FileRefused, hcl.Range{}, f+" "+why, "It is left as it is, and validate refuses it as well. Put a file there.")})
					worst = fault.FileRefused.Exit()
					continue
				}
				out, diags := site.FormatFile(f, src)
				if diags.HasErrors() {
					a.say(&site.Site{Sources: map[string][]byte{f: src}}, diags)
					worst = max(worst, origin.Exit(diags))
					continue
				}
				if string(out) == string(src) {
					continue
				}
				changed++
				fmt.Fprintln(a.stdout, f)
				if check {
					continue
				}
				if err := replaceFile(f, out); err != nil {
					return failure(fault.CannotWrite, "%s: %s", f, err)
				}
			}
			if worst != 0 {
				return exit(worst)
			}
			if check && changed > 0 {
				return exit(3)
			}
			return nil
		}}
	c.Flags().BoolVar(&check, "check", false, "write nothing, list the files that would change, and exit 3 if there are any")
	return c
}

// siteFileAt reads a file of a site, or says why it is none that prelet reads: a link, or what is no file, which might
// never end. One that masks a file of a later folder is empty.
func siteFileAt(path string) (src []byte, why string, err error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, "", err
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		if to, err := os.Readlink(path); err == nil && to == os.DevNull {
			return nil, "", nil
		}
		return nil, "is a link", nil
	}
	src, err = readRegular(path)
	if errors.Is(err, app.ErrNotRegular) {
		return nil, "is no regular file", nil
	}
	return src, "", err
}

func readRegular(path string) ([]byte, error) {
	f, err := app.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// replaceFile writes a file of a site in one step, so that it is never half there, and keeps who may read it.
func replaceFile(path string, b []byte) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	return replace.File(path, st.Mode().Perm(), b)
}

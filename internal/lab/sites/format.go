package sites

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Formatted lists the files that are not in the canonical form, in the order in which they were read.
type Formatted struct {
	Files []FormattedFile
	Code  fault.Code // the one with the highest exit status among the files that could not be formatted; "" without any
}

// FormattedFile is a file that was formatted, or that cannot be.
type FormattedFile struct {
	Path        string
	Source      []byte          // the content before; nil where it was not read
	Text        []byte          // the canonical form; nil where there is none
	Diagnostics hcl.Diagnostics // why it is left as it is; nil where it was formatted
}

// Changed returns the paths of the files that were formatted or, with check, that would be.
func (f Formatted) Changed() []string {
	var paths []string
	for _, file := range f.Files {
		if file.Diagnostics == nil {
			paths = append(paths, file.Path)
		}
	}
	return paths
}

// ListRepository returns the paths of a repository to format: its file, its tests, and the layers; none without a file.
func ListRepository(r repository.File) []string {
	if r.Path == "" {
		return nil
	}

	return slices.Concat([]string{r.Path}, testsIn(filepath.Join(filepath.Dir(r.Path), lang.TestFolder)), r.Layers)
}

// Format rewrites site files in the canonical form. A path is a file, or a folder whose *.hcl and *.prelet.vars files
// are meant, and the tests in its folder tests; without paths it is the current folder. With check it writes nothing.
// An error ends it; the result then has the files up to there.
func Format(paths []string, check bool) (Formatted, error) {
	files, err := listSiteFiles(paths)
	if err != nil {
		return Formatted{}, err
	}

	var out Formatted
	for _, path := range files {
		file, err := formatFile(path)
		if err != nil {
			return out, err
		}

		if code := origin.Code(file.Diagnostics); code != "" {
			out.Files = append(out.Files, file)
			out.Code = fault.Higher(out.Code, code)
			continue
		}
		if file.IsCanonical() {
			continue
		}

		out.Files = append(out.Files, file)
		if check {
			continue
		}
		if err := atomicfile.Edit(path, file.Text); err != nil {
			return out, fault.CannotWrite.Errorf("%s: %s", path, err)
		}
	}
	return out, nil
}

// listSiteFiles returns the files that paths mean: a file, or those of a folder and the tests in its folder tests.
// Files whose names begin with a dot are not part of a site.
func listSiteFiles(paths []string) ([]string, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}

	var files []string
	for _, p := range paths {
		st, err := nodefile.Stat(p)
		if err != nil {
			return nil, nodefile.NamedFailure("", p, "no such file or folder", err)
		}
		if !st.IsDir() {
			files = append(files, p)
			continue
		}

		entries, err := nodefile.ReadDir(p)
		if err != nil {
			return nil, nodefile.NamedFailure("", p, "no such folder", err)
		}
		for _, suffix := range []string{".hcl", ".prelet.vars"} {
			for _, entry := range entries {
				name := entry.Name()
				if strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".") {
					files = append(files, filepath.Join(p, name))
				}
			}
		}
		files = append(files, testsIn(filepath.Join(p, lang.TestFolder))...)
	}
	return files, nil
}

// formatFile returns the canonical form of a file. Where the result has diagnostics, there is none.
func formatFile(path string) (FormattedFile, error) {
	if strings.HasSuffix(path, ".json") || lang.IsSiteFile(path) && !lang.IsNative(path) {
		return FormattedFile{}, fault.Usage.Errorf("%s: fmt lays out *.hcl files only", path)
	}

	src, why, err := userfile.ReadSite(path, lang.MaxBytes)
	if err != nil {
		return FormattedFile{}, fault.FileUnusable.Errorf("%s: %s", path, err)
	}
	if why != "" {
		refused := origin.Error(fault.FileRefused, hcl.Range{}, path+" "+why,
			"It is left as it is, and validate refuses it as well. Put a file there.")
		return FormattedFile{Path: path, Diagnostics: hcl.Diagnostics{refused}}, nil
	}

	return formatText(path, src), nil
}

// formatText returns the canonical form of a text, or why it has none.
func formatText(path string, src []byte) FormattedFile {
	file := FormattedFile{Path: path, Source: src}
	text, diags := lang.FormatFile(path, src)
	if diags.HasErrors() {
		file.Diagnostics = diags
	} else {
		file.Text = text
	}

	return file
}

// StandardInput is the argument that makes fmt a filter, and inputName is how its messages name that text.
const (
	StandardInput = "-"
	inputName     = "<stdin>"
)

// FormatInput formats a text that is read to its end, and writes nothing. A text that cannot be formatted has
// diagnostics. Reading stops once the text is larger than a site's file may be.
func FormatInput(in io.Reader) (FormattedFile, error) {
	src, err := io.ReadAll(io.LimitReader(in, lang.MaxBytes+1))
	if err != nil {
		return FormattedFile{}, fault.FileUnusable.Errorf("cannot read standard input: %s", err)
	}

	return formatText(inputName, src), nil
}

// IsCanonical reports whether a file is in the canonical form already.
func (f FormattedFile) IsCanonical() bool {
	return f.Diagnostics == nil && bytes.Equal(f.Text, f.Source)
}

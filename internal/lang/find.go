package lang

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
)

// The endings of the files of a site, and of tests, which are not part of it.
const (
	nativeSuffix   = ".hcl"
	jsonSuffix     = ".hcl.json" // refused: a site would lack what it had in JSON
	varsSuffix     = ".prelet.vars"
	templateSuffix = ".tftpl" // of templatefile()
	testSuffix     = ".prelettest.hcl"
)

// folders returns the directories and files of a site. Without --config a name in an earlier directory hides the same
// name in a later one.
func (o Options) folders() []string {
	if len(o.Paths) > 0 {
		return o.Paths
	}

	return []string{
		path.Join(o.Root, "/etc/prelet"),
		path.Join(o.Root, "/run/prelet/site"),
		path.Join(o.Root, "/usr/lib/prelet/site"),
	}
}

// IsSiteFile reports whether a file in a site's directory is read: *.hcl, *.prelet.vars and *.tftpl, but no dotfile, no
// editor's backup and no test. *.hcl.json is refused when it is read.
func IsSiteFile(name string) bool {
	base := path.Base(name)
	hasSuffix := func(suffix string) bool {
		return strings.HasSuffix(base, suffix)
	}
	suffixes := []string{nativeSuffix, jsonSuffix, varsSuffix, templateSuffix}

	return !isIgnored(base) && slices.ContainsFunc(suffixes, hasSuffix)
}

// isIgnored reports whether a file is intentionally not read.
func isIgnored(base string) bool {
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~") ||
		strings.HasSuffix(base, testSuffix)
}

// finder finds the files of a site.
type finder struct {
	fsys   Files
	found  []string
	hidden map[string]bool // names in an earlier directory
	origin.Collector
}

// find returns the site's files in the order in which they apply: by name over all directories.
func find(fsys Files, opts Options) ([]string, hcl.Diagnostics) {
	f := &finder{fsys: fsys, hidden: map[string]bool{}}

	places := opts.folders()
	for _, p := range places {
		if len(opts.Paths) > 0 {
			f.addPath(path.Clean(p))
		} else {
			f.addFolder(p, true)
		}
	}

	slices.SortStableFunc(
		f.found,
		func(a, b string) int {
			return strings.Compare(path.Base(a), path.Base(b))
		},
	)
	if len(f.Diags) > 0 {
		return nil, f.Diags
	}
	if len(f.found) == 0 {
		f.Error(
			fault.NoSite,
			hcl.Range{},
			"No site was found",
			"No *.hcl or *.prelet.vars file in %s. Write one (prelet init --from-node makes a first one), "+
				"or name it: --config PATH. Directories below a directory are not searched.",
			strings.Join(places, ", "),
		)
	}

	return f.found, f.Diags
}

// ListNotRead returns the files in a site's directories whose names look like those of site files and are not read:
// a.hcl.bak, prod.vars, a.HCL.
func ListNotRead(fsys Files, opts Options) (out []string) {
	for _, dir := range opts.folders() {
		if st, err := fsys.Lstat(dir); err != nil || !st.IsDir() {
			continue
		}

		entries, _ := fsys.ReadDir(dir) // find has reported the error
		for _, e := range entries {
			if !e.IsDir() && looksLikeSiteFile(e.Name()) && !IsSiteFile(e.Name()) {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	slices.Sort(out)

	return out
}

func looksLikeSiteFile(base string) bool {
	name := strings.ToLower(base)
	contains := func(part string) bool {
		return strings.Contains(name, part)
	}

	return !isIgnored(name) &&
		slices.ContainsFunc([]string{nativeSuffix, "vars", templateSuffix}, contains)
}

// addPath adds a path of --config: a directory, or one file, which neither hides others nor is hidden.
func (f *finder) addPath(name string) {
	st, err := f.fsys.Lstat(name)

	switch {
	case err != nil:
		f.Report(cannotRead(name, err))
	case st.IsDir():
		f.addFolder(name, false)
	case isLink(st) && !IsSiteFile(name):
		f.refuse(name, "A site must not be a link",
			"Its target could change between the check and the reading. Name the target.")
	case !IsSiteFile(name):
		f.refuse(
			name,
			"This is not the name of a site file",
			"A site's file ends in %s, %s or %s, and its name does not begin with a dot; *%s is not read. "+
				"Rename it, or name another.",
			nativeSuffix,
			varsSuffix,
			templateSuffix,
			testSuffix,
		)
	default:
		f.addFile(name, st)
	}
}

func (f *finder) addFolder(dir string, mayBeMissing bool) {
	st, err := f.fsys.Lstat(dir)

	switch {
	case mayBeMissing && errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		f.Report(cannotRead(dir, err))
		return
	case !st.IsDir():
		f.refuse(
			dir,
			"This is not a folder",
			"It is a %s. Replace it by a folder that is not a link.",
			nodefile.KindOf(st.Mode()),
		)
		return
	case !f.isTrusted(dir, "Others may write into this folder"):
		return
	}

	entries, err := f.fsys.ReadDir(dir)
	if err != nil {
		f.Report(cannotRead(dir, err))
		return
	}

	for _, e := range entries {
		if !IsSiteFile(e.Name()) || f.hidden[e.Name()] {
			continue
		}
		f.hidden[e.Name()] = true

		name := path.Join(dir, e.Name())
		if st, err := f.fsys.Lstat(name); err != nil {
			f.Report(cannotRead(name, err))
		} else if !f.isMask(name, st) {
			f.addFile(name, st)
		}
	}
}

func isLink(st fs.FileInfo) bool {
	return st.Mode()&fs.ModeSymlink != 0
}

// isMask reports whether a name is a link to /dev/null, which hides the files of that name.
func (f *finder) isMask(name string, st fs.FileInfo) bool {
	if !isLink(st) {
		return false
	}
	target, err := f.fsys.Readlink(name)

	return err == nil && target == "/dev/null"
}

func (f *finder) addFile(name string, st fs.FileInfo) {
	switch {
	case isLink(st):
		f.refuse(name, "A site's file must not be a link",
			"Its target can change without a change in this folder. Put the file itself here. "+
				"(A link to /dev/null masks a file of a later folder.)")
	case !st.Mode().IsRegular():
		f.refuse(
			name,
			"This is not a regular file",
			"It is a %s. Rename or remove it: every name in this folder that ends like a site's file is read.",
			nodefile.KindOf(st.Mode()),
		)
	case !f.isTrusted(name, "Others may change this file"):
	case st.Size() > MaxBytes:
		f.Report(tooLarge(name, st.Size()))
	default:
		f.found = append(f.found, name)
		if len(f.found) == maxFiles+1 {
			f.Report(tooManyFiles(name))
		}
	}
}

// isTrusted reports whether only root and this user may change a name, directly or through a directory above it. It
// reports an error otherwise.
func (f *finder) isTrusted(name, summary string) bool {
	err := f.fsys.CheckTrusted(name)

	var loose *nodefile.Loose
	if errors.As(err, &loose) {
		f.refuse(
			name,
			summary,
			"%s. A user who may change it controls this node. Fix it: %s",
			loose,
			loose.Fix,
		)
	} else if err != nil {
		f.Report(cannotRead(name, err))
	}

	return err == nil
}

func (f *finder) refuse(name, summary, detail string, args ...any) {
	f.Error(fault.FileRefused, fileRange(name), summary, detail, args...)
}

func cannotRead(name string, err error) *hcl.Diagnostic {
	next := "Check that it exists and that this user may read it."
	if errors.Is(err, fs.ErrPermission) {
		next = "This user may not read it: run as root, or give --config a copy."
	}

	return origin.Error(
		fault.FileRefused,
		fileRange(name),
		"Cannot read "+name,
		"%s. %s",
		err,
		next,
	)
}

// read returns the contents of files that find has returned.
func read(fsys Files, names []string) (out []world.SiteFile, diags hcl.Diagnostics) {
	for _, name := range names {
		b, err := fsys.ReadFile(name, MaxBytes)
		if err != nil {
			diags = append(diags, cannotRead(name, err))
			continue
		}
		out = append(out, world.SiteFile{Name: name, Text: string(b)})
	}

	return out, diags
}

// fileRange returns the beginning of a file, for diagnostics about all of it.
func fileRange(name string) hcl.Range {
	return hcl.Range{
		Filename: name,
		Start:    hcl.InitialPos,
		End:      hcl.InitialPos,
	}
}

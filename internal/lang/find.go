package site

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
)

// searchFolders are looked at in this order; a name in an earlier one hides the same name in a later one.
func searchFolders() []string {
	return []string{"/etc/prelet", "/run/prelet/site", "/usr/lib/prelet/site"}
}

// The endings of the files that make a site, and of those that only look like it.
const (
	nativeSuffix = ".hcl"
	jsonSuffix   = ".hcl.json"
	varsSuffix   = ".prelet.vars"
	// templateSuffix is that of the templates of templatefile().
	templateSuffix = ".tftpl"
	testSuffix     = ".prelettest.hcl"
)

// IsSiteFile says whether a name in a site's folder is read: *.hcl, *.hcl.json, *.prelet.vars and *.tftpl, but no
// dotfile, no editor's backup and no test.
func IsSiteFile(name string) bool {
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~") || strings.HasSuffix(base, testSuffix) {
		return false
	}
	endings := []string{nativeSuffix, jsonSuffix, varsSuffix, templateSuffix}

	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(base, e) })
}

type finder struct {
	fsys   Files
	found  []string
	hidden map[string]bool // names that an earlier folder had
	diags  hcl.Diagnostics
}

// find lists the site's files in the order in which they apply: by name over all folders.
func find(fsys Files, opts Options) ([]string, hcl.Diagnostics) {
	f := &finder{fsys: fsys, hidden: map[string]bool{}}
	looked := opts.Paths
	if len(opts.Paths) == 0 {
		for _, dir := range searchFolders() {
			dir = path.Join(opts.Root, dir)
			looked = append(looked, dir)
			f.folder(dir, true)
		}
	}
	for _, p := range opts.Paths {
		f.given(path.Clean(p))
	}
	slices.SortStableFunc(f.found, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	if len(f.diags) > 0 {
		return nil, f.diags
	}
	if len(f.found) == 0 {
		f.diags = append(f.diags, origin.Error(fault.NoSite, hcl.Range{}, "There is no site",
			"No *.hcl, *.hcl.json or *.prelet.vars file stands in %s. Write one (prelet init --from-node makes a first one), or name it: --config PATH. Folders below a folder are not entered.", strings.Join(looked, ", ")))
	}
	return f.found, f.diags
}

// ListNotRead returns the files in a site's folders that look like a site's and are not read, because of their names:
// a.hcl.bak, prod.vars, a.HCL. Dotfiles, editors' backups and tests are not read on purpose.
func ListNotRead(fsys Files, opts Options) (out []string) {
	folders := opts.Paths
	if len(folders) == 0 {
		for _, dir := range searchFolders() {
			folders = append(folders, path.Join(opts.Root, dir))
		}
	}
	for _, dir := range folders {
		if st, err := fsys.Lstat(dir); err != nil || !st.IsDir() {
			continue
		}
		entries, err := fsys.ReadDir(dir)
		if err != nil {
			continue // find has reported it
		}
		for _, e := range entries {
			name := strings.ToLower(e.Name())
			isOnPurpose := strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, testSuffix)
			looksRead := strings.Contains(name, nativeSuffix) || strings.Contains(name, "vars") || strings.Contains(name, templateSuffix)
			if !e.IsDir() && !isOnPurpose && looksRead && !IsSiteFile(e.Name()) {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}

	slices.Sort(out)

	return out
}

// given takes a path of --config: a folder, or one file that hides nothing and that nothing hides.
func (f *finder) given(name string) {
	st, err := f.fsys.Lstat(name)
	switch {
	case err != nil:
		f.cannotRead(name, err)
	case st.IsDir():
		f.folder(name, false)
	case st.Mode()&fs.ModeSymlink != 0 && !IsSiteFile(name):
		f.refuse(name, "A site must not be a link", "Where it leads could change between the check and the reading. Name the folder that it leads to.")
	case !IsSiteFile(name):
		f.refuse(name, "This is no name of a site file", "A site's file ends in %s, %s, %s or %s, and its name begins with no dot; *%s is not read. Rename it, or name another.", nativeSuffix, jsonSuffix, varsSuffix, templateSuffix, testSuffix)
	default:
		f.file(name, st)
	}
}

func (f *finder) folder(dir string, mayLack bool) {
	st, err := f.fsys.Lstat(dir)
	if mayLack && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		f.cannotRead(dir, err)
		return
	}
	if !st.IsDir() {
		f.refuse(dir, "This is no folder", "It is %s. A site stands in a folder that is no link: replace it.", kind(st.Mode()))
		return
	}
	if !f.judged(dir, "Others may write into this folder") {
		return
	}
	entries, err := f.fsys.ReadDir(dir)
	if err != nil {
		f.cannotRead(dir, err)
		return
	}
	var here []string
	for _, e := range entries {
		if !IsSiteFile(e.Name()) || f.hidden[e.Name()] {
			continue
		}
		here = append(here, e.Name())
		name := path.Join(dir, e.Name())
		if st, err := f.fsys.Lstat(name); err != nil {
			f.cannotRead(name, err)
		} else if !f.masked(name, st) {
			f.file(name, st)
		}
	}
	for _, n := range here {
		f.hidden[n] = true
	}
}

func (f *finder) masked(name string, st fs.FileInfo) bool {
	if st.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	to, err := f.fsys.Readlink(name)
	return err == nil && to == "/dev/null"
}

func (f *finder) file(name string, st fs.FileInfo) {
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		f.refuse(name, "A site's file must not be a link", "Where it leads can change without this folder being touched. Put the file itself here. (A link to /dev/null masks a file of a later folder.)")
	case !st.Mode().IsRegular():
		f.refuse(name, "This is no regular file", "It is %s. Rename or remove it: every name in this folder that ends like a site's file is read.", kind(st.Mode()))
	case !f.judged(name, "Others may change this file"):
	case st.Size() > maxBytes:
		f.diags = append(f.diags, tooLarge(name, st.Size()))
	default:
		f.found = append(f.found, name)
		if len(f.found) == maxFiles+1 {
			f.diags = append(f.diags, tooMany(name))
		}
	}
}

// judged says whether nobody but root and this user may change a name, or what is above it.
func (f *finder) judged(name, summary string) bool {
	err := f.fsys.Judge(name)
	var loose *nodefile.Loose
	switch {
	case errors.As(err, &loose):
		f.refuse(name, summary, "%s. Whoever may do that decides what this node becomes. End it: %s", loose, loose.Fix)
	case err != nil:
		f.cannotRead(name, err)
	}
	return err == nil
}

func (f *finder) refuse(name, summary, detail string, args ...any) {
	f.diags = append(f.diags, origin.Error(fault.FileRefused, fileRange(name), summary, detail, args...))
}

func (f *finder) cannotRead(name string, err error) {
	f.diags = append(f.diags, cannotRead(name, err))
}

func cannotRead(name string, err error) *hcl.Diagnostic {
	next := "See that it is there and that this user may read it."
	if errors.Is(err, fs.ErrPermission) {
		next = "This user may not read it: run as root, or give --config a copy."
	}
	return origin.Error(fault.FileRefused, fileRange(name), "Cannot read "+name, "%s. %s", err, next)
}

// read takes the contents of the files that find has listed.
func read(fsys Files, names []string) ([]world.SiteFile, hcl.Diagnostics) {
	var out []world.SiteFile
	var diags hcl.Diagnostics
	for _, name := range names {
		b, err := fsys.ReadFile(name, maxBytes)
		if err != nil {
			diags = append(diags, cannotRead(name, err))
			continue
		}
		out = append(out, world.SiteFile{Name: name, Text: string(b)})
	}
	return out, diags
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m.IsRegular():
		return "a file"
	}
	return "something else than a file"
}

// fileRange is the beginning of a file, for what concerns all of it.
func fileRange(name string) hcl.Range {
	return hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
}

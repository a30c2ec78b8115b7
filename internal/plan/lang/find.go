package lang

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// The endings of the files of a site, and of tests, which are not part of it.
const (
	nativeSuffix  = ".hcl"
	jsonSuffix    = ".hcl.json" // refused: its blocks would be missing silently
	varsSuffix    = ".preletvars.hcl"
	oldVarsSuffix = ".prelet.vars" // that of 0.1
	// TemplateSuffix ends the name of a template, for templatefile().
	TemplateSuffix = ".tftpl"
	testSuffix     = ".prelettest.hcl"
)

// siteEndings lists the suffixes of a site's files, for messages.
const siteEndings = nativeSuffix + ", " + varsSuffix + ", " + TemplateSuffix + " or " + dataPart + ".yaml (.json, .txt)"

// LockFile is the name of a file with locks of detectors, in one of the site's folders. It is not a part of the site.
const LockFile = "detectors.lock.json"

// RepositoryFile is the name of the file that names the layers of a site, for package repository.
const RepositoryFile = ".prelet.hcl"

// DefaultLayers returns the folders of a site below a root, in the order of layers: of all places of a site a later one
// wins.
func DefaultLayers(root string) []string {
	return []string{
		path.Join(root, "/usr/lib/prelet/site"),
		path.Join(root, "/run/prelet/site"),
		path.Join(root, "/etc/prelet"),
	}
}

// places returns the directories and files of a site, in the order of layers.
func (o LoadOptions) places() []string {
	if len(o.Paths) > 0 {
		return o.Paths
	}

	places := DefaultLayers(o.Root)
	if o.Pulled != "" {
		places = slices.Insert(places, 1, o.Pulled)
	}

	return places
}

// Layer is one place of a site, a folder or a file, with all files in it by name.
type Layer struct {
	Path  string
	Files []LayerFile
	List  *SignedList // the valid list in its folder; nil: there is none, or no signature was checked
}

type LayerFile struct {
	Path  string
	State LayerState
	By    string // the path of the later file or mask; "" unless it is hidden or masked

	isFolder bool
}

// WhyIgnored returns why a file without effect is not read.
func (f LayerFile) WhyIgnored() string {
	base := path.Base(f.Path)
	switch {
	case IsTestFile(base), f.isFolder && base == TestFolder:
		return "tests"
	case f.isFolder:
		return "folders below a layer are not searched"
	case base == LockFile:
		return "locks of detectors"
	case base == ListFile, base == SignatureFile:
		return "the signed list of the site's files"
	case base == RepositoryFile:
		return "it names the layers, and is part of none"
	case isIgnored(base):
		return "a name that begins with a dot or ends in ~"
	}

	return "the name is not that of a site's file"
}

// LayerState is whether and how a file of a layer takes effect.
type LayerState string

// The states of files.
const (
	InEffect LayerState = "in effect"
	Hidden   LayerState = "hidden"  // by the file of the same name in a later layer
	Masked   LayerState = "masked"  // by a link to /dev/null with the same name in a later layer
	Mask     LayerState = "mask"    // such a link
	Ignored  LayerState = "ignored" // its name is not that of a site's file
)

// IsSiteFile reports whether a file in a site's directory is read: *.hcl, *.prelet.vars, *.tftpl and data files, but no
// dotfile, no editor's backup and no test. *.hcl.json is refused when it is read.
func IsSiteFile(name string) bool {
	base := path.Base(name)
	suffixes := []string{nativeSuffix, jsonSuffix, oldVarsSuffix, TemplateSuffix}

	return !isIgnored(base) && (hasSuffix(base, suffixes) || isData(base))
}

// IsVarsFile reports whether a file of a site has values of variables.
func IsVarsFile(name string) bool { return hasSuffix(name, []string{varsSuffix, oldVarsSuffix}) }

// IsNative reports whether a file is HCL: of a site, of its variables, or of tests.
func IsNative(name string) bool { return hasSuffix(name, []string{nativeSuffix, oldVarsSuffix}) }

func hasSuffix(name string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// isIgnored reports whether a file is intentionally not read.
func isIgnored(base string) bool {
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~") ||
		strings.HasSuffix(base, testSuffix)
}

// finder finds the files of a site.
type finder struct {
	fsys   Files
	layers []Layer
	count  int // of files in effect
	origin.Collector
}

// find returns the layers of a site in their order, with the state of each file.
func find(fsys Files, opts LoadOptions) ([]Layer, hcl.Diagnostics) {
	f := &finder{fsys: fsys}

	places := opts.places()
	for _, p := range places {
		if len(opts.Paths) > 0 {
			f.addPath(path.Clean(p))
		} else {
			f.addFolder(p, p != opts.Pulled)
		}
	}
	f.resolve()

	if f.count == 0 && len(f.Diags) == 0 {
		f.Report(noSite(places)...)
	}

	return f.layers, f.Diags
}

func noSite(places []string) hcl.Diagnostics {
	return hcl.Diagnostics{origin.Error(
		fault.NoSite,
		hcl.Range{},
		"No site was found",
		"No *.hcl file in %s. Write one (prelet init --from-node makes a first one), "+
			"or name it: --config PATH. Directories below a directory are not searched.",
		strings.Join(places, ", "),
	)}
}

// resolve gives each file its state: of one name the file of the latest layer counts, and only that one is checked.
func (f *finder) resolve() {
	latest := map[string]*LayerFile{} // by name
	for _, l := range f.layers {
		for i := range l.Files {
			if file := &l.Files[i]; file.State != Ignored {
				latest[path.Base(file.Path)] = file
			}
		}
	}

	for _, l := range f.layers {
		for i := range l.Files {
			if file := &l.Files[i]; latest[path.Base(file.Path)] == file {
				f.check(file)
			}
		}
	}
	for _, l := range f.layers {
		for i := range l.Files {
			file := &l.Files[i]
			by := latest[path.Base(file.Path)]
			switch {
			case file.State == Ignored || by == file:
			case by.State == Mask:
				file.State, file.By = Masked, by.Path
			default:
				file.State, file.By = Hidden, by.Path
			}
		}
	}
}

// listInEffect returns the files in effect, in the order in which they apply: by layer, then by name.
func listInEffect(layers []Layer) (names []string) {
	for _, l := range layers {
		for _, f := range l.Files {
			if f.State == InEffect {
				names = append(names, f.Path)
			}
		}
	}

	return names
}

// describeLayers returns a note for each file without effect, and a warning for a file that may be meant for the site
// and has another name. files are those that were read: a file that they name is data.
func describeLayers(fsys Files, layers []Layer, files []tape.SiteFile) (diags hcl.Diagnostics) {
	for _, l := range layers {
		for _, file := range l.Files {
			switch {
			case file.Path == file.By: // one place, given twice
			case file.State == Hidden:
				diags = append(diags, origin.Note(
					fault.LayerReplaced, fileRange(file.Path), "A file is hidden",
					"%s, in a later layer, has the same name, so this one has no effect.", file.By,
				))
			case file.State == Masked:
				diags = append(diags, origin.Note(
					fault.LayerReplaced, fileRange(file.Path), "A file is masked",
					"%s, in a later layer, is a link to /dev/null, so this one has no effect.", file.By,
				))
			case file.isFolder:
				if hasSiteFile(fsys, layers, file.Path) {
					diags = append(diags, origin.Note(
						fault.FileRefused, hcl.Range{}, file.Path+" is not read",
						"It has files of a site, and folders below a layer are not searched. "+
							"Name the folder as a layer of its own, or move the files.",
					))
				}
			case file.State == Ignored && looksLikeSiteFile(path.Base(file.Path)) && !isNamed(fsys, file.Path, files):
				diags = append(diags, origin.Warning(
					fault.FileRefused, hcl.Range{}, file.Path+" is not read",
					"A site's files end in %s. Rename it, or move it elsewhere.", siteEndings,
				))
			}
		}
	}

	return diags
}

// hasSiteFile reports whether a folder, unless it is a layer itself, has a file that would be read there.
func hasSiteFile(fsys Files, layers []Layer, dir string) bool {
	base := path.Base(dir)
	isLayer := slices.ContainsFunc(layers, func(l Layer) bool { return path.Clean(l.Path) == dir })
	if isLayer || base == TestFolder || isIgnored(base) {
		return false
	}
	entries, _ := fsys.ReadDir(dir)

	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() && IsSiteFile(e.Name()) })
}

// looksLikeSiteFile reports whether a file that is not read may be meant for a site: a.hcl.bak, prod.vars, a.HCL,
// a.hlc, the languages of other tools, and names with a number as those of drop-ins.
func looksLikeSiteFile(base string) bool {
	name := strings.ToLower(base)

	return !isIgnored(name) && name != LockFile && misspelt().MatchString(name)
}

var misspelt = texts.LazyRegexp(`\.hcl|\.(hlc|hc|hl|chl)$|vars|\.tftpl|\.(tf|var|tmpl|tpl|ya?ml|json|toml)$|^[0-9]+-`)

// isNamed reports whether a site, or a test in the folder of a file, names the file: then it is data.
func isNamed(fsys Files, file string, files []tape.SiteFile) bool {
	isIn := func(text string) bool {
		base := path.Base(file) + `"`
		return strings.Contains(text, `"`+base) || strings.Contains(text, "/"+base)
	}
	if slices.ContainsFunc(files, func(f tape.SiteFile) bool { return isIn(f.Text) }) {
		return true
	}

	for _, dir := range []string{path.Dir(file), path.Join(path.Dir(file), TestFolder)} {
		entries, _ := fsys.ReadDir(dir) // most sites have no folder of tests
		for _, e := range entries {
			if !IsTestFile(e.Name()) {
				continue
			}
			text, err := fsys.ReadFile(path.Join(dir, e.Name()), MaxBytes)
			if err == nil && isIn(string(text)) {
				return true
			}
		}
	}

	return false
}

// addPath adds a path of --config as a layer: a directory, or one file.
func (f *finder) addPath(name string) {
	st, err := f.fsys.Lstat(name)
	next := "Rename it, or name another."
	if texts.IsRecording(name) {
		next = "This is " + texts.KindRecording + ": name it with --from."
	}

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
			"A site's file ends in %s, and its name does not begin with a dot; *%s is not read. %s",
			siteEndings,
			testSuffix,
			next,
		)
	default:
		f.layers = append(f.layers, Layer{Path: name, Files: []LayerFile{{Path: name}}})
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

	l := Layer{Path: dir}
	for _, e := range entries {
		file := LayerFile{Path: path.Join(dir, e.Name()), isFolder: e.IsDir()}
		if !IsSiteFile(e.Name()) {
			file.State = Ignored
		}
		l.Files = append(l.Files, file)
	}
	slices.SortFunc(l.Files, func(a, b LayerFile) int { return strings.Compare(a.Path, b.Path) })
	f.layers = append(f.layers, l)
}

// check decides whether a file that no later one hides is in effect.
func (f *finder) check(file *LayerFile) {
	st, err := f.fsys.Lstat(file.Path)
	switch {
	case err != nil:
		f.Report(cannotRead(file.Path, err))
	case isMask(f.fsys, file.Path, st):
		file.State = Mask
	default:
		file.State = InEffect
		f.checkFile(file.Path, st)
	}
}

func isLink(st fs.FileInfo) bool {
	return st.Mode()&fs.ModeSymlink != 0
}

// isMask reports whether a name is a link to /dev/null, which hides the files of that name.
func isMask(fsys Files, name string, st fs.FileInfo) bool {
	if !isLink(st) {
		return false
	}
	target, err := fsys.Readlink(name)

	return err == nil && target == "/dev/null"
}

// checkFile reports why a file cannot be one of the site's.
func (f *finder) checkFile(name string, st fs.FileInfo) {
	switch {
	case isLink(st):
		f.refuse(name, "A site's file must not be a link",
			"Its target can change without a change in this folder. Put the file itself here. "+
				"(A link to /dev/null masks the file of an earlier layer.)")
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
		f.count++
		if f.count == maxFiles+1 {
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
	code, next := fault.FileRefused, "Check that it exists and that this user may read it."
	switch {
	case errors.As(err, new(*nodefile.NoAnswerError)):
		code = fault.NoAnswer
		next = "Make its server answer, or unmount it: umount -l, with the mount that findmnt lists."
	case nodefile.IsFailing(err):
		code, next = fault.NoAnswer, nodefile.NextFailing+"."
	case errors.Is(err, fs.ErrPermission):
		next = nodefile.NextDenied("This user may not read it: run as root, or give --config a copy") + "."
	}

	return origin.Error(
		code,
		fileRange(name),
		"Cannot read "+name,
		"%s. %s",
		err,
		next,
	)
}

// read returns the contents of files that find has returned.
func read(fsys Files, names []string) (out []tape.SiteFile, diags hcl.Diagnostics) {
	for _, name := range names {
		b, err := fsys.ReadFile(name, MaxBytes)
		if err != nil {
			diags = append(diags, cannotRead(name, err))
			continue
		}
		out = append(out, tape.SiteFile{Name: name, Text: string(b)})
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

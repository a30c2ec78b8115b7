package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// ListFile is the name of the signed list of a layer's files, in its folder.
const ListFile = "site.sha256"

// SignatureFile is the name of the signature of a list, next to it.
const SignatureFile = ListFile + ".sig"

// SignedLists returns the valid lists of a site, by layer; none if no signature was checked.
func (s *Site) SignedLists() (lists []*SignedList) {
	for _, l := range s.Layers {
		if l.List != nil {
			lists = append(lists, l.List)
		}
	}

	return lists
}

// signedSite is a site whose signatures are checked.
type signedSite struct {
	fsys   Files
	opts   LoadOptions
	layers []Layer
	texts  map[string]string // of the files in effect, by path, as they were read: no file can change after the check
}

// checkSigned checks the signatures of a site, and keeps each valid list in its layer. It returns why the site must not
// be evaluated. The image's layer is trusted as it is; each other one with files, or with a list, needs a list of its
// own. If the latest layer with a list has one without a name, it must have exactly the files in effect of all layers.
// A site without files is not refused here: only the caller knows whether one is pulled.
func checkSigned(fsys Files, opts LoadOptions, layers []Layer, files []tape.SiteFile) *hcl.Diagnostic {
	s := signedSite{fsys, opts, layers, map[string]string{}}
	for _, f := range files {
		s.texts[f.Name] = f.Text
	}

	latest := s.findLatest()
	if latest >= 0 {
		list, refused := s.readList(latest)
		if refused != nil {
			return refused
		}
		if list.Name == "" {
			layers[latest].List = list
			return compareAll(list, s.listPath(latest), files)
		}
	}

	return s.checkLayers()
}

// findLatest returns the index of the latest layer whose folder has a list; -1 if there is none.
func (s *signedSite) findLatest() int {
	for at := range slices.Backward(s.layers) {
		if s.hasList(at) {
			return at
		}
	}

	return -1
}

func (s *signedSite) hasList(at int) bool {
	_, err := s.fsys.Lstat(s.listPath(at))

	return err == nil
}

// folder returns the folder of a layer, which may be one file of --config.
func (s *signedSite) folder(at int) string {
	l := s.layers[at]
	if len(l.Files) == 1 && l.Files[0].Path == l.Path {
		return path.Dir(l.Path)
	}

	return l.Path
}

func (s *signedSite) listPath(at int) string { return path.Join(s.folder(at), ListFile) }

// compareAll compares the files in effect of all layers with a list of them.
func compareAll(list *SignedList, name string, files []tape.SiteFile) *hcl.Diagnostic {
	differences := list.Compare(files)
	if len(differences) == 0 {
		return nil
	}

	return unsigned(
		fileRange(name),
		"The site is not the signed one: %s. Restore these files, or sign the site again.",
		joinSome(differences),
	)
}

// checkLayers checks each layer but the image's with its own list. Files of --config in one folder are one layer.
func (s *signedSite) checkLayers() *hcl.Diagnostic {
	checked := map[string]bool{DefaultLayers(s.opts.Root)[0]: true}
	for at := range s.layers {
		folder := s.folder(at)
		if checked[folder] {
			continue
		}
		checked[folder] = true
		if refused := s.checkLayer(at); refused != nil {
			return refused
		}
	}

	return nil
}

// signLayer is the next step of a person with a key.
const signLayer = "prelet site sign DIR --key FILE"

func (s *signedSite) checkLayer(at int) *hcl.Diagnostic {
	folder, name := s.folder(at), s.listPath(at)
	files, masks, refused := s.readLayer(folder)
	switch {
	case refused != nil:
		return refused
	case !s.hasList(at) && len(files)+len(masks) == 0:
		return nil
	case !s.hasList(at):
		return unsigned(
			fileRange(folder),
			"The layer %s has files of a site (%s), and no %s. An image with keys (/usr/lib/prelet/site-signers) "+
				"evaluates only layers that one of them has signed. Put %[3]s and %s there: %s makes them.",
			folder,
			joinSome(append(baseNames(files), masks...)),
			ListFile,
			SignatureFile,
			signLayer,
		)
	}

	list, refused := s.readList(at)
	if refused != nil {
		return refused
	}
	if list.Name == "" {
		return unsigned(
			fileRange(name),
			"This list has no line \"# name:\", so it is of all layers together, and not of %s alone. Sign "+
				"that layer: %s.",
			folder,
			signLayer,
		)
	}
	if differences := list.Compare(files, masks...); len(differences) > 0 {
		return unsigned(
			fileRange(name),
			"The layer %s is not the signed one (%s): %s. Restore these files, or sign the layer again: %s.",
			folder,
			list,
			joinSome(differences),
			signLayer,
		)
	}
	s.layers[at].List = list

	return nil
}

// ReadFolder returns the files of a layer in a folder, and the names of its masks.
func ReadFolder(fsys Files, folder string) (files []tape.SiteFile, masks []string, diags hcl.Diagnostics) {
	s, diags := openFolder(fsys, folder)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	files, masks, refused := s.readLayer(path.Clean(folder))
	if refused != nil {
		return nil, nil, hcl.Diagnostics{refused}
	}
	if len(files)+len(masks) == 0 {
		return nil, nil, noSite([]string{folder})
	}

	return files, masks, nil
}

// CheckFolder returns the list of a layer in a folder, or why a node would refuse the layer.
func CheckFolder(
	fsys Files, folder string,
	verify func(text, signature []byte) error,
) (*SignedList, hcl.Diagnostics) {
	s, diags := openFolder(fsys, folder)
	if diags.HasErrors() {
		return nil, diags
	}
	s.opts.Verify = verify
	if refused := s.checkLayer(0); refused != nil {
		return nil, hcl.Diagnostics{refused}
	}
	if s.layers[0].List == nil {
		return nil, noSite([]string{folder})
	}

	return s.layers[0].List, nil
}

// openFolder finds the files of a layer, which may have masks only.
func openFolder(fsys Files, folder string) (*signedSite, hcl.Diagnostics) {
	st, err := fsys.Lstat(folder)
	if err == nil && !st.IsDir() {
		return nil, hcl.Diagnostics{origin.Error(fault.FileRefused, fileRange(folder), "This is not a folder",
			"A layer that is signed is a folder. Name the one that the files are in.")}
	}
	layers, diags := find(fsys, LoadOptions{Paths: []string{folder}})
	if origin.Code(diags) == fault.NoSite {
		diags = nil
	}

	return &signedSite{fsys: fsys, layers: layers}, diags
}

// readLayer returns the files of a folder and the names of its masks. Those that a later layer hides are read here:
// they have an effect once that layer is removed.
func (s *signedSite) readLayer(folder string) (files []tape.SiteFile, masks []string, refused *hcl.Diagnostic) {
	seen := map[string]bool{}
	for at, l := range s.layers {
		for _, f := range l.Files {
			if s.folder(at) != folder || f.State == Ignored || seen[f.Path] {
				continue
			}
			seen[f.Path] = true

			text, isInEffect := s.texts[f.Path]
			st, err := s.fsys.Lstat(f.Path)
			switch {
			case isInEffect:
			case err == nil && isMask(s.fsys, f.Path, st):
				masks = append(masks, f.Path)
				continue
			case err == nil:
				var b []byte
				b, err = s.fsys.ReadFile(f.Path, MaxBytes)
				text = string(b)
			}
			if err != nil && !isInEffect {
				return nil, nil, cannotRead(f.Path, err)
			}
			files = append(files, tape.SiteFile{Name: f.Path, Text: text})
		}
	}

	return files, masks, nil
}

func baseNames(files []tape.SiteFile) (names []string) {
	for _, f := range files {
		names = append(names, path.Base(f.Name))
	}

	return names
}

// joinSome joins the first ten of texts, and says how many more there are.
func joinSome(texts []string) string {
	const most = 10
	if len(texts) > most {
		texts = append(texts[:most:most], fmt.Sprintf("and %d more", len(texts)-most))
	}

	return strings.Join(texts, "; ")
}

// readList reads the list of a layer. It returns why the list is not valid.
func (s *signedSite) readList(at int) (*SignedList, *hcl.Diagnostic) {
	name := s.listPath(at)
	list, err := ReadList(s.fsys, path.Dir(name), s.opts.Verify)
	if err != nil {
		return nil, unsigned(fileRange(name), "%s. The site was not evaluated.", err)
	}

	return list, nil
}

// ReadList reads the list of a folder, whose signature must be valid.
func ReadList(fsys Files, folder string, verify func(text, signature []byte) error) (*SignedList, error) {
	text, err := readTrusted(fsys, path.Join(folder, ListFile))
	if err != nil {
		return nil, err
	}
	signature, err := readTrusted(fsys, path.Join(folder, SignatureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing next to it; sign the layer: %s", SignatureFile, signLayer)
	}
	if err != nil {
		return nil, err
	}

	if err := verify(text, signature); err != nil {
		return nil, err
	}

	return ParseList(text)
}

// readTrusted reads a regular file that only root and this user may change.
func readTrusted(fsys Files, name string) ([]byte, error) {
	st, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s; put the file itself there", name, nodefile.KindOf(st.Mode()))
	}

	err = fsys.CheckTrusted(name)
	var loose *nodefile.Loose
	if errors.As(err, &loose) {
		return nil, fmt.Errorf("%w. Fix it: %s", err, loose.Fix)
	}
	if err != nil {
		return nil, err
	}

	return fsys.ReadFile(name, MaxBytes)
}

func unsigned(at hcl.Range, detail string, args ...any) *hcl.Diagnostic {
	return origin.Error(fault.SiteSignature, at, "The site's signature cannot be verified", detail, args...)
}

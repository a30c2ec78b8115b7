package sites

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/registry"
)

// PushOptions are a folder and where to store its site.
type PushOptions struct {
	lab.Request        // Config has the layers below the folder, for the check
	Dir         string // the folder
	Reference   string
}

// PullOptions are a site and where to write it.
type PullOptions struct {
	lab.Registry
	Reference string
	Dir       string // a new folder, or an empty one; "": nothing is written
}

// Stored is a site in a registry. As JSON it is the document of `push` and `pull`.
type Stored struct {
	FormatVersion int          `json:"format_version"`
	Reference     string       `json:"reference"` // with the digest
	Digest        string       `json:"digest"`
	Files         []StoredFile `json:"files"`
	LeftOut       []LayerEntry `json:"left_out,omitempty"` // files of the folder
	Dir           string       `json:"dir,omitempty"`      // where it was written

	Site        *lang.Site      `json:"-"`
	Diagnostics hcl.Diagnostics `json:"-"`
}

// StoredFile is a file of a site in a registry.
type StoredFile struct {
	Name string `json:"name"`
	Size int    `json:"size"` // bytes
}

func stored(ref registry.Reference, digest string, files []registry.File) Stored {
	out := Stored{FormatVersion: 1, Reference: ref.At(digest).String(), Digest: digest}
	for _, f := range files {
		out.Files = append(out.Files, StoredFile{f.Name, len(f.Text)})
	}

	return out
}

// Push stores the files of a folder that belong to a site, if the site can be loaded.
func Push(ctx context.Context, e *machine.Env, o PushOptions) (Stored, error) {
	if err := refuseReference(o.Dir); err != nil {
		return Stored{}, err
	}
	ref, err := registry.Parse(o.Reference)
	if err != nil {
		return Stored{}, err
	}
	client, err := o.Registry.Client(e)
	if err != nil {
		return Stored{}, err
	}
	if err := o.UseReferences(ctx, e); err != nil {
		return Stored{}, err
	}
	o.Config = append(slices.Clone(o.Config), o.Dir)
	o.Files = lang.AnyOwner()
	g, err := lab.Read(e, o.Request)
	if err != nil {
		return Stored{}, err
	}
	s := g.Loaded.Site
	if g.Loaded.Diags.HasErrors() {
		return Stored{}, lab.RefuseSite(s, g.Loaded.Diags)
	}

	files, leftOut, err := choose(s.Layers[len(s.Layers)-1])
	if err != nil {
		return Stored{}, err
	}
	digest, err := client.Push(ctx, ref, files)
	if err != nil {
		return Stored{}, err
	}

	out := stored(ref, digest, files)
	out.LeftOut = leftOut
	out.Site = s
	out.Diagnostics = g.Loaded.Diags
	if why := checkList(ref, files); why != "" {
		out.Diagnostics = append(out.Diagnostics, origin.Warning(fault.SiteSignature, hcl.Range{},
			"The site is not signed", "%s. Nodes whose image has site-signers refuse it.", why))
	}

	return out, nil
}

// refuseReference refuses a reference of a site where a folder is needed.
func refuseReference(dir string) error {
	if !registry.IsReference(dir) {
		return nil
	}

	return fault.Usage.Errorf("%s is not a folder; make one of it first: prelet pull %s DIR", dir, dir)
}

// choose returns the files of a layer that are stored: those of the site, tests, and the signed list. A mask cannot be.
func choose(l lang.Layer) (files []registry.File, leftOut []LayerEntry, err error) {
	for _, f := range l.Files {
		name := filepath.Base(f.Path)
		isList := slices.Contains(listNames(), name)
		switch {
		case f.State == lang.Mask:
			return nil, nil, fault.FileRefused.Errorf("%s: a link to /dev/null, which masks a file of an earlier "+
				"layer, cannot be pushed; leave that file out of its layer", f.Path)
		case f.State != lang.InEffect && !lang.IsTestFile(name) && !isList:
			leftOut = append(leftOut, LayerEntry{Path: f.Path, State: f.State, Why: f.WhyIgnored()})
			continue
		}
		text, err := userfile.Read(f.Path, lang.MaxBytes)
		if err != nil {
			return nil, nil, fault.FileRefused.Errorf("%s: %s", f.Path, nodefile.Reason(err))
		}
		files = append(files, registry.File{Name: name, Text: text})
	}

	return files, leftOut, nil
}

// listNames returns the names of the signed list and of its signature.
func listNames() []string { return []string{lang.ListFile, lang.ListFile + ".sig"} }

// checkList returns why nodes that want a signature refuse the files; "" where the node decides, by its keys and by the
// repositories that it asks. A list without a name may be of other layers too.
func checkList(ref registry.Reference, files []registry.File) string {
	texts := map[string][]byte{}
	var signed []tape.SiteFile
	for _, f := range files {
		texts[f.Name] = f.Text
		if lang.IsSiteFile(f.Name) {
			signed = append(signed, tape.SiteFile{Name: f.Name, Text: string(f.Text)})
		}
	}
	for _, name := range listNames() {
		if texts[name] == nil {
			return "The folder has no " + name
		}
	}

	list, err := lang.ParseList(texts[lang.ListFile])
	if err != nil {
		return lang.ListFile + ": " + err.Error()
	}
	if differences := list.Compare(signed); list.Name != "" && len(differences) > 0 {
		return lang.ListFile + " is of other files: " + strings.Join(differences, "; ")
	}
	if list.Name != "" && list.Repository == "" && ref.Layout == "" {
		return lang.ListFile + " is for a folder: sign it again with --repository " + ref.Name()
	}

	return ""
}

// Pull gets a site, and writes it to Dir: all of its files or, after an error, none.
func Pull(ctx context.Context, e *machine.Env, o PullOptions) (Stored, error) {
	ref, err := registry.Parse(o.Reference)
	if err != nil {
		return Stored{}, err
	}
	if o.Dir != "" {
		if err := checkNewFolder("DIR", o.Dir); err != nil {
			return Stored{}, err
		}
		if filepath.Clean(o.Dir) == "." {
			return Stored{}, fault.Usage.Errorf("DIR %s: the folder is replaced as a whole, so name another one", o.Dir)
		}
	}
	client, err := o.Client(e)
	if err != nil {
		return Stored{}, err
	}
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return Stored{}, err
	}
	if o.Dir != "" {
		if err := writeFolder(o.Dir, pulled.Files); err != nil {
			return Stored{}, fault.CannotWrite.Errorf("%s: %s", o.Dir, err)
		}
	}

	out := stored(ref, pulled.Digest, pulled.Files)
	out.Dir = o.Dir

	return out, nil
}

// writeFolder makes a folder with files in one step, also in place of an empty one.
func writeFolder(dir string, files []registry.File) (err error) {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(made) // the first error counts
		}
	}()

	for _, f := range files {
		if err := userfile.Create(filepath.Join(made, f.Name), f.Text); err != nil {
			return err
		}
	}

	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}

	return unix.Rename(made, dir) // in place of an empty folder too, which os.Rename refuses
}

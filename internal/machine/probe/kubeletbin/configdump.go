package kubeletbin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/plugins/contract"
)

// ConfigDump is a start of `containerd config dump`, which reads a configuration as the daemon does, prints it, and
// ends. It starts no plugin. Its output has passwords of registries, so only its errors are read.
type ConfigDump struct {
	Program string
	Files   []ConfigFile // with absolute paths, as containerd reads them: the first is the root, others are imported
	Folder  string       // as of DryRun
}

// Run starts containerd. It fails as DryRun.Run does, and if containerd does not know the command.
func (d ConfigDump) Run(ctx context.Context) (Verdict, error) {
	folder, remove, err := makeFolder(d.Folder)
	if err != nil {
		return Verdict{}, fmt.Errorf("no private folder can be made: %w", err)
	}
	defer remove()
	for _, f := range d.Files {
		file := filepath.Join(folder, f.Path)
		text := d.moveImports(f, folder)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("its files cannot be written: %w", err)
	}

	out := secret.Tail{Most: maxDryRunOutput}
	cmd := exec.Command(d.Program, "--config", filepath.Join(folder, d.Files[0].Path), "config", "dump")
	cmd.Dir = folder
	cmd.Stderr = &out
	isZero, broken, err := runWithin(ctx, cmd)
	if err != nil || broken != "" || isZero {
		return Verdict{Accepted: isZero, Broken: broken}, err
	}

	return readRefusal(strings.ReplaceAll(out.Text(), folder, ""))
}

// refusal matches the error of containerd, or the first line of its panic.
var refusal = texts.LazyRegexp(`(?m)^(?:containerd: |panic: ).+$`)

// readRefusal returns the verdict in the errors of containerd.
func readRefusal(text string) (Verdict, error) {
	found := texts.EscapeLine(contract.Shorten(refusal().FindString(text), maxLastLine))
	switch {
	case found == "":
		return Verdict{}, errors.New("it does not know the command `config dump`, or ended without an error of its own")
	case isOfMachine(found):
		return Verdict{}, fmt.Errorf("it ended for another reason: %s", found)
	}

	return Verdict{Refusal: strings.TrimPrefix(found, "containerd: ")}, nil
}

// moveImports returns the text of a file with imports below a folder. An import of no file finds nothing. A relative
// pattern stays: containerd looks for it in the folder of the file, and up to 1.6 in its working directory.
func (d ConfigDump) moveImports(f ConfigFile, folder string) string {
	text := string(f.Content)
	for _, i := range FindImports(f) {
		if !i.IsNamed() && !path.IsAbs(i.text) && !strings.Contains(i.text, "..") {
			continue
		}
		moved := folder + "/none/*"
		_, bad := path.Match(i.Path, "")
		isRead := func(f ConfigFile) bool { return i.Matches(f.Path) }
		if bad != nil || slices.ContainsFunc(d.Files, isRead) {
			moved = folder + i.Path
		}
		for _, quote := range []string{`"`, "'"} {
			text = strings.ReplaceAll(text, quote+i.text+quote, quote+moved+quote)
		}
	}

	return text
}

// Import is an import of a file of containerd's configuration.
type Import struct {
	Path string // absolute; with a *, that of files which need not exist
	text string // as it is written
}

// IsNamed reports whether it is the path of one file.
func (i Import) IsNamed() bool { return !strings.Contains(i.Path, "*") }

// Matches reports whether it is the import of a file.
func (i Import) Matches(file string) bool {
	isMatch, _ := path.Match(i.Path, file)

	return isMatch
}

// FindImports returns the imports of a file; none of a text that is not TOML. Source: resolveImports of containerd's
// cmd/containerd/server/config/config.go.
func FindImports(f ConfigFile) (out []Import) {
	var document struct{ Imports []string }
	_ = toml.Unmarshal(f.Content, &document) // containerd reports the mistakes in it
	for _, text := range document.Imports {
		file := path.Clean(text)
		if !path.IsAbs(file) {
			file = path.Join(path.Dir(f.Path), file)
		}
		out = append(out, Import{file, text})
	}

	return out
}

package examples

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
)

const (
	stabilityDir = "../testdata/stability"

	// inProgress is the version whose files may still be written again; "" while all of them are released.
	inProgress = ""

	// frozenFile lists the checksums of the files of a released version, as sha256sum does.
	frozenFile = "SHA256SUMS"
)

// TestStability makes the managed files of each stored recording, which has its site, and compares them with those that
// a released version made of it.
func TestStability(t *testing.T) {
	versions, err := os.ReadDir(stabilityDir)
	if err != nil || len(versions) == 0 {
		t.Fatalf("%s: got %d versions, %v; want some", stabilityDir, len(versions), err)
	}
	if *update && inProgress != "" {
		recordStability(t)
	}

	for _, v := range versions {
		dir := filepath.Join(stabilityDir, v.Name())
		if err := checkFrozen(dir); err != nil {
			t.Error(err)
		}

		recordings, err := filepath.Glob(filepath.Join(dir, "*.prelet*"))
		if err != nil || len(recordings) == 0 {
			t.Errorf("%s: got %d recordings, %v; want some", dir, len(recordings), err)
		}
		for _, path := range recordings {
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			t.Run(v.Name()+"/"+name, func(t *testing.T) {
				f, err := os.Open(path)
				must(t, err)
				defer f.Close()
				compareManaged(t, filepath.Join(dir, name+".txt"), managed(t, replay(t, f)))
			})
		}
	}
}

// compareManaged compares the managed files of a site with those that an earlier version made.
func compareManaged(t *testing.T, path, got string) {
	t.Helper()
	if *update && filepath.Base(filepath.Dir(path)) == inProgress {
		writeFile(t, path, []byte(got))
	}
	want := osfile.Read(t, path)
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s: the managed files differ from those of that version (- that version, + now).\n"+
			"Each node with such a site would change its files at its next boot, and restart its kubelet. Keep the "+
			"output for existing sites: take the change back, or make it depend on a new attribute of the site.\n%s", path, d)
	}
}

// recordStability writes the recordings of all examples again, for the version in progress.
func recordStability(t *testing.T) {
	t.Helper()
	dir := filepath.Join(stabilityDir, inProgress)
	if _, err := os.Stat(filepath.Join(dir, frozenFile)); err == nil {
		t.Fatalf("%s is released, so -update does not write it: nodes have its files. Set inProgress to the next version, "+
			"or to \"\"", dir)
	}
	for _, e := range slices.Concat(all(), policies(), []example{cloud()}) {
		for i, m := range e.machines {
			suffix := ".prelet.gz"
			if e.name == "minimal" && i == 0 { // recordings may be plain
				suffix = ".prelet"
			}
			writeFile(t, filepath.Join(dir, e.name+"-"+m+suffix), recordExample(t, e, m, suffix))
		}
	}
}

// policies reserve with each policy that no other example has.
func policies() []example {
	var examples []example
	for _, policy := range []string{"eks", "aks", "gdc"} {
		examples = append(examples, example{
			name:     "policy-" + policy,
			paths:    []string{"testdata/policy"},
			machines: []string{"bare-vm", "two-sockets"},
			vars:     map[string]string{"policy": policy},
		})
	}

	return examples
}

func recordExample(t *testing.T, e example, machine, suffix string) []byte {
	t.Helper()
	s := e.load(t)
	p := planSite(t, s, e.world(t, s, machine, stableSecrets))

	var b bytes.Buffer
	r := &tape.Recording{Header: tape.Header{Site: s.Files, Prelet: inProgress}, Entries: p.Tape.Entries()}
	must(t, r.Encode(&b))
	if suffix == ".prelet" {
		return b.Bytes()
	}

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())

	return packed.Bytes()
}

// stableSecrets are the credentials of recordings, which do not contain their values.
var stableSecrets = demo.Credentials{"bootstrap-token": "abcdef.0123456789abcdef", "cloud-password": `pa"ss\word`}

// managed returns the managed files of a plan as text.
func managed(t *testing.T, p *evaluate.Plan) string {
	var b strings.Builder
	for _, file := range p.Node.Files {
		writeManaged(t, &b, file)
	}

	return b.String()
}

// writeManaged writes one managed file: a line with everything but its content, and the content, each line after "| ".
func writeManaged(t *testing.T, b *strings.Builder, f desired.File) {
	t.Helper()
	text, err := f.Text.Bytes(func(name string) ([]byte, error) {
		if v, ok := stableSecrets[name]; ok {
			return []byte(v), nil
		}
		return nil, fs.ErrNotExist
	})
	if err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}

	fmt.Fprintf(b, "%s kind=%v mode=%04o owner=%q create_only=%t purpose=%s\n",
		f.Path, f.Kind, f.Mode, f.Owner, f.CreateOnly, f.Purpose)
	lines := strings.SplitAfter(string(text), "\n")
	for _, line := range lines {
		switch {
		case strings.HasSuffix(line, "\n"):
			b.WriteString("| " + line)
		case line != "":
			b.WriteString("| " + line + "\n(no line break at the end)\n")
		}
	}
	b.WriteString("\n")
}

// checkFrozen returns an error if a file of a released version was changed, added or removed.
func checkFrozen(dir string) error {
	sums, err := os.ReadFile(filepath.Join(dir, frozenFile))
	if err != nil {
		if filepath.Base(dir) == inProgress {
			return nil
		}
		return fmt.Errorf("%w; want the checksums of a released version. In that folder: sha256sum * > %s", err, frozenFile)
	}

	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var got []string
	for _, f := range files {
		if f.Name() == frozenFile {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		got = append(got, generation.Checksum(text)+"  "+f.Name())
	}

	want := strings.Split(strings.TrimSpace(string(sums)), "\n")
	slices.Sort(want) // the order of sha256sum depends on the locale
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("%s is of a released version, and was changed; restore it (- released, + now):\n%s", dir, d)
	}

	return nil
}

// TestFrozen: each change in the folder of a released version is found.
func TestFrozen(t *testing.T) {
	for name, change := range map[string]struct {
		path, text string
		isAllowed  bool
	}{
		"none":    {"a.txt", "a", true},
		"changed": {"a.txt", "b", false},
		"added":   {"c.txt", "c", false},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "a.txt"), []byte("a"))
		writeFile(t, filepath.Join(dir, frozenFile), []byte(generation.Checksum([]byte("a"))+"  a.txt\n"))
		writeFile(t, filepath.Join(dir, change.path), []byte(change.text))
		if err := checkFrozen(dir); (err == nil) != change.isAllowed {
			t.Errorf("%s: got %v, want an error: %t", name, err, !change.isAllowed)
		}
	}

	if err := checkFrozen(t.TempDir()); err == nil {
		t.Error("a version without checksums: got no error, want one")
	}
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	osfile.Write(t, path, text, 0o644)
}

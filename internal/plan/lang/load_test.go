package lang

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// Each archive of testdata/bad is a site with faults. The lines of its comment are the diagnostics, in order:
// CODE FILE:LINE:COLUMN part of the message … part of the message. A line with # says why it is refused.
func TestBadSites(t *testing.T) {
	for _, name := range archives(t, "testdata/bad/*.txtar") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			must(t, err)
			var want []string
			for _, line := range strings.Split(strings.TrimSpace(string(a.Comment)), "\n") {
				if !strings.HasPrefix(line, "#") {
					want = append(want, line)
				}
			}
			_, diags := Parse(siteFiles(a), options())
			got := strings.Split(strings.TrimSpace(show(diags)), "\n")
			if len(got) != len(want) {
				t.Fatalf("%d diagnostics, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
			for i, w := range want {
				head, parts := w, ""
				if f := strings.SplitN(w, " ", 3); len(f) == 3 {
					head, parts = f[0]+" "+f[1]+" ", f[2]
				}
				if !strings.HasPrefix(got[i], head) {
					t.Errorf("got:  %s\nwant: %s", got[i], w)
				}
				for _, p := range strings.Split(parts, " … ") {
					if !strings.Contains(got[i], p) {
						t.Errorf("got %s\nwant %s in it", got[i], p)
					}
				}
				if origin.CodeOf(diags[i]).Exit() != 10 {
					t.Errorf("%s: exit %d, want 10", got[i], origin.CodeOf(diags[i]).Exit())
				}
			}
		})
	}
}

func archives(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("archives %s: got none and %v, want at least one", pattern, err)
	}
	return names
}

func TestSitesOnDisk(t *testing.T) {
	for name, want := range table.YAML[map[string]struct {
		Paths  []string
		Stages string
	}](t, `
minimal:
  paths: [minimal]
  stages: fetch-ca.cluster fetch-config.kubelet detect-hw.node reserve.node write.kubelet restart.kubelet
gpu:
  paths: [gpu-training]
  stages: fetch-ca.cluster fetch-config.kubelet detect-hw.node reserve.node label.site label.gpu label.vendor label.fabric taint.gpu taint.incomplete write.kubelet restart.kubelet
legacy:
  paths: [legacy-vm/site.hcl]
  stages: fetch-ca.cluster fetch-config.init fetch-config.port fetch-config.vm detect-hw.node reserve.node label.site label.gpu label.sriov taint.site taint.gpu taint.sriov write.kubelet restart.kubelet
layered:
  paths: [layered/image, layered/site]
  stages: fetch-ca.cluster fetch-config.kubelet detect-hw.node reserve.node label.site taint.not-ready write.kubelet restart.kubelet label.power
detector: {paths: [../internal/plan/lang/testdata/extra/detector-gaudi.hcl]}
`) {
		t.Run(name, func(t *testing.T) {
			opts := options()
			for _, p := range want.Paths {
				opts.Paths = append(opts.Paths, filepath.Join("../../../examples", p))
			}
			s, diags := Load(OS(), opts)
			if len(diags) > 0 {
				t.Fatalf("got %s, want no diagnostics", show(diags))
			}
			var got []string
			for _, i := range s.Stages {
				got = append(got, i.Addr())
			}
			if d := cmp.Diff(want.Stages, strings.Join(got, " ")); d != "" {
				t.Errorf("site (-want +got):\n%s", d)
			}
			again, _ := Parse(s.Files, options())
			if d := cmp.Diff(summary(s), summary(again)); d != "" {
				t.Errorf("site that Parse gives for these files (-want +got):\n%s", d)
			}
			for _, f := range s.Files {
				if string(s.Sources[f.Name]) != f.Text || f.Text == "" {
					t.Errorf("%s: got no source, want its text", f.Name)
				}
			}
		})
	}
}

func TestOSReadsRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, []byte(text), 0o644))
		return p
	}
	file := write("a.hcl", "12345")
	link := filepath.Join(dir, "l.hcl")
	must(t, os.Symlink(file, link))
	if b, err := OS().ReadFile(file, 5); string(b) != "12345" || err != nil {
		t.Errorf("ReadFile of 5 bytes: got %q and %v, want 12345", b, err)
	}
	fifo := filepath.Join(dir, "f.hcl")
	must(t, syscall.Mkfifo(fifo, 0o644))
	for name, p := range map[string]string{"too large": file, "link": link, "folder": dir, "FIFO": fifo, "device": "/dev/zero"} {
		if b, err := OS().ReadFile(p, 4); err == nil {
			t.Errorf("ReadFile of a %s: got %q, want an error", name, b)
		}
	}
}

// What the search refuses on a real file system.
func TestOSSearch(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"FIFO":     {func(p string) error { return syscall.Mkfifo(p, 0o644) }, "It is a FIFO."},
		"folder":   {func(p string) error { return os.Mkdir(p, 0o755) }, "It is a folder."},
		"link":     {func(p string) error { return os.Symlink("b.hcl", p) }, "must not be a link"},
		"writable": {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o644), os.Chmod(p, 0o666)) }, "Others may change this file"},
		"large":    {func(p string) error { return os.WriteFile(p, make([]byte, MaxBytes+1), 0o644) }, "too large"},
		"mask":     {func(p string) error { return os.Symlink("/dev/null", p) }, ""},
		"plain":    {func(p string) error { return os.WriteFile(p, nil, 0o644) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "etc/prelet")
			must(t, errors.Join(
				os.MkdirAll(dir, 0o755),
				os.WriteFile(filepath.Join(dir, "b.hcl"), nil, 0o644),
				c.make(filepath.Join(dir, "a.hcl")),
			))
			_, diags := Load(OS(), LoadOptions{Root: root})
			if (len(diags) == 0) != (c.want == "") || !strings.Contains(show(diags), c.want) {
				t.Errorf("got %q, want %q", show(diags), c.want)
			}
		})
	}
}

// A site is read only if all of its path is writable by root and the caller only: each file and folder is looked at as
// nodefile.CheckTrusted does.
func TestOSTakesNoSiteOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	for name, c := range map[string]struct {
		ofOthers, want string
	}{
		"file":         {"etc/prelet/a.hcl", "Others may change this file"},
		"vars file":    {"etc/prelet/a.prelet.vars", "Others may change this file"},
		"folder":       {"etc/prelet", "Others may write into this folder"},
		"empty folder": {"run/prelet/site", "Others may write into this folder"},
		"above":        {"etc", "etc belongs to uid 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "etc/prelet")
			must(t, errors.Join(
				os.MkdirAll(dir, 0o755),
				os.MkdirAll(filepath.Join(root, "run/prelet/site"), 0o755),
				os.WriteFile(filepath.Join(dir, "a.hcl"), nil, 0o644),
				os.WriteFile(filepath.Join(dir, "a.prelet.vars"), nil, 0o644),
				os.Chown(filepath.Join(root, c.ofOthers), 1000, 0),
			))
			for _, opts := range []LoadOptions{{Root: root}, {Paths: []string{dir}}} {
				if name == "empty folder" && opts.Root == "" {
					continue
				}
				_, diags := Load(OS(), opts)
				if !strings.Contains(show(diags), c.want) {
					t.Errorf("got %q, want %q", show(diags), c.want)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	opts := options()
	opts.Paths = []string{"../../../examples/gpu-training"}
	for b.Loop() {
		if _, diags := Load(OS(), opts); diags.HasErrors() {
			b.Fatal(show(diags))
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

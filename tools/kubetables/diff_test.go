package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	validationFile = "kubernetes/pkg/kubelet/apis/config/validation/validation.go"
	otherFile      = "kubernetes/pkg/kubelet/other.go"
)

// addFiles returns a release with more files, and reads it.
func addFiles(t *testing.T, version string, files map[string]string) *source {
	t.Helper()
	more := moreNames()
	maps.Copy(more, files)
	for _, name := range []string{validationFile, otherFile} {
		delete(more, name)
	}
	s := openTree(t, version, more)
	for _, name := range []string{validationFile, otherFile} {
		file := filepath.Join(s.gopath, "src/k8s.io", name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(files[name]), 0o600))
	}
	must(t, s.read())

	return s
}

const rulesText = `# Words.

first-rule: exits, error
what   a value
source pkg/kubelet/apis/config/validation/validation.go, Check;
       pkg/kubelet/other.go, Start
at     --more-1 maxPods

second-rule: exits, error
what   another
source pkg/kubelet/apis/config/validation/validation.go
at     podsPerCore
`

// TestDiff compares two releases: each change has the rules that name it, or that were read there; what is not judged,
// comments and loggers are left out.
func TestDiff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.txt")
	must(t, os.WriteFile(file, []byte(rulesText), 0o600))
	rules, err := readRules(file)
	if err != nil || len(rules) != 2 {
		t.Fatalf("got %v, %v; want two rules", rules, err)
	}

	old := addFiles(t, "1.36.3", map[string]string{
		validationFile: "package validation\n\nfunc Check(c config) bool {\n\treturn c.MaxPods > 0\n}\n",
		otherFile: "package kubelet\n\n// Start starts.\nfunc Start() { a(); b() }\n\nfunc Other() { a() }\n\n" +
			"func Logs(logger klog.Logger, n int) { a(n) }\n",
	})
	more := moreNames()[optionsFolder+"more.go"]
	next := addFiles(t, "1.37.0-rc.1", map[string]string{
		validationFile: "package validation\n\nfunc Check(c config) bool {\n\treturn c.PodsPerCore > 0\n}\n\n" +
			"const limit = 3\n",
		otherFile: "package kubelet\n\n// Start begins.\nfunc Start() { a(); c() }\n\nfunc Other() { b() }\n\n" +
			"func Logs(n int) { a(n) }\n",
		optionsFolder + "more.go": strings.Replace(more, `fs.String("more-1",`, `fs.String("more-new",`, 1),
	})

	var out strings.Builder
	must(t, (&differ{out: &out, old: old, new: next, rules: rules}).diff())
	want := `flag --more-1: value → -
    rules: first-rule
flag --more-new: - → value
gate NodeSwap: beta + → ga +!
cmd/kubelet/app/options/more.go: more changed
    - fs.String("more-1", "", "")
    + fs.String("more-new", "", "")
pkg/kubelet/apis/config/validation/validation.go: Check changed
    - return c.MaxPods > 0
    + return c.PodsPerCore > 0
    rules: first-rule, second-rule
pkg/kubelet/apis/config/validation/validation.go: limit added
    + limit = 3
    rules: second-rule
pkg/kubelet/other.go: Start changed
    - func Start() { a(); b() }
    + func Start() { a(); c() }
    rules: first-rule
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}

	out.Reset()
	err = (&differ{out: &out, old: old, new: old, rules: rules}).diff()
	if err != nil || out.String() != "nothing to judge\n" {
		t.Errorf("of a release with itself: got %q, %v; want nothing to judge", &out, err)
	}
}

// TestUsage: make kubediff without releases says how it is used, and does not take diff for a table.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"diff"}, {"diff", "rules.txt"}, {"diff", "rules.txt", "1.36.3"}} {
		if err := execute(args); err == nil || !strings.Contains(err.Error(), "make kubediff OLD=") {
			t.Errorf("%q: got %v, want the usage", args, err)
		}
	}
}

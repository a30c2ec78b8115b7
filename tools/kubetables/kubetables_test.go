package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openTree returns the release in testdata, which is as much of one as the generator looks at, with more files.
func openTree(t *testing.T, version string, more map[string]string) *source {
	t.Helper()
	gopath := t.TempDir()
	root := filepath.Join(gopath, "src/k8s.io")
	must(t, os.CopyFS(root, os.DirFS("testdata/release")))
	for name, text := range more {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}

	return newSource(version, gopath)
}

const (
	optionsFolder = "kubernetes/cmd/kubelet/app/options/"
	gatesFolder   = "kubernetes/pkg/features/"
	resizeFile    = "component-helpers/nodedeclaredfeatures/features/resize/feature.go"
)

// moreNames returns files with so many flags and gates that the release passes for a whole one.
func moreNames() map[string]string {
	var flags, gates strings.Builder
	for i := range 100 {
		fmt.Fprintf(&flags, "\tfs.String(\"more-%d\", \"\", \"\")\n", i)
		fmt.Fprintf(&gates, "\t\"More%d\": {Default: false},\n", i)
	}

	return map[string]string{
		optionsFolder + "more.go": "package options\n\nfunc more() {\n" + flags.String() + "}\n",
		gatesFolder + "more.go": "package features\n\nimport \"k8s.io/component-base/featuregate\"\n\n" +
			"var more = map[featuregate.Feature]featuregate.FeatureSpec{\n" + gates.String() + "}\n",
	}
}

func TestRead(t *testing.T) {
	s := openTree(t, "1.36.3", moreNames())
	if err := s.read(); err != nil {
		t.Fatalf("got %v, want no error", err)
	}
	for line := range strings.Lines(`
field apiVersion string
field maxPods int32 =110
field mode string =Fast
field syncFrequency duration =2m0s
field authentication object
field authentication.webhook.cacheTTL duration |it is always two minutes
field kubeReserved strings
field reservedMemory objectlist
field reservedMemory[].numaNode int32
field logging.options.splitStream bool
field failCgroupV1 bool
field share number =0.8
field words string |no longer has any effect
read NodeSwap yes
read Late
read Log
flag config value
flag node-labels value
flag network-plugin value deprecated |goes, soon
flag secret value hidden
flag log-cadvisor-usage bool deprecated
flag max-pods value deprecated >maxPods
flag mode value deprecated >mode
flag cache-ttl value deprecated >authentication.webhook.cacheTTL
flag logging-format value deprecated >logging.format
flag log-split bool >logging.options.splitStream
flag version bool
flag help bool
flag windows-service
flag tested
flag log-of-another-program
gate NodeSwap beta +
gate Late
gate Log beta +
gate ServedByName ga +!
gate AllAlpha alpha -
gate More0 alpha -
needs Log ServedByName,Late
needs NodeSwap
declared PodResize A,B runtime
declared InitResize InitResize
`) {
		words := strings.SplitN(strings.TrimSpace(line)+"  ", " ", 3)
		name, want := words[0]+"\t"+words[1], strings.TrimSpace(words[2])
		if got := s.states[name]; got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for name, test := range map[string]struct{ file, old, new, want string }{
		"a handful of flags": {optionsFolder + "more.go", "String(", "string(", "flags were found"},
		"a handful of gates": {gatesFolder + "more.go", "featuregate.FeatureSpec", "bool", "feature gates were found"},
		"a feature with a last version": {
			resizeFile, "version.Version { return nil }", "version.Version { return newest }", "is not simple",
		},
		"a field of a channel": {
			"kubelet/config/v1beta1/types.go", "NumaNode int32", "NumaNode chan int", "unknown type chan int",
		},
	} {
		t.Run(name, func(t *testing.T) {
			more := moreNames()
			text := more[test.file]
			if text == "" {
				read, err := os.ReadFile(filepath.Join("testdata/release", test.file))
				must(t, err)
				text = string(read)
			}
			more[test.file] = strings.ReplaceAll(text, test.old, test.new)
			err := openTree(t, "1.36.3", more).read()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// Features that a Node declares are not read from a release before 1.36.
func TestDeclaredSince(t *testing.T) {
	s := openTree(t, "1.35.4", moreNames())
	if err := s.read(); err != nil || s.states["declared\tPodResize"] != "" {
		t.Errorf("1.35: got %q, %v; want nothing", s.states["declared\tPodResize"], err)
	}
}

const tableFile = "../../internal/model/kubelet/known/tables.txt"

// readTable returns the table of this repository and its text.
func readTable(t *testing.T) (*table, string) {
	t.Helper()
	text, err := os.ReadFile(tableFile)
	must(t, err)
	tab, err := parseTable(string(text))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", tableFile, err)
	}

	return tab, string(text)
}

// A table that is read and printed again is the same, and so are its other releases when one is added.
func TestTable(t *testing.T) {
	tab, text := readTable(t)
	if got := tab.String(); got != text {
		t.Errorf("the table that is read and printed: got\n%.2000s\nwant the same bytes", got)
	}

	tab = &table{states: map[string]map[string]string{}, readOn: "2030-01-02"}
	tab.set("1.20.15", map[string]string{"flag\told": "value"})
	tab.set("1.21.14", map[string]string{"flag\told": "bool"})
	for _, step := range []struct{ version, flag, want string }{
		{
			"1.22.0-alpha.1", "new", "minors\t20 21 22\nprerelease\t22=1.22.0-alpha.1\nflag\tnew\t22=int\n" +
				"flag\told\t20=value;21=bool;22=-\n",
		},
		{"1.22.0", "old", "minors\t20 21 22\nflag\told\t20=value;21=bool;22=int\n"},
	} {
		tab.set(step.version, map[string]string{"flag\t" + step.flag: "int"})
		got := tab.String()
		head := "Facts read on 2030-01-02 from"
		if !strings.HasSuffix(got, step.want) || !strings.Contains(got, head) ||
			!strings.Contains(got, " "+step.version+".\n") {
			t.Errorf("%s: got\n%s\nwant the head with %s and this release, and %q", step.version, got, head, step.want)
		}
	}

	tab.set("1.22.0-rc.1", nil)
	again, err := parseTable(tab.String())
	if err != nil || again.String() != tab.String() {
		t.Errorf("with a release before the first one: got\n%v, %v\nwant it again:\n%s", again, err, tab)
	}

	if _, err := parseTable("minors\t20\n"); err == nil {
		t.Error("a table without a head: got no error, want one")
	}
}

// TestConfigDirWords reads what no kubelet that is built here says: the rule flag-config-dir is for 1.28 and 1.29.
func TestConfigDirWords(t *testing.T) {
	const words = "specified but environment variable KUBELET_CONFIG_DROPIN_DIR_ALPHA not set, cannot start kubelet"
	t.Setenv("GOPROXY", "off")
	tab, _ := readTable(t)
	for _, version := range tab.versions {
		src := newSource(version, t.TempDir())
		if err := src.link(); err != nil {
			t.Skip("the modules are not there: make kubetables")
		}
		text, err := os.ReadFile(filepath.Join(src.gopath, "src", kubernetes, "cmd/kubelet/app/server.go"))
		must(t, err)
		has := strings.Contains(string(text), words)
		want := strings.HasPrefix(version, "1.28.") || strings.HasPrefix(version, "1.29.")
		if has != want {
			t.Errorf("%s has these words: got %t, want %t", version, has, want)
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

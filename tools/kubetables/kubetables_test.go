package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tree is as much of a release as the generator looks at.
func tree(t *testing.T, version string, files map[string]string) *source {
	t.Helper()
	root := t.TempDir()
	s := &source{version: version, offline: true, dirs: map[string]string{}, parsed: map[string]*pkg{}}
	for _, m := range []string{"kubernetes", "kubelet", "component-base", "apiserver", "client-go", "apiextensions-apiserver", "component-helpers"} {
		s.dirs["k8s.io/"+m] = filepath.Join(root, m)
	}
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const types = `package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
)

type Mode string

const (
	Fast Mode = "Fast"
	Slow Mode = "Slow"
)

type KubeletConfiguration struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
	MaxPods  int32                        ` + "`json:\"maxPods,omitempty\"`" + `
	Mode     Mode                         ` + "`json:\"mode,omitempty\"`" + `
	Sync     metav1.Duration              ` + "`json:\"syncFrequency,omitempty\"`" + `
	Auth     Auth                         ` + "`json:\"authentication\"`" + `
	Reserved map[string]string            ` + "`json:\"kubeReserved,omitempty\"`" + `
	Taints   []Reservation                ` + "`json:\"reservedMemory,omitempty\"`" + `
	Logging  logsapi.LoggingConfiguration ` + "`json:\"logging,omitempty\"`" + `
	Fails    *bool                        ` + "`json:\"failCgroupV1,omitempty\"`" + `
}

type Auth struct {
	Webhook Webhook ` + "`json:\"webhook\"`" + `
}

type Webhook struct {
	CacheTTL metav1.Duration ` + "`json:\"cacheTTL\"`" + `
}

type Reservation struct {
	NumaNode int32 ` + "`json:\"numaNode\"`" + `
}
`

const logging = `package v1

type LoggingConfiguration struct {
	Format  string      ` + "`json:\"format\"`" + `
	Options JSONOptions ` + "`json:\"options\"`" + `
}

type JSONOptions struct {
	Routing ` + "`json:\",inline\"`" + `
}

type Routing struct {
	Split bool ` + "`json:\"splitStream\"`" + `
}

func AddFlags(c *LoggingConfiguration, fs *pflag.FlagSet) { addFlags(c, fs) }

func addFlags(c *LoggingConfiguration, fs flagSet) {
	fs.StringVar(&c.Format, "logging-format", c.Format, "")
	fs.BoolVar(&c.Options.Split, "log-split", false, "")
}
`

const defaults = `package v1beta1

import (
	kubelet "k8s.io/kubelet/config/v1beta1"
)

const mode = kubelet.Fast

func SetDefaults_KubeletConfiguration(obj *kubelet.KubeletConfiguration) {
	if obj.MaxPods == 0 {
		obj.MaxPods = ptr.To[int32](110)
	}
	if obj.Mode == "" {
		obj.Mode = mode
	}
	if obj.Sync == zero {
		obj.Sync = metav1.Duration{Duration: 2 * time.Minute}
	}
	if obj.Auth.Webhook.CacheTTL == zero {
		if obj.Sync == zero {
			obj.Auth.Webhook.CacheTTL = obj.Sync
		}
	}
	if obj.Fails == nil {
		obj.Fails = ptr.To(features.Enabled(features.X))
	}
}
`

const options = `package options

const help = "help"

func (f *KubeletFlags) AddFlags(mainfs *pflag.FlagSet) {
	fs.StringVar(&f.Config, "config", f.Config, "the " +
		"file")
	fs.Var(&labels, "node-labels", "")
	fs.StringVar(&f.Plugin, "network-plugin", "", "")
	fs.MarkDeprecated("network-plugin", "goes; soon")
	fs.StringVar(&f.Secret, "secret", "", "")
	fs.MarkHidden("secret")
	registerDeprecated(global, local, "log_cadvisor_usage", deprecated)
	strings.Join(f.Names, "no flag")
}

func AddKubeletConfigFlags(mainfs *pflag.FlagSet, c *KubeletConfiguration) {
	notDeprecated := map[string]bool{"log-split": true}
	fs.Int32Var(&c.MaxPods, "max-pods", c.MaxPods, "")
	fs.DurationVar(&c.Auth.Webhook.CacheTTL.Duration, "cache-ttl", c.Auth.Webhook.CacheTTL.Duration, "")
	fs.StringVar((*string)(&c.Mode), "mode", string(c.Mode), "")
	logsapi.AddFlags(&c.Logging, fs)
}
`

func TestFieldsAndFlags(t *testing.T) {
	files := map[string]string{
		"kubelet/config/v1beta1/types.go":                        types,
		"component-base/logs/api/v1/types.go":                    logging,
		"kubernetes/pkg/kubelet/apis/config/v1beta1/defaults.go": defaults,
		"kubernetes/cmd/kubelet/app/options/options.go":          options,
		"kubernetes/cmd/kubelet/app/options/windows_windows.go": "package options\nfunc x() { " +
			"fs.Bool(\"windows-service\", false, \"\") }\n",
		"kubernetes/pkg/kubelet/config/config.go": "package config\n",
		"kubernetes/cmd/kubelet/app/options/options_ignore_test.go": "package options\nfunc y() { " +
			"fs.Bool(\"tested\", false, \"\") }\n",
	}
	s := tree(t, "1.36.3", files)
	fields, err := s.fields()
	if err != nil {
		t.Fatal(err)
	}
	got := fields.states()
	for name, want := range map[string]string{
		"apiVersion": "string", "maxPods": "int32 =110", "mode": "string =Fast", "syncFrequency": "duration =2m0s",
		"authentication.webhook.cacheTTL": "duration", "kubeReserved": "strings", "reservedMemory": "objectlist",
		"reservedMemory[].numaNode": "int32", "logging.options.splitStream": "bool", "failCgroupV1": "bool",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	_, err = s.flags(fields)
	if err == nil || !strings.Contains(err.Error(), "were found") {
		t.Errorf("a release with a handful of flags is taken for whole: %v", err)
	}
	more := "package options\nfunc more() {\n"
	for i := range 100 {
		more += "\tfs.String(\"filler-" + strings.Repeat("x", i) + "\", \"\", \"\")\n"
	}
	files["kubernetes/cmd/kubelet/app/options/more.go"] = more + "}\n"
	s = tree(t, "1.36.3", files)
	if fields, err = s.fields(); err != nil {
		t.Fatal(err)
	}
	flags, err := s.flags(fields)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"config": "value", "node-labels": "value", "network-plugin": "value deprecated |goes, soon", "secret": "value hidden",
		"log-cadvisor-usage": "bool deprecated", "max-pods": "value deprecated >maxPods", "mode": "value deprecated >mode",
		"cache-ttl": "value deprecated >authentication.webhook.cacheTTL", "logging-format": "value deprecated >logging.format",
		"log-split": "bool >logging.options.splitStream", "version": "bool",
		"windows-service": "", "tested": "", "no flag": "", "help": "bool",
	} {
		if flags[name] != want {
			t.Errorf("--%s: %q, want %q", name, flags[name], want)
		}
	}
}

func TestGates(t *testing.T) {
	filler := ""
	for i := range 60 {
		filler += "\t\"Filler" + strings.Repeat("x", i) + "\": {Default: false},\n"
	}
	s := tree(t, "1.31.0", map[string]string{
		"kubernetes/pkg/features/kube_features.go": `package features

import genericfeatures "k8s.io/apiserver/pkg/features"

const (
	Swap featuregate.Feature = "NodeSwap"
	Late featuregate.Feature = "Late"
	Log featuregate.Feature = "Log"
	logDefault = true
)

var gates = map[featuregate.Feature]featuregate.VersionedSpecs{
	Swap: {
		{Version: version.MustParse("1.22"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.Beta},
		{Version: version.MustParse("1.34"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},
	},
	Late: {{Version: version.MustParse("1.35"), Default: false, PreRelease: featuregate.Alpha}},
}

var old = map[featuregate.Feature]featuregate.FeatureSpec{
	Log: {Default: logDefault, PreRelease: featuregate.Beta},
	genericfeatures.Served: {Default: true, PreRelease: featuregate.GA, LockToDefault: true},
` + filler + `}

var needs = map[featuregate.Feature][]featuregate.Feature{
	Swap: {},
	Log: {genericfeatures.Served, featuregate.Feature(Late)},
}
`,
		"apiserver/pkg/features/kube_features.go": "package features\n\nconst Served featuregate.Feature = " +
			"\"ServedByName\"\n",
	})
	got, needs, err := s.gates()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"NodeSwap": "beta +", "Late": "", "Log": "beta +", "ServedByName": "ga +!", "AllAlpha": "alpha -", "Filler": "alpha -"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if len(needs) != 1 || needs["Log"] != "ServedByName,Late" {
		t.Errorf("needs %q", needs)
	}
}

const registry = `package features

import (
	"k8s.io/component-helpers/nodedeclaredfeatures/features/resize"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

var AllFeatures = []types.Feature{resize.Pod, resize.Init}
`

const features = `package resize

const InitGate = "InitResize"

var Pod = &pod{}
var Init = &initContainers{}

type pod struct{}
type initContainers struct{}

func (f *pod) Name() string { return "PodResize" }
func (f *pod) Requirements() *types.FeatureRequirements {
	return &types.FeatureRequirements{
		EnabledFeatureGates: []string{"A", "B"},
		RequiredRuntimeFeatures: &types.RuntimeFeatures{MountOptions: true},
	}
}
func (f *pod) MaxVersion() *version.Version { return nil }

func (f *initContainers) Name() string { return InitGate }
func (f *initContainers) Requirements() *types.FeatureRequirements {
	return &types.FeatureRequirements{EnabledFeatureGates: []string{InitGate}}
}
func (f *initContainers) MaxVersion() *version.Version { return MAX }
`

func TestDeclared(t *testing.T) {
	const folder = "component-helpers/nodedeclaredfeatures/features/"
	read := func(version, newest string) (map[string]string, error) {
		return tree(t, version, map[string]string{
			folder + "registry.go":       registry,
			folder + "resize/feature.go": strings.ReplaceAll(features, "MAX", newest),
		}).declared()
	}

	got, err := read("1.36.3", "nil")
	want := map[string]string{"PodResize": "A,B runtime", "InitResize": "InitResize"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if got, err = read("1.35.4", "nil"); err != nil || len(got) != 0 {
		t.Errorf("1.35: got %q, %v; want nothing", got, err)
	}
	if got, err = read("1.36.3", "newest"); err == nil {
		t.Errorf("a feature with a last version: got %q, want an error", got)
	}
}

const tableFile = "../../internal/kubelet/known/tables.txt"

// readTable returns the table of this repository and its text.
func readTable(t *testing.T) (*table, string) {
	t.Helper()
	text, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := parseTable(string(text))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", tableFile, err)
	}

	return tab, string(text)
}

// printed returns the text of a table.
func printed(tab *table) string {
	var b bytes.Buffer
	tab.print(&b)

	return b.String()
}

// A table that is read and printed again is the same, and so are its other releases when one is added.
func TestTable(t *testing.T) {
	tab, text := readTable(t)
	if got := printed(tab); got != text {
		t.Errorf("the table that is read and printed: got\n%.2000s\nwant the same bytes", got)
	}

	day := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	tab = &table{versions: []string{"1.20.15", "1.21.14"}, states: map[string]map[string][]string{}}
	for i, s := range []string{"value", "bool"} {
		tab.set("flag", "old", i, s)
	}
	for _, step := range []struct{ version, flag, want string }{
		{"1.22.0-alpha.1", "new", "minors\t20 21 22\nflag\tnew\t22=int\nflag\told\t20=value;21=bool;22=-\n"},
		{"1.22.0", "old", "minors\t20 21 22\nflag\told\t20=value;21=bool;22=int\n"},
	} {
		tab.addVersion(step.version, day)
		tab.set("flag", step.flag, 2, "int")
		got := printed(tab)
		head := "Facts read on 2030-01-02 from"
		if !strings.HasSuffix(got, step.want) || !strings.Contains(got, head) ||
			!strings.Contains(got, " "+step.version+".\n") {
			t.Errorf("%s: got\n%s\nwant the head with %s and this release, and %q", step.version, got, head, step.want)
		}
	}

	if _, err := parseTable("minors\t20\n"); err == nil {
		t.Error("a table without a head: got no error, want one")
	}
}

// TestConfigDirWords reads what no kubelet that is built here says: the rule flag-config-dir is for 1.28 and 1.29.
func TestConfigDirWords(t *testing.T) {
	const words = "specified but environment variable KUBELET_CONFIG_DROPIN_DIR_ALPHA not set, cannot start kubelet"
	tab, _ := readTable(t)
	for _, version := range tab.versions {
		src, err := open(version, true)
		if err != nil {
			t.Skip("the modules are not there: make kubetables")
		}
		text, err := os.ReadFile(filepath.Join(src.dirs["k8s.io/kubernetes"], "cmd/kubelet/app/server.go"))
		if err != nil {
			t.Fatal(err)
		}
		if has, want := strings.Contains(string(text), words), strings.HasPrefix(version, "1.28.") ||
			strings.HasPrefix(version, "1.29."); has != want {
			t.Errorf("%s says so: %t", version, has)
		}
	}
}

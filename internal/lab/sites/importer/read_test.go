package importer_test

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/sites/importer"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/osfile"
)

var update = flag.Bool("update", false, "write the golden files")

func options() importer.Values {
	return importer.Values{Hashes: []string{pin}, Credential: "bootstrap-token", Version: "0.1.0"}
}

// formatDiagnostic formats a diagnostic in one line: severity, code, summary.
func formatDiagnostic(d *hcl.Diagnostic) string {
	word := "error"
	if origin.IsNote(d) {
		word = "note"
	} else if d.Severity == hcl.DiagWarning {
		word = "warning"
	}
	return fmt.Sprintf("%s %s %s", word, origin.CodeOf(d), d.Summary)
}

// testFiles are the files of the script and of kubeadm in testdata.
func testFiles(t testing.TB) []string {
	t.Helper()
	scripts, err := filepath.Glob("testdata/*.json")
	joins, err2 := filepath.Glob("testdata/*.yaml")
	if err := errors.Join(err, err2); err != nil || len(scripts) < 3 || len(joins) < 2 {
		t.Fatalf("testdata: got %q, %q and %v, want at least 3 and 2", scripts, joins, err)
	}

	return append(scripts, joins...)
}

// TestGolden compares whole sites and their diagnostics with golden files.
func TestGolden(t *testing.T) {
	for _, f := range testFiles(t) {
		t.Run(filepath.Base(f), func(t *testing.T) {
			src := osfile.Read(t, f)
			o := options()
			if filepath.Ext(f) == ".yaml" {
				o = foreignOptions()
			}
			if strings.HasSuffix(f, "troubled.yaml") {
				o.Servers = []string{"10.0.0.11:6443", "https://10.0.0.12:6443"}
			}
			r := importer.Import(f, src, o)
			if r.Diagnostics.HasErrors() {
				t.Fatalf("diagnostics: got %v, want no errors", r.Diagnostics)
			}
			checkNoSecrets(t, r)
			if d := cmp.Diff(string(r.Text), string(lang.Format(r.Text))); d != "" {
				t.Errorf("formatted text: want it unchanged by prelet fmt, got (-want +got):\n%s", d)
			}
			if d := cmp.Diff(string(r.Text), string(importer.Import(f, src, o).Text)); d != "" {
				t.Errorf("second import (-first +second):\n%s", d)
			}
			if n := strings.Count(string(r.Text), "\n"); n > 160 {
				t.Errorf("got a site of %d lines, want at most 160", n)
			}
			var notes strings.Builder
			for _, d := range r.Diagnostics {
				fmt.Fprintf(&notes, "%s\n\t%s\n", formatDiagnostic(d), strings.ReplaceAll(d.Detail, "\n", "\n\t"))
			}
			for _, line := range slices.Concat(r.Differences, r.Open) {
				fmt.Fprintf(&notes, "- %s\n", line)
			}
			osfile.Golden(t, f+".hcl", r.Text, *update)
			osfile.Golden(t, f+".notes", notes.String(), *update)
		})
	}
}

// TestDiagnostics imports texts that are wrong, odd or lenient.
func TestDiagnostics(t *testing.T) {
	with := func(rest string) string { return `{"apiserver": "h:6443", ` + rest + `}` }
	for _, c := range []struct{ name, text, want string }{
		{"plain", `{"apiserver": "10.0.0.1:6443"}`, ""},
		{"nulls and empty texts are not set", with(`"k8s_version": null, "listenInterface": "", "nodeLabels": null, "nodeTaints": "", "resources": null`), ""},
		{"no text", ``, "error wrong-type Nothing to import"},
		{"cut off", `{"apiserver": "10`, "error syntax Invalid JSON"},
		{"a comma too many", "{\n  \"apiserver\": \"h:6443\",\n}", "error syntax Invalid JSON"},
		{"two documents", `{"apiserver": "h:6443"} {}`, "error syntax Invalid JSON"},
		{"a list", ` ["h:6443"]`, "error wrong-type An object is needed"},
		{"not UTF-8", "{\"apiserver\": \"\xff\"}", "error syntax Invalid JSON"},
		{"too large", `{"apiserver": "` + strings.Repeat("x", 256<<10) + `"}`, "error limit This file is " +
			"too large"},

		{"no apiserver", `{"k8s_version": "1.11"}`, "error missing-argument No API server"},
		{"apiserver is null", `{"apiserver": null}`, "error missing-argument No API server"},
		{"apiserver is a number", `{"apiserver": 1}`, "error wrong-type Wrong type for apiserver"},
		{"http", `{"apiserver": "http://10.0.0.1:8080"}`, "error wrong-type The API server cannot be used"},
		{"another scheme", `{"apiserver": "tcp://10.0.0.1:8080"}`, "error wrong-type The API server cannot be used"},
		{"no port", `{"apiserver": "10.0.0.1"}`, "error wrong-type The API server cannot be used"},
		{"port 0", `{"apiserver": "10.0.0.1:0"}`, "error wrong-type The API server cannot be used"},
		{"port 65536", `{"apiserver": "10.0.0.1:65536"}`, "error wrong-type The API server cannot be used"},
		{"a path", `{"apiserver": "https://h/k8s"}`, "error wrong-type The API server cannot be used"},
		{"a password", `{"apiserver": "https://u:p@h:6443"}`, "error wrong-type The API server cannot be used"},
		{"no host", `{"apiserver": ":6443"}`, "error wrong-type The API server cannot be used"},
		{"text that is no host", `{"apiserver": "${x}:6443"}`, "error wrong-type The API server cannot be used"},
		{"https without port", `{"apiserver": "https://k8s.example/"}`, ""},
		{"IPv6", `{"apiserver": "[2001:db8::1]:6443"}`, ""},
		{"IPv6 without brackets", `{"apiserver": "2001:db8::1"}`, "error wrong-type The API server cannot be used"},

		{"version as a number", with(`"k8s_version": 1.11`), "note wrong-type k8s_version is a number"},
		{"version 1.20 as a number", with(`"k8s_version": 1.20`), "error wrong-type k8s_version is a " +
			"number that is not what it looks like"},
		{"version with a slash", with(`"k8s_version": "../x"`), "error wrong-type k8s_version cannot be used"},
		{"interface with a slash", with(`"listenInterface": "a/b"`), "error wrong-type listenInterface " +
			"is not an interface"},
		{"interface too long", with(`"listenInterface": "enp129s0f0np0123"`), "error wrong-type " +
			"listenInterface is not an interface"},

		{"unknown key", with(`"nodeLabel": "a=b"`), `warning unknown-argument "nodeLabel" is left out: the script does not read it`},
		{"unknown resource", with(`"resources": {"cpu": 1}`), `warning unknown-argument "cpu" is left out: the script does not read it`},
		{"of a key twice the last one", with(`"apiserver": "g:6443"`), ""},

		{"labels as an object", with(`"nodeLabels": {"a": "b"}`), "error wrong-type Wrong type for nodeLabels"},
		{"label without value", with(`"nodeLabels": "a, b=c"`), "note label-invalid Label a has no value"},
		{"label that nothing takes", with(`"nodeLabels": "a=b,c d=e"`), "warning label-invalid A label is not imported: the kubelet would refuse it"},
		{"label that kubelets refuse", with(`"nodeLabels": "node-role.kubernetes.io/db="`), "warning label-forbidden A label is not imported: the kubelet would refuse it"},
		{"label twice, the same", with(`"nodeLabels": "a=b,a=b"`), ""},
		{"label twice", with(`"nodeLabels": "a=b,a=c"`), "note duplicate Label a is given twice"},
		{"the script's own label", with(`"nodeLabels": "network.netease.com/kube-proxy=lb-masquerade"`), ""},
		{"the script's own label otherwise", with(`"nodeLabels": "network.netease.com/kube-proxy=ipvs"`), "note duplicate Label network.netease.com/kube-proxy is init-config's"},
		{"taint without effect", with(`"nodeTaints": "a=b"`), "warning taint-invalid A taint is not imported: the kubelet would refuse it"},
		{"taint twice", with(`"nodeTaints": "a=b:NoSchedule,a=c:NoSchedule,a=c:NoExecute"`), "note duplicate Taint a is given twice"},
		{"taint with two effects", with(`"nodeTaints": "a=b:NoSchedule,a=c:NoExecute"`), ""},
		{"two of them", with(`"nodeTaints": "a=b,a=b"`), "warning taint-invalid A taint is not imported: the kubelet would refuse it\n" +
			"warning taint-invalid A taint is not imported: the kubelet would refuse it"},
		{"the script's own taint with another effect", with(`"nodeTaints": "nvidia.com/gpu=no:NoExecute"`), ""},
		{"the script's own taint otherwise", with(`"nodeTaints": "nvidia.com/gpu=no:NoSchedule"`), "note duplicate Taint nvidia.com/gpu is init-config's"},

		{"resources as text", with(`"resources": "10%"`), "error wrong-type Wrong type for resources"},
		{"CPUs as text", with(`"resources": {"cpuRemained": "4"}`), ""},
		{"half a CPU", with(`"resources": {"cpuRemained": 1.5}`), "error wrong-type cpuRemained is not " +
			"a number of CPUs"},
		{"fewer CPUs than none", with(`"resources": {"cpuRemained": -1}`), "error wrong-type " +
			"cpuRemained is not a number of CPUs"},
		{"no CPUs", with(`"resources": {"cpuRemained": 0}`), "warning reserve-refused cpuRemained is " +
			"left out: it is 0"},
		{"memory without %", with(`"resources": {"memoryReserved": "10"}`), "note wrong-type " +
			"memoryReserved has no %"},
		{"memory in GiB", with(`"resources": {"memoryReserved": "10Gi"}`), "error wrong-type " +
			"memoryReserved is not a percentage"},
		{"101%", with(`"resources": {"memoryReserved": "101%"}`), "error wrong-type memoryReserved is " +
			"not a percentage"},
		{"100%", with(`"resources": {"memoryReserved": "100%"}`), "warning reserve-refused " +
			"memoryReserved is left out: it is 100%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := importer.Import("init-config.json", []byte(c.text), options())
			var got []string
			for _, d := range r.Diagnostics {
				got = append(got, formatDiagnostic(d))
			}
			if d := cmp.Diff(c.want, strings.Join(got, "\n")); d != "" {
				t.Errorf("diagnostics (-want +got):\n%s", d)
			}
			if r.Diagnostics.HasErrors() != (r.Text == nil) {
				t.Errorf("got errors %t and a text of %d bytes, want one of them",
					r.Diagnostics.HasErrors(), len(r.Text))
			}
		})
	}
}

// TestLeftOut: the site contains nothing that was left out.
func TestLeftOut(t *testing.T) {
	r := importer.Import(
		"a.json",
		[]byte(`{"apiserver": "h:6443", "nodeLabels": "a=b,c d=eee", "nodeTaints": "fff", "ggg": 1}`),
		options(),
	)
	for _, s := range []string{"eee", "fff", "ggg"} {
		if strings.Contains(string(r.Text), s) {
			t.Errorf("the site contains %q, want only what was imported", s)
		}
	}
	if !regexp.MustCompile(`"a"\s+= "b"`).Match(r.Text) {
		t.Errorf("got %s\nwant the label a=b in it", r.Text)
	}
}

// TestServersOfTheCommandLine: they replace the server of an init-config.
func TestServersOfTheCommandLine(t *testing.T) {
	o := options()
	o.Servers = []string{"10.0.0.1:6443", "10.0.0.2:6443"}
	r := importer.Import("init-config.json", []byte(`{"apiserver": "h:6443"}`), o)
	const want = `["https://10.0.0.1:6443", "https://10.0.0.2:6443"]`
	if !strings.Contains(string(r.Text), want) || strings.Contains(string(r.Text), "https://h:") {
		t.Errorf("import with two servers: got %v and\n%s\nwant the servers %s only", r.Diagnostics, r.Text, want)
	}
}

// TestNameOfTheSource: the site has the file's name in a comment of one line.
func TestNameOfTheSource(t *testing.T) {
	src := osfile.Read(t, "testdata/kubeadm.yaml")
	const name = "a\"\nstage \"y\" \"z\" {}\n.json"
	for _, r := range []importer.Imported{
		importer.Import("/x/"+name, []byte(`{"apiserver": "h:6443"}`), options()),
		importer.Import("/x/"+name, src, foreignOptions()),
	} {
		if !strings.Contains(string(r.Text), `imported from a\"\nstage`) ||
			strings.Contains(string(r.Text), "\nstage \"y\"") || strings.Contains(string(r.Text), "/x/") {
			t.Errorf("got %v and %s\nwant the name of the source in one comment", r.Diagnostics, r.Text)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, h := range []string{"", "sha256:", "c4fb", strings.ToUpper(pin), pin + "0", "sha512:" + pin[7:], " " + pin, pin + "\n"} {
		err := importer.CheckHash(h)
		if err == nil {
			t.Errorf("CheckHash(%q): got no error, want one", h)
			continue
		}
		if !strings.Contains(err.Error(), "kubeadm token create") || !strings.Contains(err.Error(), "not offered") {
			t.Errorf("CheckHash(%q): got %v, want how to get a pin in it", h, err)
		}
	}
	if err := importer.CheckHash(pin); err != nil {
		t.Error(err)
	}
	if err := importer.CheckHash("sha256:" + strings.ToUpper(pin[7:])); err != nil {
		t.Error(err)
	}
	for _, n := range []string{"", "a/b", "..", "a b", "a\nb", strings.Repeat("a", 256), token + "/"} {
		err := secret.CheckCredentialName(n)
		if err == nil {
			t.Errorf("CheckCredentialName(%q): got no error, want one", n)
		} else if strings.Contains(err.Error(), token) {
			t.Errorf("CheckCredentialName(TOKEN): got %v, want no token in the error", err)
		}
	}
	if err := secret.CheckCredentialName("bootstrap-token"); err != nil {
		t.Error(err)
	}
}

// FuzzImport: every file is refused or becomes a site that passes validate. Import checks that and fails with internal.
func FuzzImport(f *testing.F) {
	for _, name := range testFiles(f) {
		src := osfile.Read(f, name)
		f.Add(string(src))
	}
	f.Add(`{"apiserver": "[::1]:1", "nodeLabels": "a=${b},%{if=x,\"=y", "nodeTaints": "a:NoSchedule,a=1:NoSchedule"}`)
	f.Add(`{"apiserver": "h:1", "listenInterface": "${x}", "k8s_version": 1e3, "resources": {"cpuRemained": "1"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		o := options()
		o.ReadPatches = func(string) ([]importer.PatchFile, error) {
			return []importer.PatchFile{{Name: "/p/kubeletconfiguration+merge.yaml", Text: []byte(text)}}, nil
		}
		r := importer.Import("fuzz.json", []byte(text), o)
		for _, d := range r.Diagnostics {
			if origin.CodeOf(d) == fault.Internal {
				t.Fatal(d.Detail)
			}
		}
	})
}

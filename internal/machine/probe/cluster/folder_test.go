package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
)

// writeFolder writes files by their names below a new folder.
func writeFolder(t *testing.T, files map[string]string) Folder {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o700))
	}
	return Folder(dir)
}

func TestFolderTrust(t *testing.T) {
	ca, other := demo.NewAuthority("a"), demo.NewAuthority("b")
	text := string(ca.CAPEM())
	for name, c := range table.YAML[map[string]struct {
		Text string
		Pins []string

		Discovery string
		Token     bool

		By   string
		Code fault.Code
		Why  string
	}](t, `
a CA: {text: '{text}', by: ca_file}
a CA for a discovery file: {text: '{text}', discovery: /d.conf, by: discovery_file}
a CA for a token: {text: '{text}', token: true, by: token}
a pinned CA: {text: '{text}', pins: ['{ca.CAHash}'], by: ca_cert_hashes}
pins of another CA: {text: '{text}', pins: ['{other.CAHash}'], code: cluster-untrusted, why: 'ca.crt: '}
no certificate: {text: hello, code: cluster-unusable, why: ca.crt contains no certificate}
no file: {code: absent, why: 'ca.crt: no such file or directory'}
`, "text", text, "ca.CAHash", ca.CAHash(), "other.CAHash", other.CAHash()) {
		files := map[string]string{}
		if c.Text != "" {
			files["ca.crt"] = c.Text
		}
		got, err := writeFolder(t, files).ReadTrust(tape.Access{
			Servers: []string{"a:6443"}, CACertHashes: c.Pins, DiscoveryFile: c.Discovery, TrustToken: c.Token,
		})
		if fault.CodeOf(err) != c.Code || err != nil && !strings.Contains(err.Error(), c.Why) {
			t.Errorf("%s: got %v, want code %q: %s", name, err, c.Code, c.Why)
		}
		if err != nil {
			continue
		}
		isSame := got.PEM == c.Text && got.Hash == ca.CAHash() && slices.Equal(got.Servers, []string{"a:6443"})
		if !isSame || got.VerifiedBy != c.By || got.Assumed != (c.Pins == nil) {
			t.Errorf("%s: got %+v, want the CA with pin %s by %s, assumed without pins", name, got, ca.CAHash(), c.By)
		}
	}
}

// TestFolderConfigMap returns a ConfigMap only under the name that is in its metadata, if there is one.
func TestFolderConfigMap(t *testing.T) {
	configMap := func(metadata string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {" + metadata + "}\ndata: {kubelet: x}\n"
	}
	d := writeFolder(t, map[string]string{
		"kube-system/right.yaml":  configMap("name: right, namespace: kube-system, resourceVersion: '7'"),
		"kube-system/bare.yaml":   configMap(""),
		"kube-system/json.json":   `{"kind":"ConfigMap","data":{"kubelet":"x"}}`,
		"kube-system/both.yaml":   configMap("name: both"),
		"kube-system/both.json":   "broken",
		"kube-system/other.yaml":  configMap("name: kubelet-config, namespace: kube-system"),
		"kube-system/moved.json":  `{"kind":"ConfigMap","metadata":{"name":"moved","namespace":"default"},"data":{}}`,
		"kube-system/secret.yaml": "kind: Secret\nmetadata: {name: secret}\n",
		"kube-system/broken.yaml": "{",
		"kube-system/number.yaml": "kind: ConfigMap\ndata:\n  kubelet: x\n  max: 5\n",
		"kube-system/typo.yaml":   "kind: ConfigMap\n# a comment\nmetadata:\n  nmae: typo\ndata: {kubelet: x}\n",
		"kube-system/two.yaml":    configMap("name: two") + "---\n" + configMap("name: three"),
		"kube-system/twice.json":  `{"kind":"ConfigMap","data":{}}` + "\n" + `{"kind":"ConfigMap","data":{"kubelet":"y"}}`,
		"kube-system/large.yaml":  configMap("name: large") + "#" + strings.Repeat("x", 3<<20),
	})

	for name, c := range table.YAML[map[string]struct {
		Version string
		Code    fault.Code
		Why     string
	}](t, `
right: {version: '7'}
bare: {}
json: {}
both: {}
other: {code: cluster-unusable,
  why: 'other.yaml:3:12: it contains the ConfigMap kube-system/kubelet-config, not kube-system/other;'}
moved: {code: cluster-unusable,
  why: 'moved.json:1:48: it contains the ConfigMap default/moved, not kube-system/moved;'}
secret: {code: cluster-unusable, why: 'secret.yaml:1:1: this is not a ConfigMap: its kind is Secret'}
broken: {code: cluster-unusable, why: 'broken.yaml:1: not YAML: did not find expected node content'}
number: {code: cluster-unusable, why: 'number.yaml:4:3: data.max is the number 5; Write a text, in double quotes'}
typo: {code: cluster-unusable, why: 'typo.yaml:4:3: unknown name "nmae" in metadata; Did you mean "name"?'}
two: {code: cluster-unusable, why: 'two.yaml:6: a second document begins'}
twice: {code: cluster-unusable, why: 'twice.json:2: a second document begins'}
large: {code: cluster-unusable, why: 'large.yaml: it has more than 2097152 bytes'}
none: {code: absent, why: '{d}/kube-system/none.yaml or '}
`, "d", string(d)) {
		got, err := d.ReadConfigMap("kube-system", name)
		if fault.CodeOf(err) != c.Code || err != nil && !strings.Contains(err.Error(), c.Why) {
			t.Errorf("%s: got %v, want code %q: %s", name, err, c.Code, c.Why)
		}
		if err == nil && (got.ResourceVersion != c.Version || got.Data["kubelet"] != "x") {
			t.Errorf("%s: got %+v, want version %q and its data", name, got, c.Version)
		}
	}
}

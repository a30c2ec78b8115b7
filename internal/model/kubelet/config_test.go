package kubelet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func mustConfig(t testing.TB, text string) *Config {
	t.Helper()
	c, err := ParseConfig(text)
	must(t, err)
	return c
}

const braces = `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"}`

func TestParseConfigRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":               {"", "null"},
		"a list":              {"- a\n", "list"},
		"no kind":             {"apiVersion: kubelet.config.k8s.io/v1beta1\n", "kind is missing"},
		"no apiVersion":       {"kind: KubeletConfiguration\n", "apiVersion is missing"},
		"another kind":        {"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Config\n", "want KubeletConfiguration"},
		"another version":     {"apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n", "v1beta1"},
		"no YAML":             {header + "a: [\n", "invalid YAML"},
		"two documents":       {header + "---\nkind: x\n", "second document"},
		"behind the end":      {header + "...\nkind: x\n", "second document"},
		"behind braces":       {braces + " x", "line 1: a second document"},
		"twice in braces":     {"# c\n" + braces + "\n\n" + braces, "line 4: a second document"},
		"as JSON and YAML":    {"---\n" + braces + "\na: 1\n", "line 3: a second document"},
		"an alias of nothing": {header + "b: *a\n", "unknown anchor"},
		"deep":                {header + "a: " + strings.Repeat("[", 1010) + strings.Repeat("]", 1010) + "\n", "deeper than 1000"},
		"large":               {header + "#" + strings.Repeat("x", maxConfigBytes), "the limit is"},
		"a long name":         {header + strings.Repeat("x", 161) + ": 1\n", "160 bytes"},
		"a name of YAML":      {header + "a: {\"<<\": {b: 1}}\n", "a merge key"},
		"tab":                 {header + "\ta: 1\n", "invalid YAML"},
	} {
		if _, err := ParseConfig(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q in it", name, err, c.says)
		}
	}
}

func TestParseConfigReads(t *testing.T) {
	for _, text := range []string{
		header, "---\n" + header, "# c\n--- \n" + header + "---\n# nothing\n", header + "...\n",
		`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"}`,
		header + "allowedUnsafeSysctls: ['kernel.shm*', \"*net\", net.*]\n",
		"# c\n" + braces + " # c\n...\n",
		"{apiVersion: kubelet.config.k8s.io/v1beta1,\nkind: KubeletConfiguration}\n---\n",
		header + "# Q&A, a *word*, &x\na: 1\n",
	} {
		if _, err := ParseConfig(text); err != nil {
			t.Errorf("%q: got %v, want it to be parsed", text, err)
		}
	}
}

// TestParseConfigAsTheKubelet has what a kubelet v1.36.3 takes, and what it makes of it.
func TestParseConfigAsTheKubelet(t *testing.T) {
	asJSON := `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration",`
	for name, c := range map[string]struct {
		text, want string
		repeated   int
	}{
		"a key twice":        {header + "maxPods: 1\nmaxPods: 2\n", `{"maxPods":2}`, 1},
		"an inner key twice": {header + "kubeReserved: {cpu: '1', cpu: '2'}\n", `{"kubeReserved":{"cpu":"2"}}`, 1},
		"an object twice":    {header + "kubeReserved: {cpu: '1'}\nkubeReserved: {memory: '2'}\n", `{"kubeReserved":{"memory":"2"}}`, 1},
		"an alias":           {header + "kubeReserved: &r {cpu: '1'}\nsystemReserved: *r\n", `{"kubeReserved":{"cpu":"1"},"systemReserved":{"cpu":"1"}}`, 0},
		"a merge key": {header + "kubeReserved: &r {cpu: '1'}\nsystemReserved:\n  <<: *r\n  memory: " +
			"'2'\n", `{"kubeReserved":{"cpu":"1"},"systemReserved":{"cpu":"1","memory":"2"}}`, 0},
		"JSON, a surrogate": {asJSON + `"providerID":"\ud83d\ude00"}`, `{"providerID":"😀"}`, 0},
		"JSON, a key twice": {asJSON + `"maxPods":1,"maxPods":2}`, `{"maxPods":2}`, 1},
		"JSON, an object twice": {asJSON + `"kubeReserved":{"cpu":"1","memory":"1"},"kubeReserved":{"memory":"2"}}`,
			`{"kubeReserved":{"cpu":"1","memory":"2"}}`, 1},
		"more than a MiB": {header + "#" + strings.Repeat("x", 1<<20) + "\nmaxPods: 5\n", `{"maxPods":5}`, 0},
	} {
		config, err := ParseConfig(c.text)
		if err != nil {
			t.Errorf("%s: got %v, want it to be read", name, err)
			continue
		}
		doc := config.Object()
		delete(doc, "apiVersion")
		delete(doc, "kind")
		if got := string(encodeJSON(doc)); got != c.want || len(config.Repeated()) != c.repeated {
			t.Errorf("%s: got %s, repeated %q; want %s, %d", name, got, config.Repeated(), c.want, c.repeated)
		}
	}
}

// An alias bomb is refused before it is written out.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString(header + "a: &a " + strings.Repeat("x", 500000) + "\nb: [" + strings.Repeat("*a,", 90000) + "*a]\n")
	if _, err := ParseConfig(b.String()); err == nil || !strings.Contains(err.Error(), "aliases expand to more than") {
		t.Fatalf("got %v, want aliases to be bounded", err)
	}
}

func TestConfigNumbersStayExact(t *testing.T) {
	c := mustConfig(t, header+"maxOpenFiles: 9007199254740993\npodPidsLimit: -1\nmemoryThrottlingFactor: 0.9\n")
	for pointer, want := range map[string]string{"/maxOpenFiles": "9007199254740993", "/podPidsLimit": "-1", "/memoryThrottlingFactor": "0.9"} {
		if got, _ := c.Get(pointer); got != json.Number(want) {
			t.Errorf("%s is %v (%T), want %s", pointer, got, got, want)
		}
	}
	big54, _ := new(big.Int).SetString("9007199254740993", 10)
	for _, v := range []any{int64(9007199254740993), uint64(9007199254740993), big54, new(big.Float).SetPrec(100).SetInt(big54), json.Number("9007199254740993")} {
		must(t, c.Set([]string{"x"}, v))
		if !strings.Contains(string(c.Canonical()), "x: 9007199254740993\n") ||
			!strings.Contains(string(encodeJSON(c.doc)), `"x":9007199254740993`) {
			t.Errorf("%T: got %s, want 9007199254740993", v, c.Canonical())
		}
	}
}

func TestConfigGetSet(t *testing.T) {
	c := mustConfig(
		t,
		header+"kubeReserved: {cpu: 100m}\nclusterDNS: [10.0.0.10]\nevictionHard: {a/b: 1%, 'c~d': 2%}\nmaxPods: 5\n",
	)
	for pointer, want := range map[string]any{
		"/kubeReserved/cpu": "100m", "/clusterDNS/0": "10.0.0.10", "/evictionHard/a~1b": "1%", "/evictionHard/c~0d": "2%", "/maxPods": json.Number("5"),
	} {
		if got, ok := c.Get(pointer); !ok || got != want {
			t.Errorf("%s: got %v, %v; want %v", pointer, got, ok, want)
		}
	}
	for _, pointer := range []string{"/no", "/kubeReserved/memory", "/clusterDNS/1", "/clusterDNS/-1", "/clusterDNS/00", "/clusterDNS/x", "/maxPods/x", "maxPods", "/"} {
		if got, ok := c.Get(pointer); ok {
			t.Errorf("%s: got %v, want no value", pointer, got)
		}
	}
	object, _ := c.Get("/kubeReserved")
	object.(map[string]any)["cpu"] = "changed"
	if got, _ := c.Get("/kubeReserved/cpu"); got != "100m" {
		t.Error("Get gave out the document itself")
	}
	must(t, c.Set([]string{"authentication", "x509", "clientCAFile"}, "/ca"))
	must(t, c.Set([]string{"kubeReserved", "cpu"}, nil))
	must(t, c.Set([]string{"a", "b"}, nil))
	want := header[:strings.Index(header, "kind")] + `authentication:
  x509:
    clientCAFile: /ca
clusterDNS:
- 10.0.0.10
evictionHard:
  a/b: 1%
  c~d: 2%
kind: KubeletConfiguration
kubeReserved: {}
maxPods: 5
`
	if got := string(c.Canonical()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, bad := range []struct {
		path  []string
		value any
	}{{[]string{"maxPods", "x"}, 1}, {nil, 1}, {[]string{"x"}, struct{}{}}, {[]string{"x"}, "\xff"}, {[]string{"x"}, json.Number("1x")}} {
		if err := c.Set(bad.path, bad.value); err == nil {
			t.Errorf("Set(%q, %v): got no error, want one", bad.path, bad.value)
		}
	}
	if got := string(c.Canonical()); got != want {
		t.Errorf("after a rejected Set: got\n%s\nwant the document unchanged", got)
	}
}

// The examples of RFC 7386, appendix A, as far as the target is an object, below one field.
func TestConfigMerge(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Target, Patch, Want string }](t, `
- {target: '{"a":"b"}', patch: '{"a":"c"}', want: '{"a":"c"}'}
- {target: '{"a":"b"}', patch: '{"b":"c"}', want: '{"a":"b","b":"c"}'}
- {target: '{"a":"b"}', patch: '{"a":null}', want: '{}'}
- {target: '{"a":"b","b":"c"}', patch: '{"a":null}', want: '{"b":"c"}'}
- {target: '{"a":["b"]}', patch: '{"a":"c"}', want: '{"a":"c"}'}
- {target: '{"a":"c"}', patch: '{"a":["b"]}', want: '{"a":["b"]}'}
- {target: '{"a":{"b":"c"}}', patch: '{"a":{"b":"d","c":null}}', want: '{"a":{"b":"d"}}'}
- {target: '{"a":[{"b":"c"}]}', patch: '{"a":[1]}', want: '{"a":[1]}'}
- {target: '["a","b"]', patch: '["c","d"]', want: '["c","d"]'}
- {target: '{"a":"b"}', patch: '["c"]', want: '["c"]'}
- {target: '{"a":"foo"}', patch: '"bar"', want: '"bar"'}
- {target: '{"e":null}', patch: '{"a":1}', want: '{"a":1,"e":null}'}
- {target: '[1,2]', patch: '{"a":"b","c":null}', want: '{"a":"b"}'}
- {target: '{}', patch: '{"a":{"bb":{"ccc":null}}}', want: '{"a":{"bb":{}}}'}
`) {
		config := mustConfig(t, header+"x: "+c.Target+"\n")
		var patch any
		must(t, json.Unmarshal([]byte(c.Patch), &patch))
		must(t, config.Merge(map[string]any{"x": patch}))
		got, _ := config.Get("/x")
		if string(encodeJSON(got)) != c.Want {
			t.Errorf("%s with %s: %s, want %s", c.Target, c.Patch, encodeJSON(got), c.Want)
		}
	}
	config := NewConfig()
	before := string(encodeJSON(config.doc))
	if err := config.Merge(map[string]any{"a": 1, "b": make(chan int)}); err == nil ||
		string(encodeJSON(config.doc)) != before {
		t.Errorf("Merge of a value that JSON does not have: got %v, %s; want an error and no change",
			err, encodeJSON(config.doc))
	}
	patch := map[string]any{"list": []any{"a"}}
	must(t, config.Merge(patch))
	patch["list"].([]any)[0] = "changed"
	if got, _ := config.Get("/list/0"); got != "a" {
		t.Error("the document shares the patch's memory")
	}
}

// A configuration as kubeadm uploads it comes back as a document, and its canonical form is known.
func TestCanonicalGolden(t *testing.T) {
	for _, name := range []string{"kubeadm", "production"} {
		text := osfile.Read(t, "testdata/config/"+name+".yaml")
		want := osfile.Read(t, "testdata/config/"+name+".canonical")
		c := mustConfig(t, string(text))
		if got := string(c.Canonical()); got != string(want) {
			t.Errorf("%s: got\n%s\nwant the golden text", name, got)
		}
		checkRoundTrip(t, c)
	}
}

// checkRoundTrip reads what Canonical and JSON print; both must be the same document again.
func checkRoundTrip(t testing.TB, c *Config) {
	t.Helper()
	for _, printed := range [][]byte{c.Canonical(), encodeJSON(c.doc)} {
		again, err := ParseConfig(string(printed))
		if err != nil {
			t.Fatalf("got %v, want no error for\n%s", err, printed)
		}
		if string(encodeJSON(again.doc)) != string(encodeJSON(c.doc)) {
			t.Fatalf("got %s to become %s, want it unchanged by way of\n%s",
				encodeJSON(c.doc), encodeJSON(again.doc), printed)
		}
		if string(again.Canonical()) != string(c.Canonical()) {
			t.Fatalf("got another text at the second time, want it stable:\n%s\n%s", c.Canonical(), again.Canonical())
		}
	}
}

// Canonical writes what JSON of the document gives as YAML, which is how Kubernetes writes it, and is read back.
func TestCanonicalIsJSON(t *testing.T) {
	texts := []any{"", "a", "yes", "No", "true", "y", "~", "null", "1", "1e3", "0x1", "0x10", ".inf", "1:30", "12:30:45", "2001-01-01", "a: b",
		"- a", "#x", "a #b", "é", "\n", "a\nb\n", "c\nd", " a", "b ", "\t", "\x01", "\u0085", "\u2028", "\ufeff", "\ufffe", "\u007f", "\u009f",
		"\U0001f600", "\ue000cred:x\ue001", "\"", "'", "'\"", "\\", "a/b.c-d_e", "=", "<<x", "!x", "&x", "*x", "%x", "@x", "`x", "---", "..."}
	numbers := []any{json.Number("0"), json.Number("-0"), json.Number("-1"), json.Number("1.50"), json.Number("1e5"), json.Number("1E-7"),
		json.Number("9223372036854775808"), json.Number("18446744073709551615"), json.Number("18446744073709551616"),
		json.Number("-9223372036854775809")}
	keys, nested := map[string]any{}, []any{[]any{}, map[string]any{}, nil, true}
	for _, s := range texts {
		keys["k"+s.(string)] = s
		nested = append(nested, []any{s, map[string]any{s.(string): []any{}}}, map[string]any{"a": s, "b": map[string]any{"c": s}})
	}
	c := NewConfig()
	maps.Copy(c.doc, map[string]any{
		"texts": texts, "numbers": numbers, "null": nil, "~": true, "empty": map[string]any{}, "none": []any{}, "keys": keys,
		"nested": nested, "merge": "<<",
	})

	want, err := yaml.JSONToYAML(encodeJSON(c.doc))
	if got := c.Canonical(); err != nil || string(got) != string(want) {
		t.Errorf("got\n%s\nwant, %v,\n%s", got, err, want)
	}
	delete(c.doc, "numbers") // some are written in another way once they were read
	checkRoundTrip(t, c)
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

// The kubelet needs the digits of a whole number in the JSON of its file. prelet writes the base again.
func TestWholeNumbers(t *testing.T) {
	for number, want := range map[string]string{
		"64": "64", "64.0": "64", "1e2": "100", "-2.0": "-2", "64.5": "64.5", "1e99": "1e99", "9007199254740993": "9007199254740993",
	} {
		text := `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":` + number + `}`
		base, err := ParseConfig(text)
		must(t, err)
		if got, _ := base.Get("/maxPods"); fmt.Sprint(got) != want {
			t.Errorf("%s in the base: got %v; want %s", number, got, want)
		}
		dropIn, err := ParseDropIn(text)
		must(t, err)
		if got, _ := dropIn.Get("/maxPods"); fmt.Sprint(got) != want {
			t.Errorf("%s in a drop-in: got %v; want %s", number, got, want)
		}
		file, err := ParseConfigFile(text)
		must(t, err)
		if got, _ := file.Get("/maxPods"); fmt.Sprint(got) != number {
			t.Errorf("%s in a file: got %v; want it as it is", number, got)
		}
	}
}

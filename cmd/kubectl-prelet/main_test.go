package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// These are the Nodes of the API server, as it returns them.
var apiNodes = map[string]string{
	"n1": `{"kind":"Node","metadata":{"name":"n1","annotations":{"prelet.github.io/generation":"7","prelet.github.io/plan":` +
		`"sha256:0123456789abcdef0123","prelet.github.io/revision":"v2","prelet.github.io/site":"sha256:5555555555555555","prelet.github.io/ring":"one",` +
		`"prelet.github.io/waits":"drain: it has pods","prelet.github.io/degraded":` +
		`"[{\"code\":\"stale\",\"summary\":\"ConfigMap x is of an earlier boot\\u001b[2J\"}]"},` +
		`"managedFields":[{"manager":"prelet","time":"2026-01-02T03:04:05Z","fieldsV1":` +
		`{"f:metadata":{"f:annotations":{"f:prelet.github.io/generation":{}}}}}]},"spec":{"unschedulable":true},` +
		`"status":{"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1.37.1"}}}`,
	"n2": `{"kind":"Node","metadata":{"name":"n2"},"status":{"conditions":[{"type":"Ready","status":"Unknown",` +
		`"message":"Kubelet stopped posting node status."},{"type":"example.com/Checked","status":"True",` +
		`"reason":"StaleSite","message":"healthy; no look for a site has succeeded yet"}]}}`,
	"n3": `{"kind":"Node","metadata":{"name":"n3","annotations":{"prelet.github.io/generation":"4","prelet.github.io/plan":` +
		`"sha256:aaaa","prelet.github.io/revision":"v1","prelet.github.io/site":"sha256:bbbb",` +
		`"prelet.github.io/ring":"canary"}},"status":{"conditions":[{"type":"Ready","status":"True"},` +
		`{"type":"example.com/Checked","status":"True","reason":"StaleSite","message":"the kubelet is healthy, and all ` +
		`checks of the site hold; no look for a site has succeeded since 2026-01-01T09:00:00Z (oci://r.example/gpu:one)"},` +
		`{"type":"example.com/Other","status":"True","reason":"Other","message":"no look for a site has succeeded"}]}}`,
	"n4": `{"kind":"Node","metadata":{"name":"n4","annotations":{"prelet.github.io/generation":"x"}}}`,
}

// serveNodes is an API server with two pages of Nodes.
func serveNodes(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes"), "/")
		one, ok := apiNodes[name]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case ok:
			fmt.Fprint(w, one)
		case name != "":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,`+
				`"message":"no node %s"}`, name)
		case r.URL.Query().Get("labelSelector") == "wave=1":
			fmt.Fprintf(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[%s]}`, apiNodes["n3"])
		case r.URL.Query().Get("labelSelector") == "wave=typo":
			fmt.Fprint(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[]}`)
		case r.URL.Query().Get("continue") == "":
			fmt.Fprintf(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"more"},"items":[%s,%s]}`, apiNodes["n1"], apiNodes["n2"])
		default:
			fmt.Fprintf(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[%s,%s]}`, apiNodes["n3"], apiNodes["n4"])
		}
	}))
	t.Cleanup(s.Close)

	return s
}

// runPlugin runs a command line against a server.
func runPlugin(t *testing.T, s *httptest.Server, args ...string) (stdout, stderr string, err error) {
	t.Helper()

	return runCommand(t, append(args, "--server", s.URL)...)
}

// runCommand runs a command line without a kubeconfig.
func runCommand(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out, messages bytes.Buffer
	cmd := newCommand(&out, &messages)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())

	return out.String(), messages.String(), err
}

func TestList(t *testing.T) {
	s := serveNodes(t)
	const head = "NODE   STATUS                     GENERATION   PLAN           REVISION   DEGRADED\n"
	for _, c := range []struct {
		args, want, summary string
	}{
		{"", head +
			"n2     NotReady                   -            -              -          no report\n" +
			"n3     Ready                      4            aaaa           v1         -\n" +
			"n4     Unknown                    -            -              -          report is damaged\n" +
			"n1     Ready,SchedulingDisabled   7            0123456789ab   v2         stale\n",
			"nodes: 4, degraded: 1, without a report: 1, with a damaged report: 1, with a site that waits: 1, with a stale site: 2, revision v1: 1, revision v2: 1\n"},
		{"--selector wave=1",
			"NODE   STATUS   GENERATION   PLAN   REVISION   DEGRADED\n" +
				"n3     Ready    4            aaaa   v1         -\n",
			"nodes: 1, degraded: 0, with a stale site: 1, revision v1: 1\n"},
		{"-l wave=1 --degraded", "", "nodes: 1, degraded: 0, with a stale site: 1, revision v1: 1\n"},
		{"-l wave=typo --degraded", "",
			`No node has the labels "wave=typo": kubectl get nodes --show-labels lists them.` + "\n"},
		{"-l wave=1 -o wide",
			"NODE   STATUS   GENERATION   PLAN   REVISION   DEGRADED   KUBELET   CHANGED   SITE   RING     WAITS   STALE\n" +
				"n3     Ready    4            aaaa   v1         -          -         -         bbbb   canary   -       yes\n",
			"nodes: 1, degraded: 0, with a stale site: 1, revision v1: 1\n"},
	} {
		out, summary, err := runPlugin(t, s, strings.Fields(c.args)...)
		if out != c.want || summary != c.summary || err != nil {
			t.Errorf("%s: got %v\n%s%swant\n%s%s", c.args, err, out, summary, c.want, c.summary)
		}
	}

	out, _, err := runPlugin(t, s, "--degraded", "-o", "json")
	var d document
	if json.Unmarshal([]byte(out), &d) != nil || err != nil || len(d.Nodes) != 2 || d.Nodes[0].Problem == "" ||
		d.Nodes[1].Report.Generation != 7 || d.Nodes[1].Report.Degraded[0].Code != "stale" {
		t.Errorf("-o json: got %v\n%s\nwant n4 with a damaged report, n1 with generation 7, degraded by stale", err, out)
	}
	var same document
	out, _, err = runPlugin(t, s, "--degraded", "-o", "yaml")
	if yaml.Unmarshal([]byte(out), &same) != nil || err != nil || !cmp.Equal(d, same) {
		t.Errorf("-o yaml: got %v\n%s\nwant the document of -o json", err, out)
	}
}

func TestShow(t *testing.T) {
	s := serveNodes(t)
	for args, want := range table.YAML[map[string][]string](t, `
n1: ["generation  7\n", "site        sha256:5555555555555555\n", "ring        one\n", "waits       drain: it has pods\n", "revision    v2\n", "stale: ConfigMap x is of an earlier boot?[2J\n", "explain code/stale\n", '2026']
show n2: ['NotReady: Kubelet stopped posting', "stale site  healthy; no look for a site has succeeded yet\n", 'report      none: the site has no annotations {}', prelet status]
show n3: ["degraded    no\n", "stale site  the kubelet is healthy, and all checks of the site hold; no look for a site has succeeded since 2026-01-01T09:00:00Z (oci://r.example/gpu:one)\n"]
n4: ['annotation prelet.github.io/generation is "x", not the number of a generation']
`) {
		out, _, err := runPlugin(t, s, strings.Fields(args)...)
		for _, part := range want {
			if err != nil || !strings.Contains(out, part) {
				t.Errorf("%s: got %v\n%s\nwant text with %q", args, err, out, part)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	s := serveNodes(t)
	for args, want := range table.YAML[map[string]string](t, `
n9: 'cannot get node n9 at {s.URL}: no node n9'
../secret: invalid node name "../secret"
..: invalid node name ".."
-o toml: 'invalid -o "toml": the formats are json, yaml and wide'
n1 n2: accepts at most 1 arg
n1 --degraded: NODE excludes --selector and --degraded
n1 -l wave=1: NODE excludes --selector and --degraded
--as a --as-user-extra b: want KEY=VALUE
`, "s.URL", s.URL) {
		out, _, err := runPlugin(t, s, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: got %v, %q; want an error with %q and no output", args, err, out, want)
		}
	}
}

// statusText returns the error of an API server as JSON.
func statusText(reason, message string) string {
	text, err := json.Marshal(map[string]string{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
	})
	if err != nil {
		panic(err)
	}

	return string(text)
}

// Responses that are not a list of Nodes are errors: an empty list would be read as "nothing is degraded".
func TestOtherResponses(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		body, want string
	}{
		"object":    {200, `{}`, "the response is not of an API server"},
		"null":      {200, `null`, "the response is not of an API server"},
		"status":    {200, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"x"}`, "x"},
		"portal":    {200, `<html>`, "invalid character '<'"},
		"repeated":  {200, `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"x"}}`, "not of an API server"},
		"expired":   {410, statusText("Expired", "too old"), "too old"},
		"forbidden": {403, statusText("Forbidden", "no\x1b[2J"), "no?[2J. It needs the right to get and list nodes"},
		"gateway":   {502, `<html>`, "an error on the server"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				fmt.Fprint(w, c.body)
			}))
			defer s.Close()
			out, _, err := runPlugin(t, s, "-o", "json")
			if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
				t.Errorf("got %v, %q; want an error with %q and no output", err, out, c.want)
			}
			if out, _, err := runPlugin(t, s, "n1"); err == nil || out != "" {
				t.Errorf("one node: got no error, %q; want an error and no output", out)
			}
		})
	}
}

// podConfig is what client-go returns in a pod without a kubeconfig: the values of flags are not in it.
type podConfig struct {
	otherMethods

	host string
}

func (p podConfig) ClientConfig() (*rest.Config, error) { return &rest.Config{Host: p.host}, nil }

type otherMethods = clientcmd.ClientConfig

// The flag's timeout counts also in a pod.
func TestTimeoutInPod(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()

	o := listFlags{cluster: podConfig{host: silent.URL}, timeout: "50ms"}
	c, err := o.connect()
	must(t, err)
	if _, err := c.list(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("nodes of a silent API server: got %v, want an error with %q", err, "exceeded")
	}

	o.timeout = "soon"
	if _, err := o.connect(); err == nil || !strings.Contains(err.Error(), "--request-timeout") {
		t.Errorf("--request-timeout=soon: got %v, want an error with the flag", err)
	}
}

// Without a kubeconfig and without flags, client-go takes the configuration of the pod that it runs in, if it is in one.
func TestPodIsFound(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	config, err := addClusterFlags(pflag.NewFlagSet("", pflag.ContinueOnError)).ClientConfig()
	rules := clientcmd.ClientConfigLoadingRules{DefaultClientConfig: &clientcmd.DefaultClientConfig}
	if err != nil || !rules.IsDefaultConfig(config) {
		t.Errorf("got %+v, %v; want a configuration that client-go replaces in a pod", config, err)
	}
}

// Flags select the cluster and the user as those of kubectl do. Nothing is asked on standard input.
func TestConnectionFlags(t *testing.T) {
	var got http.Header
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, apiNodes["n1"])
	}))
	defer s.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"current-context": "gone",
		"clusters": [{"name": "here", "cluster": {"server": %q, "insecure-skip-tls-verify": true}},
			{"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}],
		"users": [{"name": "me", "user": {"token": "mine"}}],
		"contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "me"}},
			{"name": "here", "context": {"cluster": "here", "user": "me"}},
			{"name": "anonymous", "context": {"cluster": "here"}}]}`, s.URL)
	osfile.Write(t, kubeconfig, text, 0o600)

	for args, want := range map[string]map[string]string{
		"--context here":                                {"Authorization": "Bearer mine"},
		"--cluster here":                                {"Authorization": "Bearer mine"},
		"--context here --token other":                  {"Authorization": "Bearer other"},
		"--context anonymous":                           {"Authorization": ""},
		"--context anonymous --user me":                 {"Authorization": "Bearer mine"},
		"--context anonymous --username a --password b": {"Authorization": "Basic YTpi"},
		"--context here --as admin --as-group g --as-user-extra reason=audit --as-uid 7": {
			"Impersonate-User": "admin", "Impersonate-Group": "g", "Impersonate-Extra-Reason": "audit", "Impersonate-Uid": "7",
		},
	} {
		got = nil
		_, _, err := runCommand(t, append(strings.Fields(args), "--kubeconfig", kubeconfig, "n1")...)
		if err != nil {
			t.Errorf("%s: got %v, want no error", args, err)
		}
		for header, value := range want {
			if got.Get(header) != value {
				t.Errorf("%s: got the header %s %q, want %q", args, header, got.Get(header), value)
			}
		}
	}
}

func TestHidePassword(t *testing.T) {
	for server, want := range map[string]string{
		"https://10.0.0.1:6443":          "https://10.0.0.1:6443",
		"https://me:hunter2@proxy/k8s/1": "https://me:xxxxx@proxy/k8s/1",
		"https://me:hunter2@[":           "the API server",
	} {
		if got := hidePassword(server); got != want {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
}

// The annotations changed last when the latest of those who set them did.
func TestFindTime(t *testing.T) {
	entry := func(field, at string) metav1.ManagedFieldsEntry {
		when, err := time.Parse(time.RFC3339, at)
		must(t, err)
		fields := fmt.Sprintf(`{"f:metadata":{"f:annotations":{%q:{}}}}`, "f:"+field)

		return metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: when}, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	got := findTime([]metav1.ManagedFieldsEntry{
		entry(annotation.Generation, "2026-01-02T00:00:00Z"),
		entry(annotation.Generation, "2026-01-01T00:00:00Z"),
		entry("example.com/other", "2026-01-03T00:00:00Z"),
	})
	if want := "2026-01-02"; got == nil || got.Format(time.DateOnly) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Pages that expire while they are read are replaced by one page with all nodes.
func TestExpiredPages(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case query.Get("continue") != "":
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, statusText("Expired", "too old"))
		case query.Get("limit") != "":
			fmt.Fprintf(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"more"},"items":[%s]}`, apiNodes["n1"])
		default:
			fmt.Fprintf(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[%s,%s]}`, apiNodes["n1"], apiNodes["n3"])
		}
	}))
	defer s.Close()
	_, summary, err := runPlugin(t, s)
	if !strings.HasPrefix(summary, "nodes: 2,") || err != nil {
		t.Errorf("got %q, %v; want 2 nodes", summary, err)
	}
}

// Long values of one node do not widen the list of all others, and its codes are never part of a command to paste.
func TestLongAndHostileReports(t *testing.T) {
	long := strings.Repeat("é", 3000)
	wide := node{Name: "n1", Status: "Ready", Report: &annotation.Content{Plan: "sha256:" + long, Revision: "\u009b" + long}}
	var b bytes.Buffer
	must(t, printTable(&b, []node{wide}, false))
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)); n > 120 || !utf8.ValidString(line) || strings.Contains(line, "\u009b") {
			t.Errorf("got a line of %d characters, want at most 120, in UTF-8, without U+009B: %q", n, line)
		}
	}

	_, _, err := annotation.Parse(map[string]string{
		annotation.Generation: "1",
		annotation.Degraded:   `[{"code":"; rm -rf / #","summary":"x"}]`,
	})
	if err == nil || !strings.Contains(err.Error(), "invalid code") {
		t.Errorf("code with a command: got %v, want an error about an invalid code", err)
	}
}

// A table that could not be written is an error, also where the printer has nothing left to write at its end.
func TestTableIsNotWritten(t *testing.T) {
	readOnly, err := os.Open(os.DevNull)
	must(t, err)
	defer readOnly.Close()
	if err := printTable(readOnly, make([]node, 100), false); err == nil {
		t.Error("100 nodes to a file that is open for reading: got no error, want one")
	}
}

// TestInvisibleJSON: characters that control a terminal are escaped, and the JSON has the same text.
func TestInvisibleJSON(t *testing.T) {
	hostile := "a\u009b31m\u202eb\u2066c\u200bd\x7f"
	want := node{Name: "n1", Report: &annotation.Content{Revision: hostile}}
	var b bytes.Buffer
	must(t, new(listFlags).print(&b, document{Nodes: []node{want}}))
	var asYAML bytes.Buffer
	must(t, (&listFlags{output: "yaml"}).print(&asYAML, document{Nodes: []node{want}}))
	if both := b.String() + asYAML.String(); strings.ContainsAny(both, "\u009b\u202e\u2066\u200b\x7f") {
		t.Errorf("got %q, want invisible characters escaped", both)
	}

	var got document
	must(t, json.Unmarshal(b.Bytes(), &got))
	if got.Nodes[0].Report.Revision != hostile {
		t.Errorf("got revision %q, want %q", got.Nodes[0].Report.Revision, hostile)
	}
}

// The manifest names an archive with the program, by its checksum. `make check-krew` runs this test: building the tools
// for licences and bills of materials takes as long as many other tests.
func TestKrewManifest(t *testing.T) {
	if os.Getenv("PRELET_PACKAGES") == "" {
		t.Skip("builds archives; PRELET_PACKAGES=1 selects it")
	}
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "../../packaging/krew/build.sh", "v9.8.7", out)
	cmd.Env = append(os.Environ(), "KREW_PLATFORMS=linux/"+runtime.GOARCH)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: got %v, want no error\n%s", err, b)
	}

	text := osfile.Read(t, filepath.Join(out, "prelet.yaml"))
	var manifest krewPlugin
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("got %v\n%s\nwant the fields of a Plugin, for one platform", err, text)
	}
	if manifest.Spec.Version != "v9.8.7" {
		t.Errorf("version: got %q, want v9.8.7", manifest.Spec.Version)
	}
	for _, problem := range manifest.check() {
		t.Error(problem)
	}

	platform := manifest.Spec.Platforms[0]
	archive := filepath.Join(out, filepath.Base(platform.URI))
	content, err := os.ReadFile(archive)
	if sum := fmt.Sprintf("%x", sha256.Sum256(content)); err != nil || sum != platform.SHA256 {
		t.Errorf("%s: got %v and sha256 %s, want %s", archive, err, sum, platform.SHA256)
	}
	if b, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", out).CombinedOutput(); err != nil {
		t.Fatalf("tar: got %v, want no error\n%s", err, b)
	}
	b, err := exec.CommandContext(t.Context(), filepath.Join(out, platform.Bin), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(b), "v9.8.7") {
		t.Errorf("%s --version: got %v, %s; want v9.8.7", platform.Bin, err, b)
	}

	complete := exec.CommandContext(t.Context(), filepath.Join(out, "kubectl_complete-prelet"), "sh")
	complete.Env = append(os.Environ(), "PATH="+out+":"+os.Getenv("PATH"))
	if b, err := complete.Output(); err != nil || !strings.HasPrefix(string(b), "show\tShow the report of one node\n") {
		t.Errorf("completion of sh: got %q, %v; want show and its help", b, err)
	}
}

// TestKrewTemplate executes .krew.yaml as krew-release-bot does: its manifest is right, and has the archives of build.sh.
func TestKrewTemplate(t *testing.T) {
	text := osfile.Read(t, "../../.krew.yaml")
	const tag = "v9.8.7"
	addURIAndSha := func(uri, got string) string {
		if got != tag {
			t.Errorf("addURIAndSha: got the tag %q, want %q", got, tag)
		}
		return "uri: " + strings.ReplaceAll(uri, "{{ .TagName }}", got) + "\n    sha256: " + strings.Repeat("a", 64)
	}
	var made strings.Builder
	parsed, err := template.New("").Funcs(template.FuncMap{"addURIAndSha": addURIAndSha}).Parse(string(text))
	must(t, err)
	must(t, parsed.Execute(&made, map[string]string{"TagName": tag}))
	var manifest krewPlugin
	if err := yaml.UnmarshalStrict([]byte(made.String()), &manifest); err != nil {
		t.Fatalf("got %v\n%s\nwant the fields of a Plugin", err, &made)
	}
	for _, problem := range manifest.check() {
		t.Error(problem)
	}

	script := osfile.Read(t, "../../packaging/krew/build.sh")
	built := regexp.MustCompile(`KREW_PLATFORMS:-([^}]+)}`).FindStringSubmatch(string(script))
	var got []string
	for _, p := range manifest.Spec.Platforms {
		labels, bin := p.Selector.MatchLabels, "kubectl-prelet"
		if labels["os"] == "windows" {
			bin += ".exe"
		}
		archive := "/" + tag + "/kubectl-prelet-" + labels["os"] + "-" + labels["arch"] + ".tar.gz"
		if !strings.HasSuffix(p.URI, archive) || p.Bin != bin {
			t.Errorf("platform %v: got %s with %s, want %s with %s", labels, p.URI, p.Bin, archive, bin)
		}
		got = append(got, labels["os"]+"/"+labels["arch"])
	}
	if built == nil || strings.Join(got, " ") != built[1] {
		t.Errorf("platforms: got %q, want those of build.sh: %q", got, built)
	}
}

// krewPlugin has the fields of krew's manifest v1alpha2 that are used. krew refuses unknown fields.
type krewPlugin struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Metadata   struct{ Name string } `json:"metadata"`
	Spec       struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// check returns what krew's validation of manifests would refuse. Without files, krew installs the whole archive.
func (p krewPlugin) check() (problems []string) {
	want := func(isRight bool, what string, got any) {
		if !isRight {
			problems = append(problems, fmt.Sprintf("%s: got %q", what, got))
		}
	}

	want(p.APIVersion == "krew.googlecontainertools.github.com/v1alpha2", "want the API version of krew", p.APIVersion)
	want(p.Kind == "Plugin", "want the kind Plugin", p.Kind)
	want(p.Metadata.Name == "prelet", "want the name of the file", p.Metadata.Name)
	want(regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(p.Spec.Version), "want a semantic version", p.Spec.Version)
	want(p.Spec.ShortDescription != "", "want a short description", p.Spec.ShortDescription)
	want(!strings.Contains(p.Spec.ShortDescription, "\n"), "want one line", p.Spec.ShortDescription)
	for _, platform := range p.Spec.Platforms {
		labels := platform.Selector.MatchLabels
		want(len(labels) == 2 && labels["os"] != "" && labels["arch"] != "", "want os and arch", labels)
		want(regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(platform.SHA256), "want a sha256", platform.SHA256)
		want(regexp.MustCompile(`^https://.*\.(tar\.gz|zip)$`).MatchString(platform.URI), "want an archive", platform.URI)
		want(filepath.IsLocal(platform.Bin), "want a file of the archive", platform.Bin)
	}

	return problems
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

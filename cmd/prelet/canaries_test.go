package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/canary"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/sample"
)

// canaryPlace is a place of a node, of its site or of a command line where somebody may have put a secret.
type canaryPlace struct {
	name string
	// put puts a text there.
	put     func(b *canaryNode, text string)
	isSite  bool // the secret is in the text of the site, so validate refuses the site
	isEarly bool // it is there before the first boot
	isOther bool // a command that looks there reads no credential, and cannot know a copy of one
	// may hold it afterwards: paths below the root that have the secret because it was put there, or because the file is
	// made from it. A path that ends in / is a folder.
	may []string
}

// quoted returns a text as a literal of HCL, in one line.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

func inEachLine(text, prefix string) string {
	return prefix + strings.ReplaceAll(text, "\n", "\n"+prefix) + "\n"
}

// inSite returns a place in a file of the site. format has the text as a literal at %s.
func inSite(name, file, format string) canaryPlace {
	return canaryPlace{name: name, isSite: true, may: []string{file}, put: func(b *canaryNode, text string) {
		b.put(file, fmt.Sprintf(format, quoted(text)))
	}}
}

// inRefusedSite is inSite for a site that is refused before it reads a credential.
func inRefusedSite(name, file, format string) canaryPlace {
	place := inSite(name, file, format)
	place.isOther = true

	return place
}

// inNode returns a place in a file of the node.
func inNode(name, file string, mode fs.FileMode, write func(text string) string) canaryPlace {
	return canaryPlace{name: name, isEarly: true, may: []string{file}, put: func(b *canaryNode, text string) {
		b.put(file, write(text))
		b.must(os.Chmod(b.root+file, mode))
	}}
}

const (
	canarySite  = "/etc/prelet/canary.hcl"
	writtenFile = "/etc/written.conf"
	kubeadmHead = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"
	configHead  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
)

func canaryPlaces() []canaryPlace {
	asIs := func(text string) string { return text }
	comment := func(text string) string { return inEachLine(text, "# ") }

	return []canaryPlace{
		{name: "comment of the site", isSite: true, may: []string{canarySite}, put: func(b *canaryNode, text string) {
			b.put(canarySite, comment(text))
		}},
		inSite("literal", canarySite, "locals {\n  canary = %s\n}\n"),
		inSite("key of an object", canarySite, "locals {\n  canary = { %s = 1 }\n}\n"),
		inSite("default of a variable", canarySite, "variable \"canary\" {\n  default = %s\n}\n"),
		inSite("description", canarySite, "variable \"canary\" {\n  default = \"\"\n  description = %s\n}\n"),
		inRefusedSite("message of a rule", canarySite, "variable \"canary\" {\n  default = \"\"\n  validation {\n"+
			"    condition     = var.canary != \"\"\n    error_message = %s\n  }\n}\n"),
		inRefusedSite("label of the site", canarySite, "stage \"label\" \"c\" {\n  labels = { \"example.com/c\" = %s }\n}\n"),
		inSite("flag of the site", canarySite, inWrite("kubelet_flags {\n    flags = { \"node-ip\" = %s }\n  }")),
		inSite("setting of the site", canarySite, inWrite("kubelet_config {\n    patch = { providerID = %s }\n  }")),
		inSite("content of a file", canarySite, inWrite("file \"c\" {\n    path = \"/etc/c\"\n    content = %s\n  }")),
		inRefusedSite("wrong type", canarySite, "stage \"label\" \"c\" {\n  labels = %s\n}\n"),
		inRefusedSite("unfinished text", canarySite, "locals {\n  canary = %s ${\n}\n"),
		inRefusedSite("argument of a function", canarySite, "stage \"label\" \"c\" {\n  labels = {\n"+
			"    \"example.com/c\" = tonumber(%s)\n  }\n}\n"),
		inSite("lower layer", "/usr/lib/prelet/site/low.hcl", "locals {\n  canary = %s\n}\n"),
		inSite("vars file", "/etc/prelet/a.prelet.vars", "u = %s\n"),
		{
			name: "template", isSite: true, may: []string{"/etc/prelet/a.tftpl"},
			put: func(b *canaryNode, text string) { b.put("/etc/prelet/a.tftpl", text) },
		},
		{name: "--var", may: []string{writtenFile}, put: func(b *canaryNode, text string) {
			b.useVariable()
			b.vars = []string{"--var", "u=" + text}
		}},
		{
			name: "kernel command line", may: []string{"/proc/cmdline", writtenFile},
			put: func(b *canaryNode, text string) {
				b.useVariable()
				b.put("/proc/cmdline", "quiet \"prelet.var.u="+text+"\" x\n")
			},
		},
		{name: "credential of a variable", may: []string{writtenFile}, put: func(b *canaryNode, text string) {
			b.useVariable()
			b.credential("prelet.var.u", text)
		}},
		{
			name: "sensitive variable", may: []string{writtenFile},
			put: func(b *canaryNode, text string) {
				b.put(canarySite, "variable \"u\" {\n  sensitive = true\n}\n"+writes("x ${var.u}"))
				b.credential("prelet.var.u", text)
			},
		},
		{
			name: "credential in a file", may: []string{writtenFile},
			put: func(b *canaryNode, text string) {
				b.put(canarySite, writes("x ${credential(\"c\")}"))
				b.credential("c", text)
			},
		},
		{name: "mistaken argument", isOther: true, put: func(b *canaryNode, text string) { b.mistake = text }},
		{
			name: "file that the site reads", may: []string{"/etc/read", writtenFile},
			put: func(b *canaryNode, text string) {
				b.put("/etc/read", "x\n"+text+"\n")
				b.put(canarySite, writes("x ${file(\"/etc/read\")}"))
			},
		},
		{
			name: "ConfigMap", isEarly: true, may: []string{"/var/lib/kubelet/config.yaml"},
			put: func(b *canaryNode, text string) {
				more := "providerID: " + string(must(json.Marshal(text))) + "\n"
				if strings.HasPrefix(text, "staticPodURLHeader") {
					more = text + "\n"
				}
				b.server.SetConfigMap("kube-system", "kubelet-config", map[string]string{
					"kubelet": clusterConfig + more + comment(text),
				})
			},
		},
		{name: "response of the API server", put: func(b *canaryNode, text string) {
			b.retryBriefly()
			status := must(json.Marshal(map[string]any{
				"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": text,
			}))
			b.server.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
				answer := demo.BadResponse{
					Status: http.StatusForbidden, Header: map[string]string{"Content-Type": "application/json"}, Body: string(status),
				}
				return answer.Respond(w, r, n)
			}
		}},
		inNode("comment of the flags", "/etc/default/kubelet", 0o644, func(text string) string {
			return comment(text) + "KUBELET_EXTRA_ARGS=--v=2\n"
		}),
		inNode("private variable", "/etc/default/kubelet", 0o600, func(text string) string {
			return "OTHER=" + string(must(json.Marshal(text))) + "\nKUBELET_EXTRA_ARGS=--v=2\n"
		}),
		inNode("flag of the node", "/etc/default/kubelet", 0o644, func(text string) string {
			if !strings.HasPrefix(text, "--") || strings.HasPrefix(text, "---") {
				text = "--provider-id='" + strings.ReplaceAll(text, "'", "") + "'"
			}

			return "KUBELET_EXTRA_ARGS=\"--v=2 " + strings.NewReplacer(`\`, "", `"`, "", "\n", " ").Replace(text) + "\"\n"
		}),
		inNode("drop-in of the kubelet's configuration", "/etc/kubernetes/kubelet.conf.d/10-c.conf", 0o644,
			func(text string) string {
				if strings.HasPrefix(text, "staticPodURLHeader") {
					return configHead + text + "\n"
				}

				return configHead + comment(text) + "providerID: " + string(must(json.Marshal(text))) + "\n"
			}),
		inNode("file that the site replaces", "/etc/motd.site", 0o644, asIs),
		{
			name: "file that somebody changed", may: []string{"/etc/motd.site"},
			put: func(b *canaryNode, text string) { b.put("/etc/motd.site", "a\n"+text+"\n") },
		},
		{name: "kubeconfig", may: []string{"/etc/kubernetes/kubelet.conf"}, put: func(b *canaryNode, text string) {
			b.retryBriefly()
			b.put("/etc/kubernetes/kubelet.conf", "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user:\n    token: "+
				string(must(json.Marshal(text)))+"\n")
		}},
		inNode("name of the system", "/etc/os-release", 0o644, func(text string) string {
			return "ID=debian\nPRETTY_NAME=" + quoted(text) + "\n"
		}),
		{name: "file of kubeadm", isOther: true, may: []string{"/etc/join.yaml"}, put: func(b *canaryNode, text string) {
			b.put("/etc/join.yaml", comment(text)+kubeadmHead+"nodeRegistration:\n  kubeletExtraArgs:\n"+
				"  - name: provider-id\n    value: "+string(must(json.Marshal(text)))+"\n")
		}},
		{name: "log of the kubelet", isOther: true, put: func(b *canaryNode, text string) {
			b.kubeletLog = []string{"E0101 00:00:00.000000 1 x.go:1] \"command failed\" err=" + quoted(text)}
			b.sick = func() error { return errors.New("unhealthy: " + text) }
		}},
		{name: "kubelet's program", put: func(b *canaryNode, text string) {
			b.says = "E0101 00:00:00.000000 1 x.go:1] \"command failed\" err=" + quoted(text)
		}},
		{name: "status of the run folder", may: []string{"/status.json", "/metrics.prom"}, put: func(b *canaryNode, text string) {
			b.must(os.WriteFile(b.run+"/status.json", must(json.Marshal(map[string]any{"summary": text})), 0o644))
			b.must(os.WriteFile(b.run+"/metrics.prom", []byte("x{why="+quoted(text)+"} 1\n"), 0o644))
		}},
		{name: "answers of a recording", isOther: true, isEarly: true, put: func(b *canaryNode, text string) {
			b.rewrite = func(recording string) string {
				return strings.ReplaceAll(recording, "clusterDomain: cluster.local", "clusterDomain: cluster.local\\nproviderID: "+
					inJSON(string(must(json.Marshal(text)))))
			}
		}},
		{name: "site of a recording", isOther: true, isEarly: true, put: func(b *canaryNode, text string) {
			b.rewrite = func(recording string) string {
				return strings.Replace(recording, "cluster {", inJSON("locals {\n  canary = "+quoted(text)+"\n}\n")+"cluster {", 1)
			}
		}},
	}
}

// inJSON returns a text as it is inside of a text of JSON.
func inJSON(text string) string {
	b := must(json.Marshal(text))

	return string(b[1 : len(b)-1])
}

// inWrite returns a block of the stage that writes.
func inWrite(block string) string {
	return "override {\n  stage \"write\" \"kubelet\" {\n  " + block + "\n  }\n}\n"
}

// writes returns a block that writes a file with this content.
func writes(content string) string {
	return inWrite("file \"c\" {\n    path = \"" + writtenFile + "\"\n    content = \"" + content + "\\n\"\n  }")
}

// canaryNode is a node on which all commands are run.
type canaryNode struct {
	*testMachine
	dir     string   // of what commands write
	vars    []string // --var
	mistake string   // an argument where none belongs
	says    string   // by the kubelet's program
	rewrite func(recording string) string
}

// useVariable adds a variable, and a file and an item of the plan that are made from it.
func (b *canaryNode) useVariable() {
	b.put(canarySite, "variable \"u\" {}\nlocals {\n  u = var.u\n}\n"+writes("x ${local.u}"))
}

// retryBriefly is for a place that makes the cluster unusable.
func (b *canaryNode) retryBriefly() {
	b.site = strings.Replace(b.site, goodRetry, `"100ms"`, 1)
	b.put("/etc/prelet/site.hcl", b.site)
}

func (b *canaryNode) credential(name, text string) {
	b.t.Helper()
	b.must(os.WriteFile(filepath.Join(b.creds, name), []byte(text), 0o400))
}

func newCanaryNode(t *testing.T) *canaryNode {
	t.Helper()
	b := &canaryNode{testMachine: newMachine(t), dir: filepath.Join(t.TempDir(), "out")}
	b.site = strings.Replace(b.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "motd" {
    path    = "/etc/motd.site"
    content = "a\n"
  }
}`, 1)
	b.put("/etc/prelet/site.hcl", b.site)
	b.put("/etc/prelet/a.prelettest.hcl", "run \"all\" {\n  machine = \"machine\"\n  condition = local.canary == \"\"\n}\n")
	b.put("/etc/join.yaml", kubeadmHead)
	b.put("/etc/systemd/system/kubelet.service", "[Service]\nEnvironmentFile=-/etc/default/kubelet\n"+
		"ExecStart=/usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf $KUBELET_EXTRA_ARGS\n")
	b.must(errors.Join(
		os.Mkdir(b.dir, 0o755),
		hwtree.BuildFile("../../testdata/hardware/spec/bare-vm.json", filepath.Join(b.dir, "machine")),
		os.Symlink(filepath.Join(b.dir, "machine"), b.root+"/etc/prelet/machine"),
		os.WriteFile(filepath.Join(b.dir, "kubelet"), []byte(standInKubelet), 0o755),
		os.Mkdir(filepath.Join(b.dir, "fleet"), 0o755),
	))
	for _, k := range canary.Kinds() {
		if k.Name == "credential" {
			b.credential(canary.CredentialName, k.Text)
		}
	}

	return b
}

// standInKubelet keeps what it was started with, and prints what it is to say.
const standInKubelet = `#!/bin/sh
dir=${0%/*}
{ echo "$@"; env; } >>"$dir/started.log"
case $1 in
--version) echo Kubernetes v1.36.1 && exit ;;
--help) exit 1 ;;
esac
cat "$dir/says" >&2 2>/dev/null || echo 'E0101 00:00:00.000000 1 x.go:1] "command failed" err="cannot exit on lock file contention: no lock file specified"' >&2
exit 1
`

// canaryLine is a command line, of which @ is the folder for outputs.
type canaryLine = []string

// canaryLines are the command lines of each command. Each is also run with each format that it has. "VARS" are the
// values of variables.
func canaryLines() map[string][]canaryLine {
	items := []string{
		"label/example.com/pool", "file//etc/default/kubelet", "file/" + writtenFile, "file//etc/motd.site",
		"config/providerID", "config/staticPodURLHeader", "flag/provider-id", "flag/node-ip", "flag/manifest-url-header",
		"flag/storage-driver-password", "local/u", "local/canary", "var/u", "var/canary", "/var/lib/kubelet/config.yaml",
	}
	explained := []canaryLine{}
	for _, item := range items {
		explained = append(explained, canaryLine{item, "VARS"}, canaryLine{item, "--from", "@/a.prelet"})
	}

	return map[string][]canaryLine{
		"init":     {{"@/new", "--from-node", "--root", "ROOT"}},
		"site":     {{}},
		"validate": {{}, {"--strict"}, {"ROOT/etc/prelet", "--from", "@/fleet", "VARS"}},
		"graph":    {{}, {"--stages"}},
		"test":     {{"ROOT/etc/prelet", "--junit", "@/junit.xml"}},
		"fmt":      {{"--diff", "ROOT/etc/prelet"}, {"--check", "ROOT/etc/prelet"}},
		"schema":   {{}},
		"import": {{
			"ROOT/etc/join.yaml", "--server", "10.0.0.1:6443", "--ca-cert-hash", "PIN", "--out", "@/imported",
		}},
		"push": {{"ROOT/etc/prelet", "oci-layout:@/layout:t"}},
		"pull": {{"oci-layout:@/layout:t"}, {"oci-layout:@/layout:t", "@/pulled"}},
		"plan": {
			{"VARS"},
			{"--kubelet", "@/kubelet", "VARS"},
			{"--from", "@/a.prelet"},
			{"--from", "@/old.prelet"},
			{"--from", "@/old.prelet", "--config", "ROOT/etc/prelet", "VARS"},
			{"--from", "@/fleet", "--config", "ROOT/etc/prelet"},
			{"--from", "@/fleet", "--config", "ROOT/etc/prelet", "--against", "ROOT/etc/prelet", "-o", "json"},
		},
		"upgrade": {
			{"--to", "1.37", "--kubelet-version", "1.36", "VARS"},
			{"--to", "1.37", "--kubelet-version", "1.36", "--from", "@/old.prelet", "--config", "ROOT/etc/prelet"},
			{"--to", "1.37", "--kubelet-version", "1.36", "--from", "@/a.prelet", "--html", "@/upgrade.html"},
		},
		"explain": explained,
		"eval": {
			{"[node.flags, node.labels]", "VARS"},
			{"[try(var.u, 0), try(local.u, 0), try(local.canary, 0), try(var.canary, 0)]", "VARS"},
			{"file(\"/etc/motd.site\")"},
			{"local.canary"},
			{"[node.flags, node.labels]", "--from", "@/a.prelet"},
		},
		"console": {{"VARS"}, {"--from", "@/old.prelet"}},
		"doctor":  {{}},
		"detect":  {{"--hardware", "@/machine"}},
		"record":  {{"@/b.prelet", "VARS"}, {"@/b.prelet.gz", "VARS", "--with-identity"}},
		"report": {
			{"--html", "@/report.html", "VARS"},
			{"--from", "@/old.prelet", "--html", "@/old.html"},
			{"--from", "@/fleet", "--html", "@/fleet.html"},
		},
		"run":      {{"VARS"}},
		"status":   {{}, {"--long"}, {"--image"}},
		"history":  {{}},
		"rollback": {{"1"}, {"--release"}},
		"recover":  {{}},
		"verify":   {{}},
		"seal":     {{}},
		"bundle":   {{"@/bundle.tar.gz", "VARS"}},
		"version":  {{}},
		"help":     {{"run"}},
		"analyze":  {{}},
		"fleet":    {{}},

		"analyze blame": {{}},
		"analyze chain": {{}},
		"site verify":   {{"ROOT/etc/prelet", "--signers", "@/kubelet"}},
		"site sign": {{
			"ROOT/etc/prelet", "--key", "@/kubelet", "--name", "a", "--ring", "b", "--repository", "c.d/e",
			"--counter", "3", "--not-below", "2", "--expires", "2999-01-31T12:00:00Z",
		}},
		"site update":     {{}},
		"history show":    {{"1"}, {"2"}, {"3"}},
		"history diff":    {{"1", "2"}, {"2", "3"}},
		"fleet merge":     {{"@/0.json"}, {"@/0.json", "--html", "@/merged.html"}, {"@/0.json", "--fail-above", "5%"}},
		"detectors":       {{}},
		"detectors list":  {{"--long"}},
		"detectors check": {{"@/kubelet"}},
		"detectors lock":  {{"@/kubelet", "--out", "@"}},

		// They print what is compiled in, whatever the node has, or need systemd.
		"completion bash": {}, "completion fish": {}, "completion zsh": {}, "completion powershell": {}, "stopping": {},
		"check": {{}},

		"__complete": {
			{"explain", ""}, {"explain", "--from", "@/old.prelet", ""}, {"eval", "--config", "ROOT/etc/prelet", "local."},
		},
	}
}

// lines returns all command lines of all commands.
func (b *canaryNode) lines() (out []canaryLine) {
	b.t.Helper()
	all := canaryLines()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "prelet"), " ")
		if name == "" || !c.Runnable() {
			return
		}
		if all[name] == nil {
			b.t.Errorf("the command %q: got no line in canaryLines, want one", name)
		}
		for _, line := range all[name] {
			line = append(strings.Fields(name), line...)
			isHere := slices.Contains([]string{"run", "rollback", "recover", "status", "history"}, line[0])
			if c.Flags().Lookup("root") != nil && !isHere && !slices.Contains(line, "--from") && line[0] != "init" {
				line = append(line, "--root", "ROOT")
			}
			f := c.Flags().Lookup("output")
			isOther := func(word string) bool { return slices.Contains([]string{"-o", "--html"}, word) }
			if f == nil || slices.ContainsFunc(line, isOther) {
				out = append(out, line)
				continue
			}
			for _, format := range formatsOf(f.Usage) {
				if format != "markdown" || slices.Contains(line, "@/fleet") {
					out = append(out, append(slices.Clone(line), "-o", format))
				}
			}
		}
	}
	root := (&cli{getenv: os.Getenv}).root()
	root.InitDefaultHelpCmd()
	walk(root)
	for _, line := range all["__complete"] {
		out = append(out, append(canaryLine{"__complete"}, line...))
	}

	return out
}

// formatsOf returns the formats that the help of --output lists.
func formatsOf(usage string) (out []string) {
	for _, word := range strings.FieldsFunc(usage, func(r rune) bool { return r == ',' || r == ' ' || r == ':' }) {
		if word != "FORMAT" && word != "or" && !strings.HasPrefix(word, "(") && strings.ToLower(word) == word {
			out = append(out, word)
		}
	}

	return out
}

// TestCanaries puts a secret of each kind at each place, runs all commands, and finds the secret in no output, in no
// file that others may read, and in no command line of a child.
func TestCanaries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short is set, and each case runs all commands")
	}
	kinds := canary.Kinds()
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		searchCanary(t, canaryPlace{put: func(*canaryNode, string) {}}, canary.Kind{})
	})
	chosen := sample.New(t)
	for i, place := range canaryPlaces() {
		for j, kind := range kinds {
			name := place.name + "/" + kind.Name
			if place.isOther && kind.Name == "credential" {
				continue
			}
			if strings.HasPrefix(place.name, "label") && kind.Name == "bootstrap token" { // it may be a host
				continue
			}
			isDiagonal := j == i%(len(kinds)-1)  // the last one is not looked for everywhere
			if !isDiagonal && !sample.IsFull() { // each night
				continue
			}
			if sample.IsQuick() && !chosen.Has(8, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				searchCanary(t, place, kind)
			})
		}
	}
}

func searchCanary(t *testing.T, place canaryPlace, kind canary.Kind) {
	t.Helper()
	t.Cleanup(runtime.GC) // closes the files of all commands
	b := newCanaryNode(t)
	find := canary.NewFinder(kind.Hidden...)
	look := func(what string, text []byte) {
		t.Helper()
		if found := find.Find(text); found != "" {
			t.Errorf("%s: got a secret %s; want none", what, found)
		}
	}
	isFound := false
	ran := 0
	do := func(line ...string) ended {
		t.Helper()
		if ran++; ran%50 == 0 {
			runtime.GC()
		}
		got := b.runLine(line)
		b.closeState()
		what := fmt.Sprintf("prelet %q, %d", line, got.exit)
		// A command that does not read the credential cannot know that a person wrote its value elsewhere.
		readsNone := []string{"eval", "fmt", "validate", "graph", "test", "doctor", "seal", "fleet", "site"}
		hasRead := !slices.Contains(readsNone, line[0]) && !slices.Contains(line, "--from")
		if kind.Name != "credential" || hasRead {
			look(what, []byte(got.out))
			look(what+", stderr", []byte(got.errors))
		}
		mayMiss := slices.Contains([]string{"eval", "explain", "console"}, line[0]) // what it names
		if got.exit == fault.Usage.Exit() && kind.Text == "" && !mayMiss {
			t.Errorf("%s: got a wrong command line, want one that runs: %s", what, got.errors)
		}
		if line[0] == "validate" && got.exit == fault.Sensitive.Exit() {
			isFound = isFound || strings.Contains(got.errors, "credential(\"NAME\")")
		}

		return got
	}
	if place.isEarly {
		place.put(b, kind.Text)
	}
	b.searchBoot(look)
	got := do("record", "@/old.prelet", "--root", "ROOT")
	if got.exit != 0 && kind.Name == "credential" { // an answer with a copy of a credential is refused
		return
	}
	if got.exit != 0 {
		t.Fatalf("the first recording: got %+v, want 0", got)
	}
	b.rewriteOld()
	b.relabel("b")
	do("run")
	if !place.isEarly {
		place.put(b, kind.Text)
	}
	if b.says != "" {
		b.must(os.WriteFile(filepath.Join(b.dir, "says"), []byte(b.says), 0o600))
	}
	b.relabel("c")
	do("record", "@/a.prelet", "--root", "ROOT", "VARS")
	do("run", "VARS")
	shard := do("plan", "--from", "@/fleet", "--config", "ROOT/etc/prelet", "--shard", "0/1", "-o", "json")
	b.must(os.WriteFile(filepath.Join(b.dir, "0.json"), []byte(shard.out), 0o600))
	for _, line := range b.lines() {
		do(line...)
		if b.mistake != "" {
			do(append(slices.Clone(line), b.mistake)...)
			do(append(slices.Clone(line), "--"+b.mistake)...)
		}
	}
	b.reboot()
	b.searchBoot(look)
	if place.isSite && kind.Name != "credential" && kind.Text != "" && !isFound {
		t.Errorf("validate: got no error with the way by credential(), want one")
	}
	may := place.may
	if kind.Name == "credential" { // plans of a recording
		may = append(slices.Clone(may), "/0.json", "/merged.html")
	}
	b.searchFiles(may, look)
}

// TestCanariesOfVarsFiles writes the value of a sensitive variable into a vars file in the forms in which prelet cannot
// know that it is one, and finds it in no output of a command, and not in what a boot leaves: the journal, the files.
func TestCanariesOfVarsFiles(t *testing.T) {
	t.Parallel()
	const secret = "cAnary-of-vars-9"
	const file = "/etc/prelet/b.prelet.vars"
	find := canary.NewFinder(secret)
	cases := 0

	for _, form := range []string{
		"pw = %q\n", "pww = %q\n", "pw = \"x\"\npw = %q\n", "pw = \"%s\n", "pw = %s\"\n", "pw = '%s'\n", "pw: %s\n",
		"{ \"pw\": %q }\n", "export pw=%s\n", "PW=%s\n", "pw = \"%s\" \xff\n", "pw { value = %q }\n", "pw = <<EOT\n%s\n",
		"pw = <<%s\n", "pw %q {}\n", "# %s \x00\n",
		"pw { a { b = %q } }\n", "%s { a { b = 1 } }\n", "var.pw = %q\n", "pw = \"${if %s}\"\n", "pw = \"%%{ if %s }\"\n",
		"pw = \"%%{ %s }\"\n", "pw = 1.%s\n", "pw = credential(%s)\n",
	} {
		b := newCanaryNode(t)
		b.put(canarySite, "variable \"pw\" {\n  sensitive = true\n}\n")
		b.put(file, fmt.Sprintf(form, secret))
		look := func(what string, text []byte) {
			t.Helper()
			if found := find.Find(text); found != "" {
				t.Errorf("%q, %s: got a secret %s; want none: %s", form, what, found, text)
			}
		}
		for _, line := range []canaryLine{
			{"validate", "--root", "ROOT"}, {"validate", "--root", "ROOT", "-o", "json"}, {"validate", "ROOT/etc/prelet"},
			{"plan", "--root", "ROOT"}, {"plan", "--root", "ROOT", "-o", "json"}, {"site", "--root", "ROOT"},
			{"graph", "--root", "ROOT"}, {"eval", "1", "--root", "ROOT"}, {"explain", "var/pw", "--root", "ROOT"},
			{"record", "@/a.prelet", "--root", "ROOT"}, {"report", "--html", "@/a.html", "--root", "ROOT"},
			{"test", "ROOT/etc/prelet"}, {"test", "ROOT/etc/prelet", "-o", "json"}, {"fmt", "--check", "ROOT" + file},
			{"fmt", "--check", "ROOT" + file, "-o", "json"}, {"bundle", "@/bundle.tar.gz", "--root", "ROOT"}, {"run"},
			{"run", "-o", "json"}, {"status"}, {"status", "-o", "json"}, {"history"},
			{"plan", "--root", "ROOT", "--config", "ROOT/etc/prelet/site.hcl", "--var-file", "ROOT" + file},
		} {
			got := b.runLine(line)
			b.closeState()
			look(strings.Join(line, " "), []byte(got.out+got.errors))
			if isRefused := got.exit != 0; line[0] == "validate" && !isRefused {
				t.Errorf("%q: %q: got 0, want it refused", form, line)
			}
			cases++
		}
		b.searchBoot(look)
		b.searchFiles([]string{file}, look)
	}
	t.Logf("%d outputs", cases)
}

// searchBoot boots, and looks into all that a boot prints and logs.
func (b *canaryNode) searchBoot(look func(string, []byte)) {
	b.t.Helper()
	run, verify := b.boot()
	look("a boot", []byte(run.out+run.errors+verify.out+verify.errors))
	look("the journal", b.log.Bytes())
	look("the unit's status", b.status.Bytes())
	look("the console", []byte(strings.Join(b.console, "\n")))
}

// closeState closes the folders of the state that commands have left open: a command ends with its process.
func (b *canaryNode) closeState() {
	b.t.Helper()
	const fds = "/proc/self/fd"
	open, err := os.ReadDir(fds)
	b.must(err)
	state := b.root + "/var/lib/prelet"
	for _, f := range open {
		at, err := os.Readlink(filepath.Join(fds, f.Name()))
		if err != nil || at != state && at != state+"/generations" { // or another test has closed it
			continue
		}
		fd, err := strconv.Atoi(f.Name())
		b.must(errors.Join(err, syscall.Close(fd)))
	}
}

// runLine runs a command line. console and fmt read their standard input, so they are another process.
func (b *canaryNode) runLine(line canaryLine) ended {
	b.t.Helper()
	var args []string
	for _, word := range line {
		if word == "VARS" {
			args = append(args, b.vars...)
		} else {
			args = append(args, word)
		}
	}
	expand := strings.NewReplacer("@", b.dir, "ROOT", b.root, "PIN", b.server.CAHash()).Replace
	for i, word := range args {
		if strings.TrimPrefix(word, "--") != b.mistake && (i == 0 || args[i-1] != "--var") {
			args[i] = expand(word)
		}
	}
	if args[0] != "console" {
		return b.as("", args...)
	}

	var stdout, stderr strings.Builder
	c := exec.Command("prelet", args...)
	c.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+b.creds)
	c.Stdin = strings.NewReader("[node.flags, node.labels]\ntry(var.u, 0)\ntry(local.canary, 0)\nlocal.canary\n")
	c.Stdout, c.Stderr = &stdout, &stderr
	_ = c.Run() // whether it fails depends on the place

	return ended{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// rewriteOld makes the first recording one of an older prelet, if the place is one of those, and the only one of a fleet.
func (b *canaryNode) rewriteOld() {
	b.t.Helper()
	at := filepath.Join(b.dir, "old.prelet")
	text, err := os.ReadFile(at)
	b.must(err)
	if b.rewrite != nil {
		changed := b.rewrite(string(text))
		if changed == string(text) {
			b.t.Fatal("got no place for the secret in the recording, want one")
		}
		text = []byte(changed)
	}
	b.must(errors.Join(
		os.WriteFile(at, text, 0o600),
		os.WriteFile(filepath.Join(b.dir, "a.prelet"), text, 0o600), // until there is a newer one
		os.WriteFile(filepath.Join(b.dir, "fleet/a.prelet"), text, 0o600),
	))
}

// searchFiles looks into all that others may read: below the root, the run folder, and what commands wrote.
func (b *canaryNode) searchFiles(may []string, look func(string, []byte)) {
	b.t.Helper()
	for _, top := range []string{b.root, b.run, b.dir} {
		b.must(filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below := strings.TrimPrefix(path, top)
			isState := top == b.root && below == "/var/lib/prelet"
			if isState || top == b.dir && below == "/machine" {
				return filepath.SkipDir
			}
			isOld := top == b.dir && b.rewrite != nil && strings.HasSuffix(below, ".prelet")
			if !d.Type().IsRegular() || isOld || below == "/says" || slices.Contains(may, below) {
				return nil
			}
			text, err := os.ReadFile(path)
			look(cmp.Or(below, path), text)

			return err
		}))
	}
}

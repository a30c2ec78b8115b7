package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// rehearsed is what a test reads of `plan -o json`.
type rehearsed struct {
	Complete bool           `json:"complete"`
	Hash     string         `json:"plan_hash"`
	Assumed  []boot.Assumed `json:"assumed"`
	Node     struct {
		Labels map[string]struct{ Value string } `json:"labels"`
	} `json:"node"`
	Diagnostics []struct{ Code, Summary, Detail string } `json:"diagnostics"`
}

// rehearsalRig is a recorded node, and the node itself.
type rehearsalRig struct {
	dir, recording string
	site, node     []string // flags
}

func newRehearsalRig(t *testing.T) rehearsalRig {
	t.Helper()
	dir := t.TempDir()
	r := rehearsalRig{dir: dir, recording: filepath.Join(dir, "node.prelet")}
	machine, root := filepath.Join(dir, "machine"), filepath.Join(dir, "root")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/two-sockets.json", machine); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile("../../examples/objects/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "root/etc/prelet/ca.crt", string(ca))
	r.put(t, "machine/proc/cmdline", "quiet prelet.var.zone=az1-r07\n")
	r.site = []string{"--config", "../../examples/layered/image", "--config", "../../examples/layered/site"}
	r.node = []string{"--hardware", machine, "--root", root, "--objects", "../../examples/objects"}
	var out, errs bytes.Buffer
	a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	if code := a.main(slices.Concat([]string{"record", r.recording}, r.site, r.node)); code != 0 {
		t.Fatalf("record: got exit status %d, want 0\n%s%s", code, &out, &errs)
	}
	return r
}

func (r rehearsalRig) put(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r rehearsalRig) plan(t *testing.T, args ...string) (int, rehearsed) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code := a.main(slices.Concat([]string{"plan", "-o", "json"}, r.site, args))
	var p rehearsed
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatalf("plan %v: exit status %d: %s\n%s%s", args, code, err, &out, &errs)
	}
	return code, p
}

const tierSite = `variable "tier" { default = "gold" }
variable "pods" {
  type    = map(number)
  default = {}
}
stage "label" "tier" {
  labels = merge({ "example.com/tier" = var.tier }, { for k, v in var.pods : "example.com/${k}" => tostring(v) })
}
`

// TestRehearsalEqualsNode holds that a plan over a recording, with what the command line replaces, is the plan of the
// node with the same flags, and says what it assumed.
func TestRehearsalEqualsNode(t *testing.T) {
	t.Parallel()
	r := newRehearsalRig(t)
	tier := r.put(t, "tier/60-tier.hcl", tierSite)
	varFile := r.put(t, "x.vars", "zone = \"az9-r01\"\ntier = \"lead\"\npods = { a = 1 }\n")
	other := r.put(t, "valued/60-tier.hcl", tierSite)
	r.put(t, "valued/v.prelet.vars", "tier = \"silver\"\n")
	for name, c := range map[string]struct {
		site, flags []string
		assumed     []string
	}{
		"the recording": {},
		"--var over the kernel command line": {
			flags: []string{"--var", "zone=az2-r02"}, assumed: []string{"variable zone from --var, instead of " +
				"the kernel command line"},
		},
		"a new variable with a default": {
			site: []string{"--config", tier}, assumed: []string{
				"variable pods from its default, instead of a credential or the kernel command line, for which " +
					"the recording was never asked",
				"variable tier from its default, instead of a credential or the kernel command line, for which " +
					"the recording was never asked",
			},
		},
		"a new variable with a vars file": {
			site: []string{"--config", filepath.Dir(other)}, assumed: []string{
				"variable pods from its default, instead of a credential or the kernel command line, for which " +
					"the recording was never asked",
				"variable tier from " + filepath.Dir(other) + "/v.prelet.vars:1, instead of a credential or " +
					"the kernel command line, for which the recording was never asked",
			},
		},
		"--var-file, and --var over it": {
			site: []string{"--config", tier}, flags: []string{"--var", "tier=tin", "--var-file", varFile}, assumed: []string{
				"variable pods from --var-file " + varFile + ", instead of a credential or the kernel command " +
					"line, for which the recording was never asked",
				"variable tier from --var, instead of a credential or the kernel command line, for which the " +
					"recording was never asked",
				"variable zone from --var-file " + varFile + ", instead of the kernel command line",
			},
		},
		"a kubelet": {
			flags: []string{"--kubelet-version", "1.34"}, assumed: []string{"kubelet v1.34 from " +
				"--kubelet-version, instead of none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, got := r.plan(t, slices.Concat(c.site, c.flags, []string{"--from", r.recording})...)
			if code != 0 || !got.Complete {
				t.Fatalf("got exit status %d, complete %t, %+v; want 0, true", code, got.Complete, got.Diagnostics)
			}
			if _, want := r.plan(t, slices.Concat(c.site, c.flags, r.node)...); got.Hash != want.Hash {
				t.Errorf("got plan %s, want the node's, %s", got.Hash, want.Hash)
			}
			var said []string
			for _, a := range got.Assumed {
				said = append(said, strings.TrimSpace(a.Kind+" "+a.Name+" from "+a.From+", instead of "+a.InsteadOf))
			}
			if !slices.Equal(said, c.assumed) {
				t.Errorf("got assumed\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(c.assumed, "\n"))
			}
		})
	}
}

// TestRehearsalObjects replaces a ConfigMap, which the folder has alone, and a CA.
func TestRehearsalObjects(t *testing.T) {
	t.Parallel()
	r := newRehearsalRig(t)
	text, err := os.ReadFile("../../examples/objects/kube-system/kubelet-config-site3.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "clusterDomain: cluster.local", "clusterDomain: other.local", 1)
	if changed == string(text) {
		t.Fatal("the example's ConfigMap has no clusterDomain")
	}
	r.put(t, "objects/kube-system/kubelet-config-site3.yaml", changed)
	objects := filepath.Join(r.dir, "objects")
	_, before := r.plan(t, "--from", r.recording)
	code, got := r.plan(t, "--from", r.recording, "--objects", objects)
	if code != 0 || !got.Complete || got.Hash == before.Hash || len(got.Assumed) != 1 ||
		got.Assumed[0].Name != "kube-system/kubelet-config-site3" {
		t.Errorf("got exit status %d, complete %t, the plan before: %t, %+v",
			code, got.Complete, got.Hash == before.Hash, got.Assumed)
	}

	if _, same := r.plan(t, "--from", r.recording, "--objects", "../../examples/objects"); len(same.Assumed) != 0 ||
		same.Hash != before.Hash {
		t.Errorf("the same objects: got %+v, plan %s; want none, %s", same.Assumed, same.Hash, before.Hash)
	}

	r.put(t, "none/kube-system/unrelated.yaml", strings.Replace(changed, "kubelet-config-site3", "unrelated", 1))
	if code, got := r.plan(t, "--from", r.recording, "--objects", filepath.Join(r.dir, "none")); code != 0 ||
		!strings.Contains(fmt.Sprint(got.Diagnostics), "No object of --objects is used") {
		t.Errorf("objects that the site does not fetch: got exit status %d, %+v; want 0 and a warning",
			code, got.Diagnostics)
	}

	ca, err := os.ReadFile("testdata/other-ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "objects/ca.crt", string(ca))
	_, got = r.plan(t, "--from", r.recording, "--objects", objects)
	if !got.Complete || len(got.Assumed) != 2 || got.Assumed[0].Kind != "ca" ||
		!strings.HasPrefix(got.Assumed[0].InsteadOf, "sha256:") {
		t.Errorf("another CA: got complete %t, %+v, %+v; want it as assumed, with both hashes",
			got.Complete, got.Assumed, got.Diagnostics)
	}
}

// TestRehearsalSecret gives a sensitive variable, which the recording has no value of, in a file only.
func TestRehearsalSecret(t *testing.T) {
	t.Parallel()
	r := newRehearsalRig(t)
	r.site = append(r.site, "--config", r.put(t, "pw/60-pw.hcl", `variable "pw" {
  sensitive = true
  validation {
    condition     = length(var.pw) > 8
    error_message = "Use nine characters or more."
  }
}
override {
  stage "write" "kubelet" {
    file "pw" {
      path    = "/etc/pw"
      content = "pw=${var.pw}"
    }
  }
}
`))
	if code, p := r.plan(t, "--from", r.recording, "--var", "pw=Canary-Password"); code != 10 {
		t.Errorf("--var: got exit status %d, %+v; want 10", code, p.Diagnostics)
	}
	short := r.put(t, "short.vars", "pw = \"Canary\"\n")
	if code, p := r.plan(t, "--from", r.recording, "--var-file", short); code != 10 {
		t.Errorf("a value against its rule: got exit status %d, %+v; want 10", code, p.Diagnostics)
	}
	long := r.put(t, "long.vars", "pw = \"Canary-Password\"\n")
	for _, args := range [][]string{
		{"plan", "-o", "json"}, {"plan"}, {"explain", "file/etc/pw"}, {"explain", "file/etc/pw", "-o", "json"},
	} {
		var out, errs bytes.Buffer
		a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		code := a.main(slices.Concat(args, r.site, []string{"--from", r.recording, "--var-file", long}))
		text := out.String() + errs.String()
		if code != 0 || strings.Contains(text, "Canary") || args[0] == "plan" && !strings.Contains(text, "--var-file") {
			t.Errorf("%v: got exit status %d; want 0, no secret, and what was assumed\n%s", args, code, text)
		}
	}
}

// TestRehearsalOfGivenVariable holds that a value of the command line is distinguished from one that was recorded.
func TestRehearsalOfGivenVariable(t *testing.T) {
	t.Parallel()
	r := newRehearsalRig(t)
	given := filepath.Join(r.dir, "given.prelet")
	var out, errs bytes.Buffer
	a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	if code := a.main(slices.Concat([]string{"record", given, "--var", "zone=az5-r05"}, r.site, r.node)); code != 0 {
		t.Fatalf("record: got exit status %d, want 0\n%s%s", code, &out, &errs)
	}

	_, got := r.plan(t, "--from", given, "--var", "zone=az6-r06")
	if len(got.Assumed) != 1 || got.Assumed[0].From != "--var" || got.Assumed[0].InsteadOf != "the recorded --var" {
		t.Errorf("got assumed %+v, want zone from --var instead of the recorded --var", got.Assumed)
	}
}

// TestRehearsalOfAFolder applies the flags to each recording.
func TestRehearsalOfAFolder(t *testing.T) {
	t.Parallel()
	r := newRehearsalRig(t)
	b, err := os.ReadFile(r.recording)
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "fleet/a.prelet", string(b))
	r.put(t, "fleet/b.prelet", string(b))
	var out, errs bytes.Buffer
	a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code := a.main(
		slices.Concat([]string{"plan", "--from", filepath.Join(r.dir, "fleet"), "--var", "zone=az7-r07"}, r.site),
	)
	if code != 0 || !strings.HasPrefix(out.String(), "assumed: variable zone from --var") ||
		!strings.Contains(out.String(), "\n2 nodes: ") ||
		!strings.Contains(out.String(), "label   topology.kubernetes.io/zone = az7-r07\n") {
		t.Errorf("got exit status %d; want 0, the assumed variable, and the label on 2 nodes\n%s%s", code, &out, &errs)
	}
	for _, args := range [][]string{{"--var", "zoen=x"}, {"--root", r.dir}, {"--var-file", "nosuch"}, {"--var-file", r.put(t, "null.vars", "zone = null\n")}, {"--kubelet-version", "1.2"}} {
		want := 64
		if args[1] == "zoen=x" {
			want = 10
		}
		a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		if code := a.main(slices.Concat([]string{"plan", "--from", r.recording}, args, r.site)); code != want {
			t.Errorf("%v: got exit status %d, want %d", args, code, want)
		}
	}
}

// TestRehearsalOfKubeletsFolder records a node whose kubelet's folder is as the kubelet (0750) or kubeadm (0700)
// makes it. A changed site is planned over that to the end, and what others could not read there stays out of the
// recording.
func TestRehearsalOfKubeletsFolder(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o750, 0o700} {
		r := rehearsalRig{dir: t.TempDir()}
		r.recording = filepath.Join(r.dir, "node.prelet")
		machine := filepath.Join(r.dir, "machine")
		if err := hwtree.BuildFile("../../testdata/hardware/spec/two-sockets.json", machine); err != nil {
			t.Fatal(err)
		}
		r.put(t, "root/var/lib/kubelet/creds.yaml", "kind: CredentialProviderConfig\n")
		if err := os.Chmod(filepath.Join(r.dir, "root/var/lib/kubelet"), mode); err != nil {
			t.Fatal(err)
		}
		site := func(content string) string {
			return r.put(t, "site.hcl", `
stage "write" "node" {
  kubelet_config { when = false }
  kubelet_flags { when = false }
  ca_certificate { when = false }
  bootstrap_kubeconfig { when = false }
  file "creds" {
    path    = "/var/lib/kubelet/creds.yaml"
    content = "`+content+`"
  }
}
stage "restart" "kubelet" {}
`)
		}
		r.site = []string{"--config", site("old")}
		r.node = []string{"--hardware", machine, "--root", filepath.Join(r.dir, "root")}
		var out, errs bytes.Buffer
		a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		if code := a.main(slices.Concat([]string{"record", r.recording}, r.site, r.node)); code != 0 {
			t.Fatalf("record: got exit status %d, want 0\n%s%s", code, &out, &errs)
		}

		site("new")
		code, p := r.plan(t, "--from", r.recording)
		if code != 0 || !p.Complete || p.Hash == "" {
			t.Errorf("folder %04o: got exit status %d and %+v, want a complete plan", mode, code, p)
		}
	}
}

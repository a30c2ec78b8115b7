package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// explaining runs `prelet explain` in process, over the example with GPUs on a recorded DGX.
func explaining(t *testing.T, machine string, args ...string) ended {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &cli{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
	code := a.main(
		append([]string{"explain", "--config", "../../examples/gpu-training", "--objects", "../../examples/objects",
			"--root", t.TempDir(), "--hardware", machine, "--var", "zone=az1-r07"}, args...),
	)
	return ended{code, stdout.String(), stderr.String()}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	dgx := filepath.Join(t.TempDir(), "dgx")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", dgx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     []string
		exit     int
		out, err string
	}{
		{[]string{"label/accelerator"}, 0, `stage.detect-hw.node.gpus[0].model = "H100 80GB HBM3"`, ""},
		{[]string{"accelerator"}, 0, `label/accelerator = "nvidia-h100-80gb-hbm3"`, ""}, // fits one
		{[]string{"taint/hardware.example.com/incomplete"}, 0, "is not in the plan.", ""},
		{[]string{"fabric"}, 64, "", "\"fabric\" fits several:\n  label/fabric.example.com/"},
		{[]string{"label/acelerator"}, 64, "", "There is, for example:\n  label/accelerator\n"},
		{[]string{"acelerator"}, 64, "", "label/accelerator"},
		{[]string{"config/noSuchField"}, 64, "", "config/noSuchField is not in the plan, and nothing in the site " +
			"could set it."},
		{[]string{"config/podPidsLimit"}, 0, "config/podPidsLimit is not in the plan.\n  Neither the base nor the " +
			"site sets it, so the kubelet's default holds.", ""},
		{[]string{"config/podPidsLimit", "-o", "json"}, 0, `"present":false,"value":null`, ""},
		{[]string{"config/podpidslimit"}, 64, "", "nothing in the site could set it."},
		{[]string{"code/null-fact"}, 0, "Exit status 30.", ""},
		{[]string{"code/nul-fact"}, 64, "", `Did you mean "null-fact"?`},
		{nil, 64, "", "explain takes one ITEM"},
		{[]string{"a", "b"}, 64, "", "explain takes one ITEM"},
		{[]string{"label/accelerator", "-o", "yaml"}, 64, "", "-o yaml: text or json"},
	} {
		got := explaining(t, dgx, c.args...)
		if got.exit != c.exit || !strings.Contains(got.out, c.out) || !strings.Contains(got.errors, c.err) {
			t.Errorf("explain %q: exit %d, want %d\n%s%s", c.args, got.exit, c.exit, got.out, got.errors)
		}
	}
}

// TestExplainJSON holds the promise of format version 1.
func TestExplainJSON(t *testing.T) {
	t.Parallel()
	dgx := filepath.Join(t.TempDir(), "dgx")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", dgx); err != nil {
		t.Fatal(err)
	}
	type place struct {
		Filename string
		Start    struct{ Line, Byte int }
	}
	type document struct {
		FormatVersion int    `json:"format_version"`
		Item          string `json:"item"`
		Present       bool   `json:"present"`
		Value         any    `json:"value"`
		TakesEffect   string `json:"takes_effect"`
		Origins       []struct{ Kind, Role, Ref string }
		Chain         []struct {
			Depth       int
			Text, Value string
			Kind, Ref   string
			Range       *place
			Answer      *struct {
				Kind    string
				Pointer string
			}
		}
	}
	explained := func(item string) (d document) {
		t.Helper()
		got := explaining(t, dgx, item, "-o", "json")
		if err := json.Unmarshal([]byte(got.out), &d); err != nil || got.exit != 0 {
			t.Fatalf("%s: exit %d, %v\n%s%s", item, got.exit, err, got.out, got.errors)
		}
		return d
	}
	d := explained("label/accelerator")
	if d.FormatVersion != 1 || d.Item != "label/accelerator" || !d.Present || d.Value != "nvidia-h100-80gb-hbm3" ||
		d.TakesEffect != "registration" ||
		len(d.Origins) == 0 {
		t.Errorf("%+v", d)
	}
	found := false
	for _, s := range d.Chain {
		found = found ||
			s.Kind == "fact" && s.Answer != nil && s.Answer.Kind == "facts" && s.Answer.Pointer == "/accelerators/0/model" &&
				s.Range != nil
	}
	if !found {
		t.Errorf("no step ends in the GPU's model: %+v", d.Chain)
	}
	if d := explained("taint/hardware.example.com/incomplete"); d.Present || d.Value != nil || len(d.Chain) == 0 {
		t.Errorf("of one that is not there: %+v", d)
	}
	var failed struct {
		FormatVersion int  `json:"format_version"`
		Complete      bool `json:"complete"`
	}
	if got := explaining(
		t,
		dgx,
		"label/acelerator",
		"-o",
		"json",
	); got.exit != 64 || json.Unmarshal([]byte(got.out), &failed) != nil || failed.FormatVersion != 1 ||
		failed.Complete {
		t.Errorf("a failure: got exit %d and no document:\n%s", got.exit, got.out)
	}
}

// TestExplainFleet asks one question of each recording in a folder.
func TestExplainFleet(t *testing.T) {
	t.Parallel()
	fleet := t.TempDir()
	for _, m := range []string{"dgx-h100", "two-sockets"} {
		machine := filepath.Join(t.TempDir(), m)
		if err := hwtree.BuildFile("../../testdata/hardware/spec/"+m+".json", machine); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := run(
			[]string{
				"record",
				filepath.Join(fleet, m+".prelet"),
				"--config",
				"../../examples/gpu-training",
				"--objects",
				"../../examples/objects",
				"--root",
				t.TempDir(),
				"--hardware",
				machine,
				"--var",
				"zone=az1-r07",
			},
			&out,
			&out,
		); code != 0 {
			t.Fatalf("record: %d\n%s", code, &out)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(
		[]string{"explain", "label/accelerator", "--from", fleet, "-o", "json"},
		&stdout,
		&stderr,
	); code != 0 {
		t.Fatalf("exit %d\n%s", code, &stderr)
	}
	got := map[string]any{}
	for _, l := range strings.Split(strings.TrimSpace(stdout.String()), "\n") {
		var d struct {
			Source string
			Value  any
		}
		if err := json.Unmarshal([]byte(l), &d); err != nil {
			t.Fatalf("%s: %s", err, l)
		}
		got[filepath.Base(d.Source)] = d.Value
	}
	if len(got) != 2 || got["dgx-h100.prelet"] != "nvidia-h100-80gb-hbm3" || got["two-sockets.prelet"] != nil {
		t.Errorf("%v", got)
	}
	stdout.Reset()
	if code := run([]string{"explain", "label/accelerator", "--from", fleet}, &stdout, &stderr); code != 0 ||
		!strings.Contains(stdout.String(), "is not in the plan.") ||
		!strings.Contains(stdout.String(), "━━ "+filepath.Join(fleet, "dgx-h100.prelet")) {
		t.Errorf("exit %d\n%s%s", code, &stdout, &stderr)
	}
}

// TestExplainInvalidSite ends with the site's own exit status, and with a document.
func TestExplainInvalidSite(t *testing.T) {
	t.Parallel()
	site := filepath.Join(t.TempDir(), "site.hcl")
	if err := os.WriteFile(site, []byte("stage \"label\" \"x\" { lables = {} }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"explain", "label/x", "--config", site}, &stdout, &stderr); code != 10 ||
		!strings.Contains(stderr.String(), "lables") {
		t.Errorf("exit %d\n%s%s", code, &stdout, &stderr)
	}
	stdout.Reset()
	var d struct {
		Item        string
		Present     bool
		Diagnostics []struct{ Code string }
	}
	if code := run(
		[]string{"explain", "label/x", "--config", site, "-o", "json"},
		&stdout,
		&stderr,
	); code != 10 || json.Unmarshal(stdout.Bytes(), &d) != nil || d.Item != "label/x" || d.Present ||
		len(d.Diagnostics) == 0 {
		t.Errorf("exit %d\n%s%s", code, &stdout, &stderr)
	}
}

// A failed run does not report what the site could have set.
func TestExplainAfterFailure(t *testing.T) {
	t.Parallel()
	dgx := filepath.Join(t.TempDir(), "dgx")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", dgx); err != nil {
		t.Fatal(err)
	}
	for _, item := range []string{"config/cpuManagerPolicy", "file/etc/default/kubelet"} {
		got := explaining(t, dgx, item, "--var", "zone=nowhere")
		if got.exit != 10 || !strings.Contains(got.errors, "the run failed, so nothing is known of "+item) {
			t.Errorf("explain %s: exit %d\n%s%s", item, got.exit, got.out, got.errors)
		}
	}
}

// A pin that is not of the ca.crt in --objects is a matter of trust there as well.
func TestObjectsOfAnotherCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dgx, site := filepath.Join(dir, "dgx"), filepath.Join(dir, "site.hcl")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", dgx); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../../examples/minimal/site.hcl")
	if err != nil {
		t.Fatal(err)
	}
	b = regexp.MustCompile(`sha256:[0-9a-f]{64}`).ReplaceAll(b, []byte("sha256:"+strings.Repeat("0", 64)))
	if err := os.WriteFile(site, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(
		[]string{"plan", "--config", site, "--objects", "../../examples/objects", "--root", dir, "--hardware", dgx},
		&stdout,
		&stderr,
	)
	if said := strings.Join(
		strings.Fields(stderr.String()),
		" ",
	); code != 21 || !strings.Contains(said, "no pin covers the CA") ||
		!strings.Contains(said, "to ca_cert_hashes") {
		t.Errorf("exit %d\n%s", code, stderr.String())
	}
}

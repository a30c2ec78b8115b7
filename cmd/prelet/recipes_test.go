package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// TestHardwareRecipes holds that what the page on hardware shows is a site, and makes the labels that it promises.
func TestHardwareRecipes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```hcl\n")
	recipes, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page shows no site")
	}
	dir := t.TempDir()
	objects, err := filepath.Abs("../../examples/objects")
	if err != nil {
		t.Fatal(err)
	}
	site := filepath.Join(dir, "site.hcl")
	if err := os.WriteFile(site, []byte(`cluster {
  servers = ["10.0.0.11:6443"]
  ca_file = "`+objects+`/ca.crt"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
}
`+recipes), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"dgx-h100": "efficient-cores=0 gpu-count=8 gpu-product=h100-80gb-hbm3 infiniband=true net-gbps=200 " +
			"cpu-hardware_multithreading=true network-sriov.capable=true",
		"bare-vm": "efficient-cores=0 cpu-hardware_multithreading=false",
	} {
		machine := filepath.Join(dir, name)
		if err := hwtree.BuildFile("../../testdata/hardware/spec/"+name+".json", machine); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		root := t.TempDir()
		a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		if code := a.main(
			[]string{
				"plan",
				"-o",
				"json",
				"--config",
				site,
				"--hardware",
				machine,
				"--root",
				root,
				"--objects",
				objects,
			},
		); code != 0 {
			t.Fatalf("%s: exit %d\n%s", name, code, &out)
		}
		var plan struct {
			Node struct {
				Labels map[string]struct{ Value string }
			}
		}
		if err := json.Unmarshal(out.Bytes(), &plan); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, key := range slices.Sorted(maps.Keys(plan.Node.Labels)) {
			_, short, _ := strings.Cut(key, "/")
			got = append(got, short+"="+plan.Node.Labels[key].Value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, " "), want)
		}
	}
}

// TestFabricRecipe holds that the page's site for the fabric reports GPUs that cannot be seen by a condition: that
// counts at each boot, also on a node that has joined.
func TestFabricRecipe(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## All GPUs, and their fabric\n")
	_, rest, _ := strings.Cut(section, "```hcl\n")
	recipe, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the section on the fabric shows no site")
	}
	objects, err := filepath.Abs("../../examples/objects")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	site := filepath.Join(dir, "site.hcl")
	text := `cluster {
  servers = ["10.0.0.11:6443"]
  ca_file = "` + objects + `/ca.crt"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
}
` + recipe
	if err := os.WriteFile(site, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	machine := filepath.Join(dir, "dgx-h100")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", machine); err != nil {
		t.Fatal(err)
	}

	var out, errs bytes.Buffer
	a := &cli{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code := a.main([]string{
		"plan", "-o", "json", "--config", site, "--hardware", machine, "--root", t.TempDir(), "--objects", objects,
	})
	const want = "Condition example.com/GPUsComplete of the Node is False: GPUs are missing"
	if code != 0 || !strings.Contains(out.String(), want) {
		t.Errorf("without the detector: got exit %d and\n%s\n%s\nwant exit 0 and %q", code, &out, &errs, want)
	}
}

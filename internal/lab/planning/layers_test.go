package planning

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

// layeredSite is the first layer of random sites. A label has the value of each thing that layers replace.
const layeredSite = `variable "zone" { default = "none" }
locals { mark = "none" }
stage "detect-hw" "node" {}
stage "label" "x" {
  labels = { zone = var.zone, mark = local.mark, text = templatefile("t.tftpl", {}) }
}
stage "taint" "x" { taints = ["example.com/x=true:NoSchedule"] }
stage "write" "x" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" }
  kubelet_flags { base = "" }
}
`

// writeLayers writes random layers into folders: of each file it writes the text, a mask, or nothing.
func writeLayers(t *testing.T, seed uint64, folders []string) {
	t.Helper()

	r := rand.New(rand.NewPCG(seed, 2))
	for n, dir := range folders {
		files := map[string]string{}
		if n == 0 {
			files["00-base.hcl"] = layeredSite
		}
		for _, name := range []string{"10-a.hcl", "20-b.hcl"} {
			files[name] = fmt.Sprintf("override {\n  locals { mark = \"%s-%d\" }\n}\n", name[:2], n)
			if r.IntN(2) == 0 {
				files[name] += fmt.Sprintf("override {\n  stage \"taint\" \"x\" { when = %t }\n}\n", r.IntN(2) == 0)
			}
		}
		for _, name := range []string{"a.prelet.vars", "z.prelet.vars"} {
			files[name] = fmt.Sprintf("zone = \"%s-%d\"\n", name[:1], n)
		}
		files["t.tftpl"] = fmt.Sprintf("text-%d", n)

		must(t, os.MkdirAll(dir, 0o755))
		for _, name := range []string{"00-base.hcl", "10-a.hcl", "20-b.hcl", "a.prelet.vars", "t.tftpl", "z.prelet.vars"} {
			path := filepath.Join(dir, name)
			text, has := files[name]
			isNeeded := n == 0 && (name == "00-base.hcl" || name == "t.tftpl")
			choice := r.IntN(4)
			var err error
			switch {
			case !has || choice == 0 && !isNeeded:
			case choice == 1 && name != "00-base.hcl" && name != "t.tftpl":
				err = os.Symlink("/dev/null", path)
			default:
				err = os.WriteFile(path, []byte(text), 0o644)
			}
			must(t, err)
		}
	}
}

// planLayers returns the hash of a plan.
func planLayers(t *testing.T, root string, config []string) string {
	t.Helper()

	facts, err := filepath.Abs("../../../testdata/hardware/facts/bare-vm.json")
	must(t, err)
	w := lab.Request{Where: machine.Where{Root: root, Config: config, Hardware: facts}, KubeletVersion: "1.36"}
	must(t, w.Check())
	p, err := Node(t.Context(), newTestEnv(), w, false)
	must(t, err)
	if p.Plan.Hash == "" {
		t.Errorf("plan of %q: got %v, want a complete plan", config, p.Plan.Diagnostics)
	}

	return p.Plan.Hash
}

// TestLayersHaveOnePlan checks that layers mean the same by --config and below --root: random sets of folders with
// files of the same and other names, overrides, values, masks and templates have one plan hash in both forms.
func TestLayersHaveOnePlan(t *testing.T) {
	hashes := map[string]bool{}
	for seed := range uint64(40) {
		root, other := t.TempDir(), t.TempDir()
		folders := lang.DefaultLayers(root)
		writeLayers(t, seed, folders)
		given := []string{other + "/m", other + "/a", other + "/z"} // not in the order of names, as the folders below a root
		writeLayers(t, seed, given)

		below := planLayers(t, root, nil)
		named := planLayers(t, t.TempDir(), given)
		if below != named {
			t.Fatalf("seed %d: got plan %s below --root and %s by --config, want one", seed, below, named)
		}
		hashes[below] = true
	}
	if len(hashes) < 10 {
		t.Errorf("got %d different plans of 40 sites, want the layers to matter", len(hashes))
	}
}

// TestLaterLockHasPrecedence checks that locks of detectors follow the order of layers, in both forms.
func TestLaterLockHasPrecedence(t *testing.T) {
	var used []string
	isElsewhere := false
	env := newTestEnv()
	env.Detectors = func(o *detector.HostConfig) { used, isElsewhere = o.SiteLocks, o.Elsewhere }

	env.DetectorHost(machine.Where{Root: "/r"})
	want := []string{"/r/etc/prelet", "/r/run/prelet/site", "/r/usr/lib/prelet/site"}
	for n := range want {
		want[n] += "/detectors.lock.json"
	}
	if !slices.Equal(used, want) || isElsewhere {
		t.Errorf("below a root: got %q, elsewhere %t; want %q of the node", used, isElsewhere, want)
	}

	env.DetectorHost(machine.Where{Config: []string{"image", "site"}})
	if want := []string{"site/detectors.lock.json", "image/detectors.lock.json"}; !slices.Equal(used, want) || !isElsewhere {
		t.Errorf("with --config: got %q, elsewhere %t; want %q elsewhere", used, isElsewhere, want)
	}
}

// TestStrictNamesFilesThatAreNotRead checks that a misspelt file of a site is not silently left out.
func TestStrictNamesFilesThatAreNotRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"site.hcl": "stage \"detect-hw\" \"x\" {}\n", "50-site.tf": "locals {}\n"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}

	got, err := sites.Validate(newTestEnv(), sites.ValidateOptions{Request: lab.Request{Where: machine.Where{Config: []string{dir}}}, Strict: true})
	must(t, err)
	var shown []string
	for _, d := range got.Diagnostics {
		shown = append(shown, origin.Severity(d)+" "+d.Summary)
	}
	if text := strings.Join(shown, "\n"); got.IsValid() || !strings.Contains(text, "warning "+dir+"/50-site.tf is not read") {
		t.Errorf("got valid %t and %q, want a warning that 50-site.tf is not read", got.IsValid(), text)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

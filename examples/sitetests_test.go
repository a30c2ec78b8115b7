package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/sites"
	"github.com/prelet/prelet/internal/insight/testfile"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/value"
)

// TestSiteTests runs the tests of each example, as `prelet test` does.
func TestSiteTests(t *testing.T) {
	options := map[string]sites.TestOptions{}
	for _, e := range all() {
		options[e.name] = sites.TestOptions{Paths: []string{e.name}}
	}
	options["layered"] = sites.TestOptions{
		Paths: []string{"layered/tests"},
		Where: app.Where{Config: []string{"layered/image", "layered/site"}},
	}

	for name, o := range options {
		t.Run(name, func(t *testing.T) { runSiteTests(t, o) })
	}
}

// runSiteTests runs tests of a site, all of which must pass.
func runSiteTests(t *testing.T, o sites.TestOptions) {
	t.Helper()
	e := &app.Env{
		Version:  "0.1.0",
		Getenv:   func(string) string { return "" },
		Redactor: value.NewRedactor(),
	}
	found, err := sites.Test(context.Background(), e, o, func(s *lang.Site, r testfile.MachineResult) error {
		var b bytes.Buffer
		err := printer.TestText(&b, s.Sources, r, printer.Style{Width: 100})
		if !r.Passed() {
			t.Errorf("got a failure, want none:\n%s", b.String())
		}
		return err
	})
	if err != nil || found.Diagnostics.HasErrors() || found.Passed == 0 {
		t.Errorf("got %d passed, %v, %v; want some, and no error", found.Passed, err, found.Diagnostics)
	}
}

// TestFirstTest holds that the first test of the page on tests passes with the site of the README.
func TestFirstTest(t *testing.T) {
	site := t.TempDir()
	for page, name := range map[string]string{
		"../README.md":                       "site.hcl",
		"../docs/operators/testing-sites.md": "gpu.prelettest.hcl",
	} {
		text, err := os.ReadFile(page)
		must(t, err)
		_, block, _ := strings.Cut(string(text), "\n```hcl\n")
		block, _, _ = strings.Cut(block, "\n```\n")
		machine, err := filepath.Abs("../testdata/hardware/facts/dgx-h100.json")
		must(t, err)
		block = strings.ReplaceAll(block, "testdata/gpu17.json", machine)
		must(t, os.WriteFile(filepath.Join(site, name), []byte(block+"\n"), 0o644))
	}

	runSiteTests(t, sites.TestOptions{Paths: []string{site}})
}

// TestRecipes holds that the page on kinds of nodes shows the files of the examples.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../docs/operators/select-nodes.md")
	must(t, err)
	for _, name := range []string{
		"by-subnet/kind.hcl", "by-subnet/address.hcl", "by-inventory/kind.hcl", "by-inventory/machines.preletdata.yaml", "by-cloud/kind.hcl",
	} {
		text, err := os.ReadFile(name)
		must(t, err)
		if !bytes.Contains(page, append([]byte("\n"), append(text, "```\n"...)...)) {
			t.Errorf("docs/operators/select-nodes.md: got no block with the text of examples/%s, want it", name)
		}
	}
}

// TestNoFalseHold holds that the site of GPUs keeps the kubelet of no recorded machine from starting: with a healthy
// driver, one that does not answer, and without a GPU.
func TestNoFalseHold(t *testing.T) {
	machines, err := filepath.Glob("../testdata/hardware/facts/*.json")
	must(t, err)
	text := ""
	for _, machine := range machines {
		path, err := filepath.Abs(machine)
		must(t, err)
		for name, driver := range map[string]string{
			"healthy": `facts = { gpus_to_recover = [], recovery_action = "none" }`,
			"unknown": `facts = {}`,
			"skipped": `state = "skipped"`,
			"failed":  `state = "failed"`,
		} {
			text += fmt.Sprintf("run %q {\n  hardware  = %q\n  detectors = { nvidia = { %s } }\n"+
				"  assert { condition = !contains(plan.warnings, \"kubelet-held\") }\n}\n",
				strings.TrimSuffix(filepath.Base(machine), ".json")+"-"+name, path, driver)
		}
	}
	if len(machines) < 30 {
		t.Errorf("got %d machines, want more", len(machines))
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "held.prelettest.hcl"), []byte(text), 0o644))

	runSiteTests(t, sites.TestOptions{Paths: []string{dir}, Where: app.Where{Config: []string{"gpu-fit"}}})
}

// machineHolds hold for less than a recorded machine has, and for faults that the kernel reports.
const machineHolds = `
locals { hw = stage.detect-hw.node }
stage "detect-hw" "node" {}
stage "restart" "kubelet" {
  hold "gpus" {
    when    = length(local.hw.gpus) < %d
    for     = "30m"
    message = "x"
  }
  hold "cards" {
    when    = length(local.hw.nics) < %d
    for     = "30m"
    message = "x"
  }
  hold "links" {
    when    = length([for n in local.hw.nics : n if n.link == "up"]) < %d
    for     = "30m"
    message = "x"
  }
  hold "errors" {
    when    = anytrue([for d in concat(local.hw.gpus, local.hw.nics) : d.pcie.fatal_errors > 0])
    for     = "30m"
    message = "x"
  }
  hold "memory" {
    when    = local.hw.memory.uncorrected_errors > 0 || local.hw.kernel.machine_check
    for     = "30m"
    message = "x"
  }
}
`

// TestNoFalseHoldByHardware holds that no recorded machine is held by what the kernel reports of it, also if a device of
// it, or the state of a link, could not be read.
func TestNoFalseHoldByHardware(t *testing.T) {
	machines, err := filepath.Glob("../testdata/hardware/facts/*.json")
	must(t, err)
	short := 0
	for _, machine := range machines {
		text, err := os.ReadFile(machine)
		must(t, err)
		var facts map[string]any
		must(t, json.Unmarshal(text, &facts))
		list := func(name string) []any { all, _ := facts[name].([]any); return all }
		gpus, cards, up := 0, len(list("nics")), 0
		for _, a := range list("accelerators") {
			if a.(map[string]any)["kind"] == "gpu" {
				gpus++
			}
		}
		for _, n := range list("nics") {
			if n.(map[string]any)["link"] == "up" {
				up++
			}
		}

		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "site.hcl"), fmt.Appendf(nil, machineHolds, gpus, cards, up), 0o644))
		unknown := list("unknown")
		lacks := func(name string, field string) string { // the last device, or a fact of it, could not be read
			devices := list(name)
			if len(devices) == 0 {
				return ""
			}
			short++
			last, _ := devices[len(devices)-1].(map[string]any)
			changed := maps.Clone(facts)
			fact := fmt.Sprintf("pci[%s]", last["address"])
			changed[name] = devices[:len(devices)-1]
			if field != "" {
				fact = fmt.Sprintf("%s[%s].%s", name, last["address"], field)
				without := maps.Clone(last)
				without[field] = nil
				changed[name] = append(slices.Clone(devices[:len(devices)-1]), without)
			}
			changed["unknown"] = append(slices.Clone(unknown), map[string]any{"fact": fact, "why": "it hangs"})
			text, err := json.Marshal(changed)
			must(t, err)
			file := filepath.Join(dir, name+field+".json")
			must(t, os.WriteFile(file, text, 0o644))
			return file
		}
		tests := ""
		whole, err := filepath.Abs(machine)
		must(t, err)
		for i, file := range []string{whole, lacks("accelerators", ""), lacks("nics", ""), lacks("nics", "link")} {
			if file != "" {
				tests += fmt.Sprintf("run \"%d\" {\n  hardware = %q\n"+
					"  assert { condition = !contains(plan.warnings, \"kubelet-held\") }\n}\n", i, file)
			}
		}
		must(t, os.WriteFile(filepath.Join(dir, "held.prelettest.hcl"), []byte(tests), 0o644))
		runSiteTests(t, sites.TestOptions{Paths: []string{dir}})
	}
	if short < 60 {
		t.Errorf("got %d machines that lack something, want more", short)
	}
}

// TestEveryTestFileRuns holds that TestSiteTests finds all test files of the examples.
func TestEveryTestFileRuns(t *testing.T) {
	var got []string
	for _, pattern := range []string{"*/*.prelettest.hcl", "*/tests/*.prelettest.hcl", "*/*/*/*.prelettest.hcl"} {
		matches, err := filepath.Glob(pattern)
		must(t, err)
		got = append(got, matches...)
	}
	if want := len(all()); len(got) != want {
		t.Errorf("got %d test files, %q; want one for each of %d examples", len(got), got, want)
	}
}

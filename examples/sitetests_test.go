package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

	lacking := 0
	for _, machine := range machines {
		text, err := os.ReadFile(machine)
		must(t, err)
		var facts map[string]any
		must(t, json.Unmarshal(text, &facts))
		gpus := countFacts(facts, "accelerators", "kind", "gpu")
		up := countFacts(facts, "nics", "link", "up")
		site := fmt.Appendf(nil, machineHolds, gpus, len(listFacts(facts, "nics")), up)

		dir, tests := t.TempDir(), ""
		for i, changed := range []map[string]any{
			facts,
			lackFact(facts, "accelerators", ""),
			lackFact(facts, "nics", ""),
			lackFact(facts, "nics", "link"),
		} {
			if changed == nil {
				continue
			}
			if i > 0 {
				lacking++
			}
			file := filepath.Join(dir, fmt.Sprint(i, ".json"))
			text, err := json.Marshal(changed)
			must(t, errors.Join(err, os.WriteFile(file, text, 0o644)))
			tests += fmt.Sprintf("run \"%d\" {\n  hardware = %q\n"+
				"  assert { condition = !contains(plan.warnings, \"kubelet-held\") }\n}\n", i, file)
		}

		must(t, errors.Join(
			os.WriteFile(filepath.Join(dir, "site.hcl"), site, 0o644),
			os.WriteFile(filepath.Join(dir, "held.prelettest.hcl"), []byte(tests), 0o644),
		))
		runSiteTests(t, sites.TestOptions{Paths: []string{dir}})
	}
	if lacking < 60 {
		t.Errorf("got %d machines that lack something, want more", lacking)
	}
}

func listFacts(facts map[string]any, name string) []any {
	all, _ := facts[name].([]any)

	return all
}

// countFacts counts the elements of a list whose field has a value.
func countFacts(facts map[string]any, name, field, value string) (n int) {
	for _, element := range listFacts(facts, name) {
		if fields, _ := element.(map[string]any); fields[field] == value {
			n++
		}
	}

	return n
}

// lackFact returns the facts without the last device of a list, or without a field of it, which could not be read; nil
// for an empty list.
func lackFact(facts map[string]any, name, field string) map[string]any {
	devices := listFacts(facts, name)
	if len(devices) == 0 {
		return nil
	}
	last, _ := devices[len(devices)-1].(map[string]any)
	rest := slices.Clone(devices[:len(devices)-1])
	fact := fmt.Sprintf("pci[%s]", last["address"])
	if field != "" {
		fact = fmt.Sprintf("%s[%s].%s", name, last["address"], field)
		last = maps.Clone(last)
		last[field] = nil
		rest = append(rest, last)
	}

	changed := maps.Clone(facts)
	changed[name] = rest
	changed["unknown"] = append(slices.Clone(listFacts(facts, "unknown")), map[string]any{"fact": fact, "why": "it hangs"})

	return changed
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

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

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestSiteTests runs the tests of each example, as `prelet test` does.
func TestSiteTests(t *testing.T) {
	options := map[string]sites.TestOptions{}
	for _, e := range all() {
		options[e.name] = sites.TestOptions{Paths: []string{e.name}}
	}
	options["layered"] = sites.TestOptions{
		Paths:   []string{"layered/tests"},
		Request: lab.Request{Where: machine.Where{Config: []string{"layered/image", "layered/site"}}},
	}

	for name, o := range options {
		t.Run(name, func(t *testing.T) { runSiteTests(t, o) })
	}
}

// runSiteTests runs tests of a site, all of which must pass.
func runSiteTests(t *testing.T, o sites.TestOptions) {
	t.Helper()
	e := &machine.Env{
		Version:  "0.1.0",
		Getenv:   func(string) string { return "" },
		Redactor: secret.NewRedactor(),
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
		text := osfile.Read(t, page)
		_, block, _ := strings.Cut(string(text), "\n```hcl\n")
		block, _, _ = strings.Cut(block, "\n```\n")
		machine, err := filepath.Abs("../testdata/hardware/facts/dgx-h100.json")
		must(t, err)
		block = strings.ReplaceAll(block, "testdata/gpu17.json", machine)
		osfile.Write(t, filepath.Join(site, name), block+"\n", 0o644)
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
		text := osfile.Read(t, name)
		if !bytes.Contains(page, append([]byte("\n"), append(text, "```\n"...)...)) {
			t.Errorf("docs/operators/select-nodes.md: got no block with the text of examples/%s, want it", name)
		}
	}
}

// TestPageRecipes holds that blocks of the pages do what the pages say with a minimal site, on a recorded machine of
// which two links, of 25 and 200 Gbit/s, are made a bond. TestTutorial has the table by speed.
func TestPageRecipes(t *testing.T) {
	machine, err := filepath.Abs("../testdata/hardware/facts/dgx-h100.json")
	must(t, err)
	base := osfile.Read(t, "minimal/site.hcl")

	for _, c := range []struct{ page, words, want string }{
		{"operators/hardware.md", "bonding", `node.labels["example.com/bond-gbps"] == "225"`},
		{"operators/select-nodes.md", "serial}", `node.flags["hostname-override"] == "node-example-0001"`},
	} {
		t.Run(c.page+" "+c.words, func(t *testing.T) {
			page := osfile.Read(t, "../docs/"+c.page)
			dir := t.TempDir()
			slaves := filepath.Join(dir, "disk/sys/class/net/bond0/bonding/slaves")
			osfile.Write(t, slaves, "ens3np0 ens5f0\n", 0o644)
			osfile.Write(t, filepath.Join(dir, "site.hcl"), base, 0o644)
			osfile.Write(t, filepath.Join(dir, "recipe.hcl"), blockWith(t, string(page), c.words), 0o644)
			text := fmt.Sprintf("run \"recipe\" {\n  hardware = %q\n  root     = \"disk\"\n  assert { condition = %s }\n}\n",
				machine, c.want)
			osfile.Write(t, filepath.Join(dir, "recipe.prelettest.hcl"), text, 0o644)
			runSiteTests(t, sites.TestOptions{Paths: []string{dir}})
		})
	}
}

// blockWith returns the one block of HCL of a page that has these words.
func blockWith(t *testing.T, page, words string) string {
	t.Helper()
	var found []string
	for _, part := range strings.Split(page, "\n```hcl\n")[1:] {
		block, _, _ := strings.Cut(part, "```\n")
		if strings.Contains(block, words) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("blocks with %q: got %d, want 1", words, len(found))
	}

	return found[0]
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
	osfile.Write(t, filepath.Join(dir, "held.prelettest.hcl"), text, 0o644)

	runSiteTests(t, sites.TestOptions{Paths: []string{dir}, Request: lab.Request{Where: machine.Where{Config: []string{"gpu-fit"}}}})
}

// machineSite waits for units, whose states no recording has.
const machineSite = `
locals {
  hw      = stage.detect-hw.node
  devices = concat(local.hw.gpus, local.hw.nics)
}
stage "detect-hw" "node" {
  wait {
    units   = ["a.service", "b.service"]
    timeout = "1s"
  }
}
stage "restart" "kubelet" {
`

// holdsOf are true for less than a recorded machine has, and for faults that the kernel reports.
func holdsOf(facts map[string]any) []string {
	cpu, _ := facts["cpu"].(map[string]any)
	memory, _ := facts["memory"].(map[string]any)
	guids, _ := facts["guids"].(map[string]any)
	pages, _ := memory["hugepages"].(map[string]any)
	gpuBytes, _ := memory["gpu_bytes"].(float64)
	gpus, nics := countFacts(facts, "accelerators", "kind", "gpu"), len(listFacts(facts, "nics"))

	all := []string{
		fmt.Sprintf("length(local.hw.gpus) < %d", gpus),
		fmt.Sprintf("length(local.hw.nics) < %d", nics),
		fmt.Sprintf(`length([for n in local.hw.nics : n if n.link == "up"]) < %d`, countFacts(facts, "nics", "link", "up")),
		"anytrue([for d in local.devices : d.pcie.fatal_errors > 0])",
		fmt.Sprintf("length([for d in local.devices : d if d.pcie.fatal_errors == 0]) < %d", gpus+nics),
		fmt.Sprintf("length([for d in local.devices : d if d.pcie.nonfatal_errors == 0]) < %d", gpus+nics),
		"local.hw.memory.uncorrected_errors > 0 || local.hw.kernel.machine_check",
		fmt.Sprintf("length(local.hw.memory.hugepages) < %d", len(pages)),
		fmt.Sprintf("local.hw.memory.gpu_bytes < %d", int64(gpuBytes)),
		fmt.Sprintf("length(local.hw.guids) < %d", len(guids)),
		fmt.Sprintf("length(local.hw.numa) < %d", len(listFacts(facts, "numa"))),
		fmt.Sprintf("length(local.hw.cpu.cores) < %d", len(listFacts(cpu, "cores"))),
		`length([for u, s in local.hw.units : u if s == "done"]) < 2`,
	}
	if memory["hugepages_asked"] != nil { // else the facts are older, and an expression that needs it is an error
		memory["hugepages_asked"] = pages
		all = append(all,
			"anytrue([for size, n in local.hw.memory.hugepages_asked : lookup(local.hw.memory.hugepages, size, 0) < n])")
	}

	return all
}

// TestNoFalseHoldByHardware holds that no recorded machine is held by what the kernel reports of it, also if a device of
// it, the state of a link, pages of one size, or anything of /sys could not be read.
func TestNoFalseHoldByHardware(t *testing.T) {
	machines, err := filepath.Glob("../testdata/hardware/facts/*.json")
	must(t, err)
	empty := t.TempDir()
	must(t, errors.Join(os.Mkdir(filepath.Join(empty, "proc"), 0o755), os.Mkdir(filepath.Join(empty, "sys"), 0o755)))
	for name, text := range map[string]string{
		"cpuinfo": "processor: 0\n",
		"meminfo": "MemTotal: 8000000 kB\nHugepagesize: 2048 kB\nHugePages_Total: 0\n",
	} {
		osfile.Write(t, filepath.Join(empty, "proc", name), text, 0o644)
	}

	lacking := 0
	for _, machine := range machines {
		text, err := os.ReadFile(machine)
		must(t, err)
		var facts map[string]any
		must(t, json.Unmarshal(text, &facts))
		site := machineSite
		for i, when := range holdsOf(facts) {
			site += fmt.Sprintf("  hold \"%d\" {\n    when    = %s\n    for     = \"30m\"\n    message = \"x\"\n  }\n", i, when)
		}

		dir := t.TempDir()
		tests := fmt.Sprintf(notHeld, "empty /sys", empty)
		for i, changed := range []map[string]any{
			facts,
			lackFact(facts, "accelerators", ""),
			lackFact(facts, "nics", ""),
			lackFact(facts, "nics", "link"),
			lackPages(facts),
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
			tests += fmt.Sprintf(notHeld, fmt.Sprint(i), file)
		}

		osfile.WriteTree(t, dir, map[string]string{"site.hcl": site + "}\n", "held.prelettest.hcl": tests})
		runSiteTests(t, sites.TestOptions{Paths: []string{dir}})
	}
	if lacking < 90 {
		t.Errorf("got %d machines that lack something, want more", lacking)
	}
}

const notHeld = "run %q {\n  hardware = %q\n  assert { condition = !contains(plan.warnings, \"kubelet-held\") }\n}\n"

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

	return lack(changed, fact)
}

// lackPages returns the facts without the huge pages of one size, which could not be read; nil without huge pages.
func lackPages(facts map[string]any) map[string]any {
	memory, _ := facts["memory"].(map[string]any)
	pages, _ := memory["hugepages"].(map[string]any)
	if len(pages) == 0 {
		return nil
	}

	changed, memory, pages := maps.Clone(facts), maps.Clone(memory), maps.Clone(pages)
	size := slices.Sorted(maps.Keys(pages))[0]
	delete(pages, size)
	memory["hugepages"], changed["memory"] = pages, memory

	return lack(changed, "memory.hugepages["+size+"]")
}

// lack returns facts of which one more is unknown.
func lack(facts map[string]any, fact string) map[string]any {
	facts["unknown"] = append(slices.Clone(listFacts(facts, "unknown")), map[string]any{"fact": fact, "why": "it hangs"})

	return facts
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

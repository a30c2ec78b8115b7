package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// hostile is a text as a recording could have it: an element, a quote, and a character that turns the direction.
const hostile = "\"><script>hacked=1</script><img src=x onerror=hacked=1>\u202egnp.exe'"

// writeBoot writes the page of a recorded GPU machine whose last run was degraded.
func writeBoot(t *testing.T) string {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "run/prelet/status.json"), readFile(t, "testdata/status.json"))
	page := filepath.Join(t.TempDir(), "boot.html")
	c := exec.Command("../../bin/prelet", "report", "--html", page, "--config", "../../examples/gpu-training",
		"--objects", "../../examples/objects", "--hardware", "../../bin/machines/dgx-h100", "--root", root,
		"--var", "zone=az1-r07")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("prelet report: got %v, want a page\n%s", err, out)
	}

	return page
}

// writeMachine writes the page of a machine with eight GPUs behind switches, some of which have faults.
func writeMachine(t *testing.T) string {
	var f tape.Facts
	if err := json.Unmarshal(readFile(t, "../../testdata/hardware/facts/mi300x.json"), &f); err != nil {
		t.Fatal(err)
	}
	f.Accelerators[0].PCIe.Width = new(8)
	f.Accelerators[0].PCIe.FatalErrors = new(2)
	f.NICs[3].Link, f.NICs[3].SpeedGbps = new("down"), nil
	broken, held := *f.Accelerators[2].Address, *f.Accelerators[5].Address
	answers := tape.NewTape(tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		return tape.Answer{Value: json.RawMessage(q.Args)}
	}))
	var devices []string
	for _, a := range f.Accelerators {
		errs := 0
		if *a.Address == broken {
			errs = 3
		}
		devices = append(devices, fmt.Sprintf(
			`{"address":%q,"attributes":{"xgmi_hive":"1","uncorrected_errors":"%d"}}`, *a.Address, errs))
	}
	answers.Ask(t.Context(), tape.Question{
		Kind: tape.KindDetector,
		Args: `{"devices":[` + strings.Join(devices, ",") + `]}`,
	})
	p := &evaluate.Plan{
		Trace: evaluate.Trace{
			Facts: &f,
			Tape:  answers,
		},
		Diagnostics: hcl.Diagnostics{
			origin.Warning(fault.KubeletHeld, hcl.Range{}, `Hold "gpu" is true`, "GPU "+held+" needs a reset"),
			origin.Warning(fault.NodeCondition, hcl.Range{}, "Condition example.com/Fabric of the Node is Unknown", ""),
		},
	}

	page := filepath.Join(t.TempDir(), "machine.html")
	err := writeTo(page, func(w io.Writer) error {
		return printer.BootHTML(w, printer.BootView{View: printer.View{Plan: p}}, secret.NewRedactor())
	})
	if err != nil {
		t.Fatal(err)
	}

	return page
}

// The fleet of writeFleet.
const (
	changedMachines = 700 // accelerator is new
	movedMachines   = 250 // zone changes
	sameMachines    = 49
	failedMachines  = 1 // with hostile texts
)

// writeFleet writes the page of 1,000 machines in four groups.
func writeFleet(t *testing.T) string {
	r := fleet.NewReport("0.1.0")
	n := 0
	add := func(count int, g fleet.Group) {
		for range count {
			n++
			m := fleet.Member{Source: fmt.Sprintf("fleet/node%04d.prelet", n), Node: fmt.Sprintf("node%04d", n)}
			r.Add(fleet.Effect{Member: m, Group: g})
		}
	}
	add(changedMachines, fleet.Group{State: fleet.Changed, Restarts: 1, Changes: []compare.NodeChange{
		{Kind: "label", Name: "accelerator", Action: "create", To: "nvidia-h100"},
		{Kind: "file", Name: "/etc/sysctl.d/90-gpu.conf", Action: "create", Diff: "+vm.nr_hugepages = 64\n"},
	}})
	add(movedMachines, fleet.Group{State: fleet.Changed, Waits: 1, Changes: []compare.NodeChange{
		{Kind: "label", Name: "topology.kubernetes.io/zone", Action: "update", From: "az1-r07", To: "az1-r08"},
		{Kind: "taint", Name: "nvidia.com/gpu:NoSchedule", Action: "delete", From: "true"},
	}})
	add(sameMachines, fleet.Group{State: fleet.Unchanged})
	failed := fleet.FailedToRead("fleet/"+hostile, errors.New(hostile))
	failed.Code = fault.RecordingInvalid
	failed.Node = hostile
	r.Add(failed)
	r.Finish()

	page := filepath.Join(t.TempDir(), "fleet.html")
	err := writeTo(page, func(w io.Writer) error { return printer.FleetHTML(w, r, secret.NewRedactor()) })
	if err != nil {
		t.Fatal(err)
	}

	return page
}

func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}

	return errors.Join(write(f), f.Close())
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return text
}

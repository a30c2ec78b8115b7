package printer

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// pictureNode is a NUMA node in the picture of a machine.
type pictureNode struct {
	Title  string
	Groups []pictureGroup
}

// pictureGroup has the devices behind one PCI switch; "" is none.
type pictureGroup struct {
	Switch  string
	Devices []pictureDevice
}

type pictureDevice struct {
	Cells  []string // address, kind, name, and more
	Fabric string   // what GPUs of one fabric have in common
	Faults []string
	State  string // error, warning, unheard (of an accelerator: no detector reports it); "" without faults
}

// faultless are the values of detectors' attributes that are not a fault.
var faultless = map[string][]string{
	"recovery_action":         {"none"},
	"row_remap_failed":        {"false"},
	"row_remap_pending":       {"false"},
	"page_retirement_pending": {"false"},
	"uncorrected_errors":      {"0"},
	"bad_pages":               {"0"},
	"mig_after_reset":         {}, // only while it differs
	"attached":                {"true"},
	"fabric_state":            {"completed", "not-supported"},
	"fabric_health":           {"healthy"},
}

// drawMachine returns the picture of a plan's machine. A device has the faults that detectors report of it, and the
// checks of the site that name its address.
func drawMachine(p *evaluate.Plan) (out []pictureNode, err error) {
	f := *p.Facts
	devices, err := devicesByNode(f, "picture")
	attributes := deviceAttributes(p.Tape)
	switchOf := findSwitches(f.PCI)
	draw := func(title string, id int) {
		n := pictureNode{Title: title}
		for _, row := range devices[id] {
			at := switchOf(row[0])
			if last := len(n.Groups) - 1; last < 0 || n.Groups[last].Switch != at {
				n.Groups = append(n.Groups, pictureGroup{Switch: at})
			}
			g := &n.Groups[len(n.Groups)-1]
			g.Devices = append(g.Devices, drawDevice(p, row, attributes[row[0]]))
		}
		out = append(out, n)
	}
	for _, n := range f.NUMA {
		draw(nodeTitle(n), n.ID)
	}
	if len(devices[noNode]) > 0 {
		draw("no node", noNode)
	}

	return out, err
}

func drawDevice(p *evaluate.Plan, row []string, attributes map[string]string) pictureDevice {
	last := len(row) - 1
	d := pictureDevice{Cells: row[:last]}
	if attributes == nil && row[1] != "nic" {
		d.State = "unheard"
	}
	if row[last] != "" {
		d.Faults = []string{row[last]}
		d.State = "warning"
	}
	if attributes["answers"] == "false" {
		d.Faults = append(d.Faults, "does not answer")
		d.State = "warning"
	}

	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if well, isKnown := faultless[name]; isKnown && !slices.Contains(well, attributes[name]) {
			d.Faults = append(d.Faults, name+" "+attributes[name])
			d.State = "error"
		}
	}
	for _, x := range p.Diagnostics {
		code := origin.CodeOf(x)
		isCheck := code == fault.KubeletHeld || code == fault.NodeCondition || code == fault.Precondition
		if isCheck && strings.Contains(x.Summary+x.Detail, row[0]) {
			d.Faults = append(d.Faults, x.Summary)
			d.State = "error"
		}
	}

	switch {
	case attributes["xgmi_hive"] != "":
		d.Fabric = "XGMI hive " + attributes["xgmi_hive"]
	case attributes["fabric_state"] == "completed":
		d.Fabric = strings.TrimSpace("NVLink " + attributes["fabric_clique"]) // a fabric of this machine has no clique
	}

	return d
}

// deviceAttributes returns the attributes that detectors report of devices, by address; also that a GPU is missing in
// the driver.
func deviceAttributes(t *tape.Tape) map[string]map[string]string {
	out := map[string]map[string]string{}
	add := func(address string, attributes map[string]string) {
		if out[address] == nil {
			out[address] = map[string]string{}
		}
		maps.Copy(out[address], attributes)
	}
	if t == nil {
		return out
	}
	for _, e := range t.Entries() {
		var a tape.DetectorAns
		if e.Kind != tape.KindDetector || json.Unmarshal(e.Answer.Value, &a) != nil {
			continue
		}
		for _, d := range a.Devices {
			add(d.Address, d.Attributes)
		}
		missing, _ := a.Facts["gpus_missing"].([]any)
		for _, address := range missing {
			if address, isText := address.(string); isText {
				add(address, map[string]string{"attached": "false"})
			}
		}
	}

	return out
}

// findSwitches returns a function that returns the nearest bridge above an address that is above several devices.
func findSwitches(pci []tape.PCIDevice) func(address string) string {
	parents := map[string]string{}
	below := map[string]string{} // one device below each bridge, without its function
	isSwitch := map[string]bool{}
	for _, d := range pci {
		if d.Parent == nil || d.PhysFn != nil {
			continue
		}
		device, _, _ := strings.Cut(d.Address, ".")
		isSwitch[*d.Parent] = isSwitch[*d.Parent] || cmp.Or(below[*d.Parent], device) != device
		below[*d.Parent] = device
		parents[d.Address] = *d.Parent
	}

	return func(address string) string {
		for range len(parents) { // a recording may have a circle
			address = parents[address]
			if isSwitch[address] {
				return address
			}
		}

		return ""
	}
}

package hardware

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/model/tape"
)

// A topology as NCCL and RCCL dump it: real machines, with every PCI function between processor, GPUs and network
// cards.
type dump struct {
	CPUs []struct {
		NUMA   int        `xml:"numaid,attr"`
		Vendor string     `xml:"vendor,attr"`
		PCI    []dumpedPC `xml:"pci"`
	} `xml:"cpu"`
}

type dumpedPC struct {
	Bus             string     `xml:"busid,attr"`
	Class           string     `xml:"class,attr"`
	Vendor          string     `xml:"vendor,attr"`
	Device          string     `xml:"device,attr"`
	SubsystemVendor string     `xml:"subsystem_vendor,attr"`
	SubsystemDevice string     `xml:"subsystem_device,attr"`
	Speed           string     `xml:"link_speed,attr"`
	Width           int        `xml:"link_width,attr"`
	PCI             []dumpedPC `xml:"pci"`
	Nets            []struct {
		Name  string `xml:"name,attr"`
		Speed int    `xml:"speed,attr"`
		Port  int    `xml:"port,attr"`
	} `xml:"nic>net"`
}

func hex4(text string) string { return fmt.Sprintf("%04s", strings.TrimPrefix(text, "0x")) }

// machineOf makes a machine of a dump. A dump that leaves ids out (Azure's) gets those of its classes, for a function
// without ids is none; what stands for a switch that a virtual machine does not show (ffff:ff) is left out.
func machineOf(file string) (hwtree.Spec, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return hwtree.Spec{}, err
	}
	var d dump
	if err := xml.Unmarshal(data, &d); err != nil {
		return hwtree.Spec{}, fmt.Errorf("%s: %w", file, err)
	}
	s := hwtree.Spec{
		CPU: hwtree.CPU{
			Vendor:  d.CPUs[0].Vendor,
			Model:   "as dumped",
			Flags:   "fpu",
			Sockets: 1,
			Cores:   4,
			Threads: 1,
		},
		MemoryKiB: 1 << 20,
	}
	var add func(list []dumpedPC, node int, parent string)
	add = func(list []dumpedPC, node int, parent string) {
		for _, f := range list {
			class := strings.TrimPrefix(f.Class, "0x")
			id := hex4(f.Vendor) + ":" + hex4(f.Device)
			switch {
			case strings.HasPrefix(f.Bus, "ffff:"):
				add(f.PCI, node, parent)
				continue
			case f.Vendor == "" && strings.HasPrefix(class, "0302"):
				id = "10de:ffff"
			case f.Vendor == "":
				id = "15b3:101e"
			}
			function := hwtree.Device{
				Address: f.Bus,
				Parent:  parent,
				ID:      id,
				Class:   class,
				NUMA:    &node,
				Link:    &hwtree.Link{Speed: f.Speed, Width: f.Width},
			}
			if f.SubsystemVendor != "" {
				function.Subsystem = hex4(f.SubsystemVendor) + ":" + hex4(f.SubsystemDevice)
			}
			for _, n := range f.Nets {
				layer := "Ethernet"
				if strings.HasPrefix(class, "0207") {
					layer = "InfiniBand"
				}
				function.Driver = "mlx5_core"
				function.InfiniBand = append(
					function.InfiniBand,
					hwtree.Fabric{
						Name:  n.Name,
						State: "4: ACTIVE",
						Rate:  fmt.Sprintf("%d Gb/sec (4X HDR)", n.Speed/1000),
						Layer: layer,
					},
				)
			}
			s.Devices = append(s.Devices, function)
			add(f.PCI, node, f.Bus)
		}
	}
	for _, c := range d.CPUs {
		s.CPU.Sockets = max(s.CPU.Sockets, c.NUMA+1)
		add(c.PCI, c.NUMA, "")
	}
	return s, nil
}

// dumps are the files of topologies, by the name of the machine.
func dumps() map[string]string {
	files, _ := filepath.Glob(machines + "/nccl/*/*.xml")
	byName := map[string]string{}
	for _, file := range files {
		byName["nccl-"+filepath.Base(filepath.Dir(file))+"-"+strings.TrimSuffix(filepath.Base(file), ".xml")] = file
	}
	return byName
}

// TestDumpsAgree compares facts with what NCCL saw itself, element by element of its dump: where each GPU and card
// hangs, how wide its link is, and how fast its port. It reads the dump as a stream, and shares nothing with what
// made the machine.
func TestDumpsAgree(t *testing.T) {
	trees := recorded(t)
	for name, file := range dumps() {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, ReadOptions{Tree: trees[name]})
			gpus, ports := compare(t, file, facts)
			accelerators := 0
			for _, a := range facts.Accelerators {
				if a.Kind == "gpu" {
					accelerators++
				}
			}
			if accelerators != gpus || gpus == 0 {
				t.Errorf("got %d GPUs, want %d as in the dump", accelerators, gpus)
			}
			t.Logf("%d GPUs, %d ports, %d functions", gpus, ports, len(facts.PCI))
		})
	}
}

// compare walks a dump's elements, and counts GPUs and ports.
func compare(t *testing.T, file string, facts tape.Facts) (gpus, ports int) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	node, inside := "", []string{} // the functions around an element
	decoder := xml.NewDecoder(f)
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return gpus, ports
		}
		must(t, err)
		if end, ok := token.(xml.EndElement); ok && end.Name.Local == "pci" {
			inside = inside[:len(inside)-1]
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attr := map[string]string{}
		for _, a := range element.Attr {
			attr[a.Name.Local] = a.Value
		}
		at := attr["busid"]
		switch element.Name.Local {
		case "cpu":
			node = attr["numaid"]
		case "pci":
			inside = append(inside, at)
			nics := cardsAt(facts, at)
			i := slices.IndexFunc(facts.Accelerators, func(a tape.Accelerator) bool { return *a.Address == at })
			isGPU := strings.HasPrefix(attr["class"], "0x03") || strings.HasPrefix(attr["class"], "0x12")
			switch {
			case isGPU && i < 0:
				t.Errorf("want a GPU at %s, got none", at)
			case isGPU:
				gpus++
				a := facts.Accelerators[i]
				same(t, at, node, attr, a.NUMA, a.PCIe)
			case strings.HasPrefix(attr["class"], "0x02") && len(nics) == 0:
				t.Errorf("want a card at %s, got none", at)
			case strings.HasPrefix(attr["class"], "0x02"):
				same(t, at, node, attr, nics[0].NUMA, nics[0].PCIe)
			}
		case "net":
			if len(inside) == 0 {
				continue // a bond, which is not a card
			}
			ports++
			nics := cardsAt(facts, inside[len(inside)-1])
			if len(nics) != 1 || len(nics[0].InfiniBand) != 1 {
				t.Errorf("%s: got %d cards, want one for a port", attr["name"], len(nics))
				continue
			}
			p := nics[0].InfiniBand[0]
			if mbps := strconv.FormatFloat(
				*p.RateGbps*1000,
				'f',
				-1,
				64,
			); *p.Device != attr["name"] || mbps != attr["speed"] ||
				*p.State != "active" {
				t.Errorf("port %s %s at %s Mbit/s, want %s at %s as in the dump",
					*p.Device, *p.State, mbps, attr["name"], attr["speed"])
			}
		}
	}
}

func cardsAt(facts tape.Facts, address string) []tape.NIC {
	return slices.DeleteFunc(slices.Clone(facts.NICs), func(n tape.NIC) bool { return *n.Address != address })
}

// same compares a device's place and link: "32.0 GT/s PCIe", 16 and node 1.
func same(t *testing.T, at, node string, attr map[string]string, numa *int, link tape.PCIe) {
	t.Helper()
	if number(numa) != node {
		t.Errorf("%s: got node %s, want %s as in the dump", at, number(numa), node)
	}
	speed, _, _ := strings.Cut(attr["link_speed"], " ")
	if want := strings.TrimSuffix(speed, ".0"); number(link.GTs) != want || number(link.Width) != attr["link_width"] {
		t.Errorf("%s: %s GT/s ×%s, and the dump says %s ×%s",
			at, number(link.GTs), number(link.Width), want, attr["link_width"])
	}
}

package hardware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// portFolder is where a port tells of itself, as evidence.
const portFolder = pciFolder + "/{address}/infiniband/*/ports/*"

// infiniBand lists the RDMA ports of a function, sorted by device and number. RoCE's and EFA's are among them: what they
// speak is their link layer. Source: Documentation/ABI/stable/sysfs-class-infiniband.
func (d *detection) infiniBand(f function, fact string) []world.InfiniBandPort {
	ports := []world.InfiniBandPort{}
	devices, err := d.names(f.folder + "/infiniband")
	if err != nil && !absent(err) {
		d.failed(fact+".infiniband", err)
	}
	for _, device := range devices {
		folder := f.folder + "/infiniband/" + device
		numbers, err := d.names(folder + "/ports")
		if err != nil {
			d.failed(fact+".infiniband["+device+"]", err)
			continue
		}
		if text, err := d.text(folder + "/node_guid"); err == nil && strings.Trim(text, "0:") != "" {
			d.guids[device] = text
			d.saw("guids", pciFolder+"/*/infiniband/*/node_guid")
		}
		var order []int
		for _, name := range numbers {
			if n, err := strconv.Atoi(name); err == nil && n > 0 {
				order = append(order, n)
			}
		}
		slices.Sort(order)
		for _, n := range order {
			port := d.port(folder+"/ports/"+strconv.Itoa(n), fmt.Sprintf("%s.infiniband[%s/%d]", fact, device, n))
			port.Device, port.Port = &device, &n
			ports = append(ports, port)
		}
	}
	if len(ports) > 0 {
		d.saw("nics[].infiniband", portFolder+"/")
	}
	return ports
}

// port reads one port. A state that cannot be read is a failure; what a driver leaves empty is not known.
func (d *detection) port(folder, fact string) world.InfiniBandPort {
	var port world.InfiniBandPort
	if text, err := d.text(folder + "/state"); err != nil {
		d.failed(fact+".state", err)
	} else if port.State = portState(text); port.State == nil {
		d.note(fact+".state", fmt.Sprintf("the driver gives none (%q)", text))
	}
	if text, err := d.text(folder + "/rate"); err != nil {
		d.failed(fact+".rate_gbps", err)
	} else if port.RateGbps = portRate(text); port.RateGbps == nil {
		d.note(fact+".rate_gbps", fmt.Sprintf("the driver gives none (%q)", text))
	}
	if text, err := d.text(folder + "/link_layer"); err != nil || text == "" {
		d.note(fact+".link_layer", "the driver gives none") // Linux tells it since 2.6.37
	} else {
		layer := strings.ToLower(text)
		port.LinkLayer = &layer
	}
	return port
}

// portState is the word of "4: ACTIVE", in lower case.
func portState(text string) *string {
	_, word, ok := strings.Cut(text, ": ")
	if !ok || word == "" {
		return nil
	}
	word = strings.ToLower(word)
	return &word
}

// portRate is the number of "200 Gb/sec (4X HDR)".
func portRate(text string) *float64 {
	number, unit, _ := strings.Cut(text, " ")
	gbps, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || !(gbps > 0 && gbps < maxMbps/1000) {
		return nil
	}
	return &gbps
}

func isActive(p world.InfiniBandPort) bool { return p.State != nil && *p.State == "active" }

// activeRate is the rate of InfiniBand's own ports, not of RoCE's, whose interface tells the speed.
func activeRate(ports []world.InfiniBandPort) *float64 {
	for _, p := range ports {
		if isActive(p) && p.LinkLayer != nil && *p.LinkLayer == "infiniband" {
			return p.RateGbps
		}
	}
	return nil
}

// portsOf are the ports behind one of several interfaces of a card: the kernel counts an interface's from 0. Where it
// does not say, all.
func (d *detection) portsOf(name string, ports []world.InfiniBandPort) []world.InfiniBandPort {
	text, err := d.text(netFolder + "/" + name + "/dev_port")
	n, convErr := strconv.Atoi(text)
	if err != nil || convErr != nil {
		return ports
	}
	mine := []world.InfiniBandPort{}
	for _, p := range ports {
		if *p.Port == n+1 {
			mine = append(mine, p)
		}
	}
	return mine
}

package hardware

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

// portFolder is the folder of a port, as evidence.
const portFolder = pciFolder + "/{address}/infiniband/*/ports/*"

// readInfiniBand lists the RDMA ports of a function, sorted by device and number. They include those of RoCE and EFA,
// with another link layer. Source: Documentation/ABI/stable/sysfs-class-infiniband.
func (d *detection) readInfiniBand(f function, fact string) []tape.InfiniBandPort {
	ports := []tape.InfiniBandPort{}

	devices, err := d.list(f.folder + "/infiniband")
	d.noteFailure(fact+".infiniband", err)
	d.noteFailure("guids", err)

	for _, device := range devices {
		folder := f.folder + "/infiniband/" + device

		guid, err := d.readText(folder + "/node_guid")
		switch {
		case isAbsent(err):
			d.note("guids["+device+"]", "its driver gives none")
		case err != nil:
			d.noteError("guids["+device+"]", err)
		case strings.Trim(guid, "0:") != "":
			d.guids[device] = guid
			d.setSource("guids", pciFolder+"/*/infiniband/*/node_guid")
		}

		numbers, err := d.listNumbers(folder+"/ports", "")
		if err != nil {
			d.noteError(fact+".infiniband["+device+"]", err)
			continue
		}

		for _, n := range numbers {
			portFact := fmt.Sprintf("%s.infiniband[%s/%d]", fact, device, n)
			port := d.readPort(folder+"/ports/"+strconv.Itoa(n), portFact)
			port.Device = &device
			port.Port = &n
			ports = append(ports, port)
		}
	}

	if len(ports) > 0 {
		d.setSource("nics[].infiniband", portFolder+"/")
	}

	return ports
}

// readPort reads one port. A state or rate that cannot be read is a failure; a field that the driver leaves empty is
// unknown.
func (d *detection) readPort(folder, fact string) tape.InfiniBandPort {
	var port tape.InfiniBandPort

	state, err := d.readText(folder + "/state")
	port.State = parsePortState(state)
	d.notePort(fact+".state", state, port.State == nil, err)

	rate, err := d.readText(folder + "/rate")
	port.RateGbps = parsePortRate(rate)
	d.notePort(fact+".rate_gbps", rate, port.RateGbps == nil, err)

	layer, err := d.readText(folder + "/link_layer")
	if err != nil || layer == "" {
		d.note(fact+".link_layer", "the driver gives none") // Linux has it since 2.6.37
	} else {
		layer = strings.ToLower(layer)
		port.LinkLayer = &layer
	}

	return port
}

func (d *detection) notePort(fact, text string, isUnknown bool, err error) {
	switch {
	case err != nil:
		d.noteError(fact, err)
	case isUnknown:
		d.note(fact, fmt.Sprintf("the driver gives none (%q)", text))
	}
}

// parsePortState returns the word of "4: ACTIVE", in lower case.
func parsePortState(text string) *string {
	_, word, _ := strings.Cut(text, ": ")
	if word == "" {
		return nil
	}

	word = strings.ToLower(word)

	return &word
}

// parsePortRate returns the number of "200 Gb/sec (4X HDR)".
func parsePortRate(text string) *float64 {
	return parseSpeed(text, "Gb/sec", maxMbps/1000)
}

func isActive(p tape.InfiniBandPort) bool {
	return p.State != nil && *p.State == "active"
}

// activeRate returns the rate of an active InfiniBand port. The speed of RoCE is that of the interface.
func activeRate(ports []tape.InfiniBandPort) *float64 {
	for _, p := range ports {
		if isActive(p) && p.LinkLayer != nil && *p.LinkLayer == "infiniband" {
			return p.RateGbps
		}
	}

	return nil
}

// selectPorts returns the ports of one of several interfaces of a card, all if the kernel does not report its number.
// The kernel counts an interface's port from 0.
func (d *detection) selectPorts(name string, ports []tape.InfiniBandPort) []tape.InfiniBandPort {
	text, _ := d.readText(netFolder + "/" + name + "/dev_port")

	n, err := strconv.Atoi(text)
	if err != nil || len(ports) < 2 {
		return ports
	}

	selected := []tape.InfiniBandPort{}
	for _, p := range ports {
		if *p.Port == n+1 {
			selected = append(selected, p)
		}
	}

	return selected
}

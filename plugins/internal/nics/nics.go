// Package nics reads a network card's function from sysfs: interface, link, speed, virtual functions and InfiniBand.
// The detectors of network cards use it. It reads only below the root that it is given.
package nics

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// Read reads a network card's function: everything but name, vendor and model.
func Read(r sdk.Root, card *sdk.Device) {
	card.Kind = "nic"
	if physical := card.PhysicalFunction(); physical != "" {
		card.Attributes["physical_function"] = physical
	} else {
		card.ReadSRIOV()
	}

	for i, name := range interfaces(r, card.Path("net")) {
		if i == 0 {
			readPort(card, r, card.Path("net/"+name), name)
			continue
		}

		prefix := fmt.Sprintf("port%d.", i+1) // ConnectX-3 has several ports in one function
		addPort(card, r, card.Path("net/"+name), name, prefix)
	}
	readInfiniBand(card, r)
}

// uplink matches the names of physical ports. A card in switchdev mode also shows representors, such as pf0vf3.
var uplink = regexp.MustCompile(`^p\d+(s\d+)?$`)

// interfaces returns the names of the interfaces in a folder: physical ports first, by number. It leaves out
// representors.
func interfaces(r sdk.Root, dir string) []string {
	type port struct {
		name     string
		isUplink bool
		number   int64
	}
	var ports []port

	for _, name := range r.Names(dir) {
		folder := dir + "/" + name
		physical, _ := r.Text(folder + "/phys_port_name")
		isUplink := uplink.MatchString(physical)
		if physical != "" && !isUplink {
			continue
		}

		number, _ := r.Int(folder + "/dev_port")
		ports = append(ports, port{name, isUplink, number})
	}

	slices.SortStableFunc(ports, func(a, b port) int {
		switch {
		case a.isUplink && !b.isUplink:
			return -1
		case b.isUplink && !a.isUplink:
			return 1
		}

		byNumber := cmp.Compare(a.number, b.number)
		byName := strings.Compare(a.name, b.name)
		return cmp.Or(byNumber, byName)
	})

	var names []string
	for _, p := range ports {
		names = append(names, p.name)
	}

	return names
}

// addPort adds a port as attributes with a prefix.
func addPort(card *sdk.Device, r sdk.Root, dir, name, prefix string) {
	port := sdk.Device{Evidence: map[string]string{}}
	readPort(&port, r, dir, name)

	card.Attributes[prefix+"interface"] = name
	if port.Link != "" {
		card.Attributes[prefix+"link"] = port.Link
	}
	if port.SpeedGbps > 0 {
		card.Attributes[prefix+"speed_gbps"] = fmt.Sprint(port.SpeedGbps)
	}
}

// readPort reads the link of an interface. Its speed is valid only while the link is up: otherwise drivers return -1,
// the last speed, or nothing.
func readPort(d *sdk.Device, r sdk.Root, dir, name string) {
	d.Interface = name
	d.Evidence["interface"] = dir

	link := readLink(r, dir)
	if link == "" {
		return
	}
	d.Link = link
	d.Evidence["link"] = dir + "/operstate"

	file := dir + "/speed"
	mbps, err := r.Int(file)
	isValid := err == nil && mbps > 0 && mbps < 1e8 // older kernels write -1 as 4294967295
	if link == "up" && isValid {
		d.SpeedGbps = float64(mbps) / 1000
		d.Evidence["speed_gbps"] = file
	}
}

// readLink returns up, down or nothing. A driver that does not report the state leaves it unknown; other states, such
// as dormant, are not up.
func readLink(r sdk.Root, dir string) string {
	state, _ := r.Text(dir + "/operstate")
	carrier, err := r.Int(dir + "/carrier")
	hasCarrier := err == nil && carrier == 1
	isKnown := state != "" && state != "unknown"

	switch {
	case state == "up":
		return "up"
	case state == "unknown" && hasCarrier:
		return "up"
	case isKnown || err == nil:
		return "down"
	}

	return ""
}

// readInfiniBand reads the InfiniBand device of a function. ConnectX has one on Ethernet too (RoCE).
func readInfiniBand(card *sdk.Device, r sdk.Root) {
	names := r.Names(card.Path("infiniband"))
	if len(names) == 0 {
		return
	}

	name := names[0] // a function has one
	dir := card.Path("infiniband/" + name)
	card.Attributes["infiniband.device"] = name
	card.ReadOptional("infiniband.firmware", dir+"/fw_ver")
	card.ReadOptional("infiniband.board", dir+"/board_id")

	for _, port := range r.Names(dir + "/ports") {
		at := dir + "/ports/" + port
		prefix := "infiniband.port" + port + "."
		read := func(name string) string {
			return card.ReadOptional(prefix+name, at+"/"+name)
		}
		layer := read("link_layer")
		state := read("state")
		rate := read("rate")

		// The interface has set link and speed already, unless the machine does not use IPoIB.
		hasLink := card.SpeedGbps > 0 && card.Link != ""
		isLinkKnown := layer == "InfiniBand" && state != ""
		if isLinkKnown && !hasLink {
			setInfiniBandLink(card, state, rate, at)
		}
	}
}

// setInfiniBandLink sets link and speed from a port's state, such as "4: ACTIVE", and rate, such as "400 Gb/sec (4X
// NDR)".
func setInfiniBandLink(card *sdk.Device, state, rate, dir string) {
	card.Link = "down"
	card.Evidence["link"] = dir + "/state"
	if !strings.HasPrefix(state, "4:") {
		return
	}
	card.Link = "up"

	number, _, _ := strings.Cut(rate, " ")
	gbps, err := strconv.ParseFloat(number, 64)
	if err == nil && gbps > 0 {
		card.SpeedGbps = gbps
		card.Evidence["speed_gbps"] = dir + "/rate"
	}
}

// Package nics reads what sysfs tells of a network card: interface, link, speed, virtual functions, InfiniBand. It reads
// below the root that it is given.
package nics

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// Card returns what sysfs tells of a network card's function: an sdk.Device without name, vendor and model.
func Card(r sdk.Root, d sdk.PCIDevice) sdk.Device {
	dir := "/sys/bus/pci/devices/" + d.Address
	out := sdk.Device{Address: d.Address, Kind: new("nic"), NUMA: d.NUMA, Attributes: map[string]string{}, Evidence: map[string]string{}}
	if d.Driver != "" {
		out.Driver = new(d.Driver)
	}
	sriov(r, dir, &out)
	names := interfaces(r, dir)
	if len(names) > 0 {
		port(r, dir+"/net/"+names[0], names[0], &out)
	}
	for i, name := range names[min(1, len(names)):] { // cards whose ports share a function: ConnectX-3
		var other sdk.Device
		other.Evidence = map[string]string{}
		port(r, dir+"/net/"+name, name, &other)
		key := "port" + strconv.Itoa(i+2) + "."
		out.Attributes[key+"interface"] = name
		if other.Link != nil {
			out.Attributes[key+"link"] = *other.Link
		}
		if other.SpeedGbps != nil {
			out.Attributes[key+"speed_gbps"] = strconv.FormatFloat(*other.SpeedGbps, 'f', -1, 64)
		}
	}
	infiniband(r, dir, &out)
	return out
}

// Virtual tells whether a function is a virtual one, and whose.
func Virtual(r sdk.Root, d sdk.PCIDevice) (physical string, yes bool) {
	physical, err := r.Link("/sys/bus/pci/devices/" + d.Address + "/physfn")
	return physical, err == nil
}

func sriov(r sdk.Root, dir string, out *sdk.Device) {
	if physical, err := r.Link(dir + "/physfn"); err == nil {
		out.Attributes["physical_function"] = physical
		return
	}
	// A card that cannot have virtual functions has no such file: that is not zero, and nobody asks further.
	total, err := r.Int(dir + "/sriov_totalvfs")
	if err != nil || total < 0 {
		return
	}
	out.SRIOVTotalVFs = new(int(total))
	out.Evidence["sriov_total_vfs"] = dir + "/sriov_totalvfs"
	if now, err := r.Int(dir + "/sriov_numvfs"); err == nil && now >= 0 {
		out.SRIOVNumVFs = new(int(now))
		out.Evidence["sriov_num_vfs"] = dir + "/sriov_numvfs"
	}
}

// uplink is the name of a physical port; those of representors, which a card in switchdev mode shows beside it, are
// pf0vf3 and the like.
var uplink = regexp.MustCompile(`^p\d+(s\d+)?$`)

// interfaces returns a function's interfaces: its physical ports first, by number.
func interfaces(r sdk.Root, dir string) []string {
	type one struct {
		name string
		rank int
		port int64
	}
	var list []one
	for _, name := range r.Names(dir + "/net") {
		x := one{name: name, rank: 1}
		physical, err := r.Text(dir + "/net/" + name + "/phys_port_name")
		switch {
		case err == nil && uplink.MatchString(physical):
			x.rank = 0
		case err == nil && physical != "":
			continue // a representor
		}
		x.port, _ = r.Int(dir + "/net/" + name + "/dev_port")
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b one) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.port, b.port), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = x.name
	}
	return names
}

// port reads the link. A speed is only true while the link is up: a card without one says -1, the last speed, or
// nothing.
func port(r sdk.Root, dir, name string, out *sdk.Device) {
	out.Interface = new(name)
	out.Evidence["interface"] = dir
	state, _ := r.Text(dir + "/operstate")
	if state != "up" && state != "down" { // unknown: the driver does not say; testing, dormant, lowerlayerdown: not up
		if carrier, err := r.Int(dir + "/carrier"); err == nil && state == "unknown" && carrier == 1 {
			state = "up"
		} else if state != "" && state != "unknown" || err == nil {
			state = "down"
		}
	}
	if state != "up" && state != "down" {
		return
	}
	out.Link = new(state)
	out.Evidence["link"] = dir + "/operstate"
	if state == "down" {
		return
	}
	if mbps, err := r.Int(dir + "/speed"); err == nil && mbps > 0 && mbps < 1e8 { // 4294967295 is -1 to older kernels
		out.SpeedGbps = new(float64(mbps) / 1000)
		out.Evidence["speed_gbps"] = dir + "/speed"
	}
}

// infiniband reads what the InfiniBand side says, which ConnectX has on Ethernet too (RoCE).
func infiniband(r sdk.Root, dir string, out *sdk.Device) {
	for _, name := range r.Names(dir + "/infiniband") {
		at := dir + "/infiniband/" + name
		say := func(key, file string) string {
			s, err := r.Text(at + "/" + file)
			if err != nil || s == "" {
				return ""
			}
			out.Attributes["infiniband."+key] = s
			out.Evidence["attributes.infiniband."+key] = at + "/" + file
			return s
		}
		out.Attributes["infiniband.device"] = name
		say("firmware", "fw_ver")
		say("board", "board_id")
		for _, port := range r.Names(at + "/ports") {
			layer := say("port"+port+".link_layer", "ports/"+port+"/link_layer")
			state := say("port"+port+".state", "ports/"+port+"/state")
			rate := say("port"+port+".rate", "ports/"+port+"/rate")
			if layer != "InfiniBand" || out.SpeedGbps != nil && out.Link != nil {
				continue
			}
			// 4: ACTIVE. Without IPoIB there is no interface that would tell.
			link := "down"
			if strings.HasPrefix(state, "4:") {
				link = "up"
				number, _, _ := strings.Cut(rate, " ")
				if gbps, err := strconv.ParseFloat(number, 64); err == nil && gbps > 0 {
					out.SpeedGbps = new(gbps)
					out.Evidence["speed_gbps"] = at + "/ports/" + port + "/rate"
				}
			}
			if state != "" {
				out.Link = new(link)
				out.Evidence["link"] = at + "/ports/" + port + "/state"
			}
		}
		return // a function has one
	}
}

package hardware

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prelet/prelet/internal/hardware/names"
	"github.com/prelet/prelet/internal/world"
)

// nics makes network cards of a function: one for each of its interfaces, one without where it has none (bound to
// vfio-pci, or without a driver).
func (d *detection) nics(f function) []world.NIC {
	interfaces, err := d.interfacesOf(f)
	fact := "nics[" + f.Address + "]"
	card := world.NIC{Device: &f.Device, Driver: f.Driver, NUMA: f.NUMA, Address: &f.Address, SRIOV: d.sriov(f, fact), Vendor: d.vendor(f, fact)}
	if f.NUMA == nil {
		d.note(fact+".numa", "the firmware gives no NUMA node")
	}
	if entry, ok := names.Lookup(f.Device, f.subsystem); ok {
		card.Model = &entry.Name
	} else {
		d.note(fact+".model", "the table does not name "+f.Device)
	}
	if len(interfaces) == 0 {
		d.fabric(f, fact, &card, err)
		return []world.NIC{card}
	}
	cards := make([]world.NIC, 0, len(interfaces))
	for _, name := range interfaces {
		port, at := card, fact
		if len(interfaces) > 1 {
			at = "nics[" + f.Address + " " + name + "]"
		}
		port.Interface = &name
		port.Link = d.link(name, at+".link")
		switch {
		case port.Link != nil && *port.Link == "down":
			d.note(at+".speed_gbps", "the link is down")
		default:
			port.SpeedGbps = d.speed(name, at+".speed_gbps")
		}
		cards = append(cards, port)
	}
	return cards
}

// isRepresentor knows, by its port's name (pf0vf1, c1pf0sf88), an interface that stands for a virtual function or a
// subfunction of a card in switchdev mode: it lies in the card's own folder and is no port of the card.
func isRepresentor(port string) bool {
	_, function, ok := strings.Cut(port, "pf")
	return ok && (strings.Contains(function, "vf") || strings.Contains(function, "sf"))
}

// interfacesOf lists the interfaces below a function. Virtio has a device of its own between the two.
func (d *detection) interfacesOf(f function) ([]string, error) {
	list, err := d.names(f.folder + "/net")
	if absent(err) && f.vendorID == "1af4" {
		inside, dirErr := d.names(f.folder)
		for _, name := range inside {
			if _, ok := trailingNumber(name, "virtio"); ok {
				list, dirErr = d.names(f.folder + "/" + name + "/net")
				break
			}
		}
		err = dirErr
	}
	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(name string) bool {
			port, err := d.text("sys/class/net/" + name + "/phys_port_name")
			return err == nil && isRepresentor(port)
		})
	}
	return list, err
}

// link is "up" or "down". The kernel's operstate decides; a driver that does not keep it says "unknown", then the carrier
// does, which cannot be read while the interface is administratively down.
// Source: Documentation/ABI/testing/sysfs-class-net and RFC 2863, which names the states.
func (d *detection) link(name, fact string) *string {
	state, err := d.text("sys/class/net/" + name + "/operstate")
	if err != nil {
		d.failed(fact, err)
		return nil
	}
	up := state == "up"
	if state == "unknown" {
		carrier, err := d.text("sys/class/net/" + name + "/carrier")
		if err != nil && !errors.Is(err, syscall.EINVAL) {
			d.failed(fact, err)
			return nil
		}
		up = err == nil && carrier == "1"
	}
	word := "down"
	if up {
		word = "up"
	}
	return &word
}

// maxMbps is far above any card; some drivers give 65535 or 4294967295 for "unknown", both of which are no speed.
const maxMbps = 10_000_000

// speed is in Gbit/s. There are five ways in which drivers say that they do not know.
func (d *detection) speed(name, fact string) *float64 {
	text, err := d.text("sys/class/net/" + name + "/speed")
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) {
		d.note(fact, "the driver gives no speed")
		return nil
	}
	if err != nil {
		d.failed(fact, err)
		return nil
	}
	mbps, err := strconv.ParseInt(text, 10, 64)
	if err != nil || mbps <= 0 || mbps == math.MaxUint16 || mbps > maxMbps {
		d.note(fact, fmt.Sprintf("the driver gives no speed (%q)", text))
		return nil
	}
	gbps := float64(mbps) / 1000
	return &gbps
}

// fabric fills link and speed of a card without an interface, from its InfiniBand port where it has one.
func (d *detection) fabric(f function, fact string, card *world.NIC, netErr error) {
	devices, err := d.names(f.folder + "/infiniband")
	if err == nil && len(devices) > 0 {
		port := f.folder + "/infiniband/" + devices[0] + "/ports/1"
		state, err := d.text(port + "/state")
		if err != nil {
			d.failed(fact+".link", err)
			d.failed(fact+".speed_gbps", err)
			return
		}
		word := "down"
		if strings.Contains(state, "ACTIVE") { // "4: ACTIVE"
			word = "up"
		}
		card.Link = &word
		if word == "down" {
			d.note(fact+".speed_gbps", "the link is down")
			return
		}
		rate, err := d.text(port + "/rate") // "200 Gb/sec (4X HDR)"
		number, unit, _ := strings.Cut(rate, " ")
		gbps, parseErr := strconv.ParseFloat(number, 64)
		switch {
		case err != nil:
			d.failed(fact+".speed_gbps", err)
		case parseErr != nil || !strings.HasPrefix(unit, "Gb/sec") || !(gbps > 0 && gbps < maxMbps/1000):
			d.note(fact+".speed_gbps", fmt.Sprintf("the driver gives no speed (%q)", rate))
		default:
			card.SpeedGbps = &gbps
		}
		return
	}
	why := "no driver is bound"
	if f.Driver != nil {
		why = "driver " + *f.Driver + " gives it no interface"
	}
	for _, field := range []string{".interface", ".link", ".speed_gbps"} {
		if netErr != nil && !absent(netErr) {
			d.failed(fact+field, netErr)
		} else {
			d.note(fact+field, why)
		}
	}
}

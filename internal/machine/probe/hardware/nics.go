package hardware

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prelet/prelet/internal/model/tape"
)

const netFolder = "sys/class/net"

// makeNICs makes network cards of a function: one for each of its interfaces, or one if it has no interface (bound to
// vfio-pci, or without a driver).
func (d *detection) makeNICs(f function) []tape.NIC {
	const list = "nics"

	fact := list + "[" + f.Address + "]"
	card := tape.NIC{
		Vendor:     d.vendorOf(f, list),
		Device:     &f.Device,
		Driver:     f.Driver,
		NUMA:       f.NUMA,
		Address:    &f.Address,
		SRIOV:      d.readSRIOV(f, list),
		PCIe:       d.readPCIe(f, list),
		InfiniBand: d.readInfiniBand(f, fact),
	}

	if f.NUMA == nil {
		d.note(fact+".numa", "the firmware gives no NUMA node")
	}

	if entry, exists := nameOf(f.Device, f.subsystem); exists {
		card.Model = &entry.name
		d.setEachSourceText(list, f.Address, ".model", entry.source)
	} else {
		d.note(fact+".model", "the table does not name "+f.Device)
	}

	interfaces, err := d.listInterfaces(f)
	if len(interfaces) == 0 {
		d.setFabric(&card, fact, err)
		return []tape.NIC{card}
	}

	var cards []tape.NIC

	for _, name := range interfaces {
		port := card
		if len(interfaces) > 1 {
			fact = list + "[" + f.Address + " " + name + "]"
			port.InfiniBand = d.selectPorts(name, card.InfiniBand)
		}

		d.setInterface(&port, name, fact)
		cards = append(cards, port)
	}

	return cards
}

// setInterface sets the name, link and speed of an interface.
func (d *detection) setInterface(port *tape.NIC, name, fact string) {
	address := *port.Address
	port.Interface = &name
	port.Link = d.readLinkState(name, fact+".link")

	d.setEachSource("nics", address, ".interface", netFolder+"/{interface}")
	d.setEachSource("nics", address, ".link", netFolder+"/{interface}/operstate")
	d.setEachSource("nics", address, ".speed_gbps", netFolder+"/{interface}/speed")

	rate := activeRate(port.InfiniBand)

	switch {
	case port.Link != nil && *port.Link == "down":
		d.note(fact+".speed_gbps", "the link is down")
	case rate != nil:
		// IP over InfiniBand has no speed before Linux 4.19, and that of its link afterwards.
		port.SpeedGbps = rate
		d.evidence["nics["+address+"].speed_gbps"] = "/" + portFolder + "/rate"
	default:
		port.SpeedGbps = d.readSpeed(name, fact+".speed_gbps")
	}
}

// isRepresentor reports whether a port's name (pf0vf1, c1pf0sf88) is that of a virtual function or a subfunction of a
// card in switchdev mode. Its interface is in the card's folder, but is not a port of the card.
func isRepresentor(port string) bool {
	_, function, ok := strings.Cut(port, "pf")
	isVirtual := strings.Contains(function, "vf") || strings.Contains(function, "sf")

	return ok && isVirtual
}

// listInterfaces lists the interfaces of a function. Virtio has another device between the two.
func (d *detection) listInterfaces(f function) ([]string, error) {
	list, err := d.list(f.folder + "/net")
	if isAbsent(err) && f.vendorID == "1af4" {
		var devices []int

		devices, err = d.listNumbers(f.folder, "virtio")
		if len(devices) > 0 {
			virtio := "/virtio" + strconv.Itoa(devices[0])
			list, err = d.list(f.folder + virtio + "/net")
		}
	}

	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(name string) bool {
			port, err := d.readText(netFolder + "/" + name + "/phys_port_name")
			return err == nil && isRepresentor(port)
		})
	}

	return list, err
}

// readLinkState returns "up" or "down" by the kernel's operstate. A driver that does not maintain it reports
// "unknown"; then the carrier decides, which cannot be read while the interface is administratively down.
// Source: Documentation/ABI/testing/sysfs-class-net and RFC 2863, which names the states.
func (d *detection) readLinkState(name, fact string) *string {
	state, err := d.readText(netFolder + "/" + name + "/operstate")
	if err != nil {
		d.noteError(fact, err)
		return nil
	}

	isUp := state == "up"

	if state == "unknown" {
		carrier, err := d.readText(netFolder + "/" + name + "/carrier")
		if err != nil && !errors.Is(err, syscall.EINVAL) {
			d.noteError(fact, err)
			return nil
		}

		isUp = carrier == "1"
	}

	return formatLink(isUp)
}

func formatLink(isUp bool) *string {
	word := "down"
	if isUp {
		word = "up"
	}

	return &word
}

// maxMbps is more than the speed of any card. Some drivers report 65535 or 4294967295 for an unknown speed.
const maxMbps = 10_000_000

// readSpeed returns a speed in Gbit/s. Drivers report an unknown speed in five ways.
func (d *detection) readSpeed(name, fact string) *float64 {
	text, err := d.readText(netFolder + "/" + name + "/speed")

	switch {
	case errors.Is(err, syscall.EINVAL),
		errors.Is(err, syscall.EOPNOTSUPP):
		d.note(fact, "the driver gives no speed")
		return nil
	case err != nil:
		d.noteError(fact, err)
		return nil
	}

	mbps, err := strconv.ParseInt(text, 10, 64)

	isSpeed := mbps > 0 && mbps != math.MaxUint16 && mbps <= maxMbps
	if err != nil || !isSpeed {
		d.note(fact, fmt.Sprintf("the driver gives no speed (%q)", text))
		return nil
	}

	gbps := float64(mbps) / 1000

	return &gbps
}

// setFabric sets link and speed of a card without an interface, from its InfiniBand port if it has one. netErr is the
// error of listing its interfaces.
func (d *detection) setFabric(card *tape.NIC, fact string, netErr error) {
	fields := []string{".link", ".speed_gbps", ".interface"}

	if len(card.InfiniBand) == 0 {
		why := "no driver is bound"
		if card.Driver != nil {
			why = "driver " + *card.Driver + " gives it no interface"
		}

		for _, field := range fields {
			if netErr != nil && !isAbsent(netErr) {
				d.noteError(fact+field, netErr)
			} else {
				d.note(fact+field, why)
			}
		}

		return
	}

	d.note(fact+".interface", "it has InfiniBand ports and no network interface")

	for _, field := range fields[:2] {
		d.setEachSource("nics", *card.Address, field, portFolder+"/{state,rate}")
	}

	first := max(slices.IndexFunc(card.InfiniBand, isActive), 0)
	port := card.InfiniBand[first]

	switch {
	case isActive(port):
		card.Link, card.SpeedGbps = formatLink(true), port.RateGbps
		if card.SpeedGbps == nil {
			d.note(fact+".speed_gbps", "its InfiniBand port reports no rate")
		}
	case port.State == nil:
		d.note(fact+".link", "its InfiniBand port reports no state")
		d.note(fact+".speed_gbps", "its InfiniBand port reports no rate")
	default:
		card.Link = formatLink(false)
		d.note(fact+".speed_gbps", "the link is down")
	}
}

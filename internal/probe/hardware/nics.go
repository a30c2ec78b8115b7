package hardware

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prelet/prelet/internal/world"
)

const netFolder = "sys/class/net"

// nics makes network cards of a function: one for each of its interfaces, one without where it has none (bound to
// vfio-pci, or without a driver).
func (d *detection) nics(f function) []world.NIC {
	interfaces, err := d.interfacesOf(f)
	fact := "nics[" + f.Address + "]"
	card := world.NIC{Device: &f.Device, Driver: f.Driver, NUMA: f.NUMA, Address: &f.Address, SRIOV: d.sriov(f, "nics"), PCIe: d.pcie(f, "nics"), Vendor: d.vendor(f, "nics")}
	if f.NUMA == nil {
		d.note(fact+".numa", "the firmware gives no NUMA node")
	}
	ports := d.infiniBand(f, fact)
	card.InfiniBand = ports
	if entry, ok := nameOf(f.product, f.subsystem); ok {
		card.Model = &entry.name
		d.toldEach("nics", f.Address, ".model", entry.source)
	} else {
		d.note(fact+".model", "the table does not name "+f.Device)
	}
	if len(interfaces) == 0 {
		d.fabric(f, fact, &card, err)
		for _, field := range []string{".link", ".speed_gbps"} {
			if len(ports) > 0 {
				d.sawEach("nics", f.Address, field, portFolder+"/{state,rate}")
			}
		}
		return []world.NIC{card}
	}
	cards := make([]world.NIC, 0, len(interfaces))
	for _, name := range interfaces {
		port, at := card, fact
		if len(interfaces) > 1 {
			at = "nics[" + f.Address + " " + name + "]"
		}
		port.Interface = &name
		d.sawEach("nics", f.Address, ".interface", netFolder+"/{interface}")
		if len(interfaces) > 1 && len(ports) > 1 {
			port.InfiniBand = d.portsOf(name, ports)
		}
		port.Link = d.link(name, at+".link")
		d.sawEach("nics", f.Address, ".link", netFolder+"/{interface}/operstate")
		d.sawEach("nics", f.Address, ".speed_gbps", netFolder+"/{interface}/speed")
		switch rate := activeRate(port.InfiniBand); {
		case port.Link != nil && *port.Link == "down":
			d.note(at+".speed_gbps", "the link is down")
		case rate != nil:
			// IP over InfiniBand has no speed of its own before Linux 4.19, and says its link's afterwards.
			port.SpeedGbps = rate
			d.evidence["nics["+f.Address+"].speed_gbps"] = "/" + portFolder + "/rate"
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
			port, err := d.text(netFolder + "/" + name + "/phys_port_name")
			return err == nil && isRepresentor(port)
		})
	}
	return list, err
}

// link is "up" or "down". The kernel's operstate decides; a driver that does not keep it says "unknown", then the carrier
// does, which cannot be read while the interface is administratively down.
// Source: Documentation/ABI/testing/sysfs-class-net and RFC 2863, which names the states.
func (d *detection) link(name, fact string) *string {
	state, err := d.text(netFolder + "/" + name + "/operstate")
	if err != nil {
		d.failed(fact, err)
		return nil
	}
	up := state == "up"
	if state == "unknown" {
		carrier, err := d.text(netFolder + "/" + name + "/carrier")
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
	text, err := d.text(netFolder + "/" + name + "/speed")
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
	if len(card.InfiniBand) > 0 {
		port := card.InfiniBand[0]
		for _, p := range card.InfiniBand {
			if isActive(p) {
				port = p
				break
			}
		}
		if port.State == nil {
			d.note(fact+".link", "its InfiniBand port tells no state")
		} else {
			word := "down"
			if isActive(port) {
				word = "up"
			}
			card.Link = &word
		}
		if card.Link != nil && *card.Link == "up" {
			card.SpeedGbps = port.RateGbps
		}
		if card.SpeedGbps == nil {
			why := "the link is down"
			if card.Link == nil || *card.Link == "up" {
				why = "its InfiniBand port tells no rate"
			}
			d.note(fact+".speed_gbps", why)
		}
		d.note(fact+".interface", "it has InfiniBand ports and no network interface")
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

package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

// readInterfaces reads the interfaces with an address. The loopback interface is included only if it has another
// address than every machine's, as on machines that announce one by BGP.
func (d *detection) readInterfaces() error {
	var list map[string]tape.Interface
	var err error

	if d.live {
		// The kernel's response waits for its network lock while a driver loads.
		list, err = callWithin(d, "the kernel", kernelInterfaces)
	} else {
		list, err = d.recordedInterfaces()
	}

	switch {
	case isAbsent(err):
		d.note("interfaces", "a recorded tree has no addresses, unless addresses.json at its top lists them")
	case err != nil:
		d.noteError("interfaces", err)
	}

	if list != nil {
		d.facts.Interfaces = list
		d.setSource("interfaces", "addresses.json")

		if d.live {
			d.evidence["interfaces"] = "the kernel's rtnetlink"
		}
	}

	d.readDefaultRoute()

	return nil
}

func kernelInterfaces() (map[string]tape.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}

	var errs []error

	list := map[string]tape.Interface{}

	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", i.Name, err)) // it may have been removed in between
			continue
		}

		var prefixes []netip.Prefix
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				prefixes = append(prefixes, prefix)
			}
		}

		face, hasAddress := newInterface(prefixes)
		face.MTU = &i.MTU

		if mac := i.HardwareAddr.String(); mac != "" {
			face.MAC = &mac
		}

		if hasAddress {
			list[i.Name] = face
		}
	}

	return list, errors.Join(errs...)
}

// newInterface returns an interface with addresses, in the kernel's order within each family. The addresses of every
// machine, 127.0.0.1 and ::1, are omitted.
func newInterface(prefixes []netip.Prefix) (face tape.Interface, hasAddress bool) {
	face = tape.Interface{
		IPv4: []string{},
		IPv6: []string{},
	}

	for _, prefix := range prefixes {
		ip := prefix.Addr().Unmap()
		text := ip.String()

		switch {
		case ip.IsLoopback():
			continue
		case ip.Is4():
			face.IPv4 = append(face.IPv4, text)
		default:
			face.IPv6 = append(face.IPv6, text)
		}

		bits := prefix.Bits() - prefix.Addr().BitLen() + ip.BitLen()
		face.Addresses = append(face.Addresses, tape.InterfaceAddress{Address: text, PrefixLength: bits})
	}

	return face, len(face.Addresses) > 0
}

// recordedInterfaces reads the addresses from addresses.json at the top of the tree, because /sys does not have them.
func (d *detection) recordedInterfaces() (map[string]tape.Interface, error) {
	const limit = 1 << 20

	data, err := d.ReadFile("addresses.json", limit)
	if err != nil {
		return nil, err
	}

	addresses, err := parseAddresses(data)
	if err != nil {
		return nil, fmt.Errorf("/addresses.json: %w", err)
	}

	list := map[string]tape.Interface{}

	for name, prefixes := range addresses {
		face, hasAddress := newInterface(prefixes)
		if !hasAddress {
			continue
		}

		folder := netFolder + "/" + name

		mac, _ := d.readText(folder + "/address")
		if strings.Trim(mac, "0:") != "" {
			face.MAC = &mac
		}

		size, _ := d.readText(folder + "/mtu")

		mtu := parseCount(size)
		if mtu != nil && *mtu > 0 {
			face.MTU = mtu
		}

		list[name] = face
	}

	return list, nil
}

// parseAddresses parses {"eth0": ["198.51.100.7/24", "2001:db8::7/64"]}.
func parseAddresses(data []byte) (map[string][]netip.Prefix, error) {
	var addresses map[string][]netip.Prefix
	if err := json.Unmarshal(data, &addresses); err != nil {
		return nil, fmt.Errorf("want {\"eth0\": [\"198.51.100.7/24\"]}, each address with a prefix length: %w", err)
	}

	for name, list := range addresses {
		if !isInterfaceName(name) {
			return nil, fmt.Errorf("invalid interface name %q", name)
		}
		if slices.ContainsFunc(list, func(p netip.Prefix) bool { return !p.IsValid() }) {
			return nil, fmt.Errorf("an address of %s is empty", name)
		}
	}

	return addresses, nil
}

// isInterfaceName applies the kernel's rule (dev_valid_name), which also keeps a name inside its folder.
func isInterfaceName(name string) bool {
	hasInvalid := strings.ContainsFunc(name, func(c rune) bool {
		return c == ':' || c <= ' ' || c == 0x7f
	})

	return isFileName(name) && len(name) <= 15 && !hasInvalid
}

package hardware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// readInterfaces reads what has an address. The loopback interface is among them only where it has one of its own, as on
// machines that announce it by BGP.
func (d *detection) readInterfaces() error {
	var list map[string]world.Interface
	var err error
	if d.live {
		// The answer waits for the kernel's network lock while a driver loads.
		list, err = within(d, "the kernel", kernelInterfaces)
	} else {
		list, err = d.recordedInterfaces()
	}
	switch {
	case absent(err):
		d.note("interfaces", "a recorded tree has no addresses, unless addresses.json at its top lists them")
	case err != nil:
		d.failed("interfaces", err)
	}
	if list != nil {
		d.facts.Interfaces = list
		if d.live {
			d.evidence["interfaces"] = "the kernel's rtnetlink"
		} else {
			d.saw("interfaces", "addresses.json")
		}
	}
	return nil
}

// kernelInterfaces asks the kernel of this machine.
func kernelInterfaces() (map[string]world.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}

	var errs []error

	list := map[string]world.Interface{}

	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", i.Name, err)) // it may have gone in between
			continue
		}

		face := world.Interface{IPv4: []string{}, IPv6: []string{}, MTU: &i.MTU}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				addTo(&face, prefix.Addr())
			}
		}
		if len(i.HardwareAddr) > 0 {
			mac := i.HardwareAddr.String()
			face.MAC = &mac
		}
		if len(face.IPv4)+len(face.IPv6) > 0 {
			list[i.Name] = face
		}
	}

	return list, errors.Join(errs...)
}

// addTo keeps the kernel's order within each family. The addresses that every machine has, 127.0.0.1 and ::1, are left out.
func addTo(face *world.Interface, ip netip.Addr) {
	ip = ip.Unmap()
	switch {
	case ip.IsLoopback():
	case ip.Is4():
		face.IPv4 = append(face.IPv4, ip.String())
	default:
		face.IPv6 = append(face.IPv6, ip.WithZone("").String())
	}
}

// recordedInterfaces takes addresses from addresses.json at the top of the tree, because the kernel shows none in /sys.
func (d *detection) recordedInterfaces() (map[string]world.Interface, error) {
	const limit = 1 << 20
	data, err := d.ReadFile("addresses.json", limit)
	if err != nil {
		return nil, err
	}
	addresses, err := parseAddresses(data)
	if err != nil {
		return nil, fmt.Errorf("/addresses.json: %w", err)
	}
	list := map[string]world.Interface{}
	for name, prefixes := range addresses {
		face := world.Interface{IPv4: []string{}, IPv6: []string{}}
		for _, p := range prefixes {
			addTo(&face, p.Addr())
		}
		if len(face.IPv4)+len(face.IPv6) == 0 {
			continue
		}
		folder := "sys/class/net/" + name
		if mac, err := d.text(folder + "/address"); err == nil && strings.Trim(mac, "0:") != "" {
			face.MAC = &mac
		}
		if text, err := d.text(folder + "/mtu"); err == nil {
			if mtu, err := strconv.Atoi(text); err == nil && mtu > 0 {
				face.MTU = &mtu
			}
		}
		list[name] = face
	}
	return list, nil
}

// parseAddresses reads {"eth0": ["198.51.100.7/24", "2001:db8::7/64"]}.
func parseAddresses(data []byte) (map[string][]netip.Prefix, error) {
	var raw map[string][]string
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("want {\"eth0\": [\"198.51.100.7/24\"]}: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("there is more behind the JSON object")
	}
	addresses := map[string][]netip.Prefix{}
	for name, list := range raw {
		if !isInterfaceName(name) {
			return nil, fmt.Errorf("%q is no name of an interface", name)
		}
		addresses[name] = []netip.Prefix{}
		for _, text := range list {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no address with a prefix length, as in 198.51.100.7/24", name, text)
			}
			addresses[name] = append(addresses[name], prefix)
		}
	}
	return addresses, nil
}

// isInterfaceName is the kernel's rule (dev_valid_name), which also keeps a name inside its folder.
func isInterfaceName(name string) bool {
	if name == "" || len(name) > 15 || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		if c == '/' || c == ':' || c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

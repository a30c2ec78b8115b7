package hardware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/world"
)

// readInterfaces reads what has an address. The loopback interface is among them only where it has one of its own, as on
// machines that announce it by BGP.
func (d *detection) readInterfaces() error {
	var list map[string]world.Interface
	var err error
	if d.live {
		list, err = liveInterfaces(d.ctx)
	} else {
		list, err = d.recordedInterfaces()
	}
	switch {
	case absent(err):
		d.note("interfaces", "the recorded tree has no addresses.json")
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

// netTimeout bounds the kernel's answer about interfaces, which waits for its network lock while a driver loads.
const netTimeout = 5 * time.Second

// liveInterfaces asks the kernel of this machine.
func liveInterfaces(ctx context.Context) (map[string]world.Interface, error) {
	type answer struct {
		list map[string]world.Interface
		err  error
	}
	ctx, cancel := context.WithTimeout(ctx, netTimeout)
	defer cancel()
	got := make(chan answer, 1)
	go func() {
		list, err := kernelInterfaces()
		got <- answer{list, err}
	}()
	select {
	case a := <-got:
		return a.list, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the kernel does not list the interfaces in time: %w", context.Cause(ctx))
	}
}

func kernelInterfaces() (map[string]world.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	addresses, err := addressesByIndex(all)
	list := map[string]world.Interface{}
	for _, i := range all {
		face := world.Interface{IPv4: []string{}, IPv6: []string{}, MTU: &i.MTU}
		for _, ip := range addresses[i.Index] {
			addTo(&face, ip)
		}
		if len(i.HardwareAddr) > 0 {
			mac := i.HardwareAddr.String()
			face.MAC = &mac
		}
		if len(face.IPv4)+len(face.IPv6) > 0 {
			list[i.Name] = face
		}
	}
	return list, err
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

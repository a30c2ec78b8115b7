//go:build !linux

package hardware

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// addressesByIndex asks for each interface: a machine that only plans for others has few.
func addressesByIndex(all []net.Interface) (map[int][]netip.Addr, error) {
	addresses := map[int][]netip.Addr{}
	var errs []error
	for _, i := range all {
		list, err := i.Addrs()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", i.Name, err)) // it may have gone in between
			continue
		}
		for _, a := range list {
			if network, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(network.IP); ok {
					addresses[i.Index] = append(addresses[i.Index], ip)
				}
			}
		}
	}
	return addresses, errors.Join(errs...)
}

package hardware

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// addressesByIndex asks the kernel once for all addresses. net.Interface.Addrs asks for all of them for each interface,
// which on a node with 250 pods is 250 answers of 250.
func addressesByIndex([]net.Interface) (map[int][]netip.Addr, error) {
	answer, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, os.NewSyscallError("list addresses by netlink", err)
	}
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil {
		return nil, os.NewSyscallError("list addresses by netlink", err)
	}
	addresses := map[int][]netip.Addr{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, fmt.Errorf("list addresses by netlink: %w", err)
		}
		if ip, ok := addressOf(attributes); ok {
			index := int(binary.NativeEndian.Uint32(m.Data[4:])) // ifa_index of struct ifaddrmsg
			addresses[index] = append(addresses[index], ip)
		}
	}
	return addresses, nil
}

// addressOf is the interface's own address: of a point-to-point link ADDRESS is the other end's, and LOCAL is ours.
func addressOf(attributes []syscall.NetlinkRouteAttr) (netip.Addr, bool) {
	var address netip.Addr
	for _, a := range attributes {
		if a.Attr.Type == syscall.IFA_LOCAL || a.Attr.Type == syscall.IFA_ADDRESS && !address.IsValid() {
			if ip, ok := netip.AddrFromSlice(a.Value); ok {
				address = ip
			}
		}
	}
	return address, address.IsValid()
}

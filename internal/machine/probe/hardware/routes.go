package hardware

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/tape"
)

// readDefaultRoute reads the default routes, after the interfaces. Of several with equal costs the first hop counts.
func (d *detection) readDefaultRoute() {
	if !d.live {
		d.readRecordedRoute()
		return
	}

	d.evidence["default_route"] = "the kernel's rtnetlink"
	routes := &tape.DefaultRoutes{}
	for _, family := range []struct {
		name   string
		number byte
		into   *tape.Route
	}{{"ipv4", unix.AF_INET, &routes.IPv4}, {"ipv6", unix.AF_INET6, &routes.IPv6}} {
		fact := "default_route." + family.name
		route, err := callWithin(d, "the kernel", func() (*tape.Route, error) { return findRoute(family.number) })
		switch {
		case err != nil:
			d.noteBroken(fact, "cannot read it: "+err.Error())
		case route == nil:
			d.note(fact, "the kernel's main table has none")
		default:
			*family.into = d.addSource(*route, family.number == unix.AF_INET)
		}
	}
	d.facts.DefaultRoute = routes
}

// readRecordedRoute reads routes.json at the top of the tree: the fact itself, because /sys does not have routes.
func (d *detection) readRecordedRoute() {
	const limit = 1 << 16

	data, err := d.ReadFile("routes.json", limit)
	if isAbsent(err) {
		d.note("default_route", "a recorded tree has no routes, unless routes.json at its top has them")
		return
	}

	routes := &tape.DefaultRoutes{}
	if err == nil {
		err = json.Unmarshal(data, routes)
	}
	if err != nil {
		d.noteError("default_route", fmt.Errorf("/routes.json: %w", err))
		return
	}

	d.facts.DefaultRoute = routes
	d.setSource("default_route", "routes.json")
}

// addSource adds the source that the kernel chooses for a route that has none: an address of the interface, one in the
// gateway's network first, or else one of the loopback interface, as on machines that announce it by BGP.
// Source: inet_select_addr in net/ipv4/devinet.c.
func (d *detection) addSource(r tape.Route, isIPv4 bool) tape.Route {
	if r.Source != nil || r.Interface == nil {
		return r
	}

	var gateway netip.Addr
	if r.Gateway != nil {
		gateway, _ = netip.ParseAddr(*r.Gateway)
	}
	for _, name := range []string{*r.Interface, "lo"} {
		all := slices.Clone(d.facts.Interfaces[name].Addresses)
		rank := func(a tape.InterfaceAddress) int {
			ip, _ := netip.ParseAddr(a.Address)
			p, _ := ip.Prefix(a.PrefixLength)
			if p.Contains(gateway) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(all, func(a, b tape.InterfaceAddress) int { return rank(a) - rank(b) })

		for _, a := range all {
			ip, _ := netip.ParseAddr(a.Address)
			if ip.Is4() == isIPv4 && !ip.IsLinkLocalUnicast() {
				r.Source = &a.Address
				return r
			}
		}
	}

	return r
}

type hop struct {
	tape.Route
	index  uint32 // of its interface
	metric uint32
}

// findRoute returns the default route of a family in the kernel's main table; nil without one.
func findRoute(family byte) (*tape.Route, error) {
	var best *hop
	err := eachRoute(family, func(message []byte) error {
		destinationBits, table, kind := message[1], message[4], message[7]
		if destinationBits != 0 || table != unix.RT_TABLE_MAIN || kind != unix.RTN_UNICAST {
			return nil
		}
		h, err := parseHop(message[unix.SizeofRtMsg:])
		if err == nil && (best == nil || h.metric < best.metric) {
			best = &h
		}

		return err
	})
	if err != nil || best == nil {
		return nil, err
	}

	i, err := net.InterfaceByIndex(int(best.index))
	if err != nil {
		return nil, fmt.Errorf("interface %d of the default route: %w", best.index, err)
	}
	best.Interface = &i.Name

	return &best.Route, nil
}

// eachRoute calls a function with each route of a family, an rtmsg with attributes. It keeps one packet at a time: a
// table can have a million routes.
// Source: rtnetlink(7).
func eachRoute(family byte, call func(message []byte) error) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(socket)

	order := binary.NativeEndian
	request := order.AppendUint32(nil, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	request = order.AppendUint16(request, unix.RTM_GETROUTE)
	request = order.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request = append(request, make([]byte, unix.SizeofNlMsghdr-len(request))...) // sequence, port
	request = append(request, family)
	request = append(request, make([]byte, unix.SizeofRtMsg-1)...)
	if err := unix.Sendto(socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}

	const limit = 1 << 16 // of a packet of the kernel: 32 KiB
	packet := make([]byte, limit)
	for {
		n, _, err := unix.Recvfrom(socket, packet, 0)
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(packet[:n])
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				return fmt.Errorf("netlink: %w", syscall.Errno(-int32(order.Uint32(m.Data))))
			case m.Header.Type == unix.RTM_NEWROUTE && len(m.Data) >= unix.SizeofRtMsg:
				if err := call(m.Data); err != nil {
					return err
				}
			}
		}
	}
}

// parseHop parses the attributes of a route: the only hop, or the first of several.
func parseHop(attributes []byte) (h hop, err error) {
	order := binary.NativeEndian
	for len(attributes) >= unix.SizeofRtAttr {
		size := int(order.Uint16(attributes))
		if size < unix.SizeofRtAttr || size > len(attributes) {
			return h, errors.New("netlink: invalid attribute of a route")
		}
		kind, data := order.Uint16(attributes[2:]), attributes[unix.SizeofRtAttr:size]

		switch {
		case kind == unix.RTA_OIF && len(data) == 4:
			h.index = order.Uint32(data)
		case kind == unix.RTA_PRIORITY && len(data) == 4:
			h.metric = order.Uint32(data)
		case kind == unix.RTA_GATEWAY:
			h.Gateway = formatAddress(data)
		case kind == unix.RTA_VIA && len(data) > 2: // of the other family, as in BGP over link-local addresses
			h.Gateway = formatAddress(data[2:])
		case kind == unix.RTA_PREFSRC:
			h.Source = formatAddress(data)
		case kind == unix.RTA_MULTIPATH && len(data) >= unix.SizeofRtNexthop:
			end := min(max(int(order.Uint16(data)), unix.SizeofRtNexthop), len(data))
			first, err := parseHop(data[unix.SizeofRtNexthop:end])
			if err != nil {
				return h, err
			}
			h.Gateway, h.index = first.Gateway, order.Uint32(data[4:])
		}

		attributes = attributes[min((size+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1), len(attributes)):]
	}

	return h, nil
}

func formatAddress(data []byte) *string {
	ip, ok := netip.AddrFromSlice(data)
	if !ok {
		return nil
	}

	return new(ip.String())
}

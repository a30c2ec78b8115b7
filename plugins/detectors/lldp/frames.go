package lldp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
)

// frameFolder is where networkd before systemd 256 keeps the last frame of each neighbour, in a file with the number of
// the interface: the length of a frame as 8 bytes, little endian, and the frame.
// Source: systemd 252, src/network/networkd-lldp-rx.c, link_lldp_save.
const frameFolder = "/run/systemd/netif/lldp"

// maxFrame is the largest Ethernet frame, in bytes.
const maxFrame = 9216

func readFrames(root sdk.Root) (out heard, source string, err error) {
	if !root.Exists(frameFolder) {
		return out, "", fmt.Errorf("%s: %w", frameFolder, fs.ErrNotExist)
	}

	// The sandbox allows to look at the folder, and opening it needs the grant. A folder that opens cannot be read as a
	// file, which is another error.
	if _, err := root.Read(frameFolder); errors.Is(err, fs.ErrPermission) {
		return out, "", err
	}

	names := interfaceNames(root)
	for _, number := range root.Names(frameFolder) {
		name, isKnown := names[number]
		if !isKnown {
			continue // the interface is gone
		}
		b, err := root.Read(path.Join(frameFolder, number))
		if err != nil {
			return out, "", err
		}
		out.addFrames(name, b)
	}

	return out, frameFolder, nil
}

func interfaceNames(root sdk.Root) map[string]string {
	out := map[string]string{}
	for _, name := range root.Names("/sys/class/net") {
		if n, err := root.Int("/sys/class/net/" + name + "/ifindex"); err == nil {
			out[strconv.FormatInt(n, 10)] = name
		}
	}

	return out
}

// addFrames adds the neighbours of one file. A frame that cannot be decoded is left out; the rest of a file with a
// wrong length cannot be read.
func (r *heard) addFrames(name string, b []byte) {
	for len(b) > 0 {
		if len(b) < 8 {
			r.complain(name, errors.New("its file ends too early"))
			return
		}
		size := binary.LittleEndian.Uint64(b)
		b = b[8:]
		if size > maxFrame || size > uint64(len(b)) {
			r.complain(name, fmt.Errorf("a frame of %d bytes is longer than its file", size))
			return
		}

		n, err := parseFrame(b[:size])
		if err != nil {
			r.complain(name, err)
		} else {
			n.Interface = name
			r.add(n)
		}
		b = b[size:]
	}
}

func (r *heard) complain(name string, err error) {
	why := contract.OneLine(err.Error())
	r.problems = append(r.problems, fmt.Sprintf("an LLDP frame of %s is ignored: %s", name, why))
}

// parseFrame reads an Ethernet frame with LLDP.
func parseFrame(frame []byte) (n neighbor, err error) {
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	if e := packet.ErrorLayer(); e != nil {
		return n, e.Error()
	}
	discovery, ok := packet.Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
	if !ok {
		return n, errors.New("it has no LLDP")
	}

	n.Chassis = formatID(discovery.ChassisID.ID, discovery.ChassisID.Subtype == layers.LLDPChassisIDSubTypeMACAddr)
	n.Port = formatID(discovery.PortID.ID, discovery.PortID.Subtype == layers.LLDPPortIDSubtypeMACAddr)
	info, ok := packet.Layer(layers.LayerTypeLinkLayerDiscoveryInfo).(*layers.LinkLayerDiscoveryInfo)
	if ok {
		n.System = clean(info.SysName)
		n.PortDescription = clean(info.PortDescription)
	}

	return n, nil
}

// formatID returns an id as text: a MAC address, a name, or the digits of other bytes.
func formatID(id []byte, isMAC bool) string {
	if isMAC && len(id) == 6 {
		return net.HardwareAddr(id).String()
	}
	text := string(id)
	isName := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
	if isName {
		return text
	}

	return fmt.Sprintf("%x", id)
}

// add adds a neighbour, its texts on one line and without control characters.
func (r *heard) add(n neighbor) {
	n.Interface = contract.OneLine(n.Interface)
	n.Chassis = contract.OneLine(n.Chassis)
	n.Port = contract.OneLine(n.Port)
	r.neighbors = append(r.neighbors, n)
}

// clean returns a text of a frame on one line, or nil if it has none.
func clean(s string) *string {
	s = strings.TrimSpace(contract.OneLine(s))
	if s == "" {
		return nil
	}

	return &s
}

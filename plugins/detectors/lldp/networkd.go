package lldp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"github.com/prelet/prelet/plugins/contract"
)

// socket is where networkd answers in varlink: JSON texts, each with a zero byte at its end. Anybody may connect.
const socket = "/run/systemd/netif/io.systemd.Network"

// maxReply limits a reply, in bytes. networkd keeps at most 128 neighbours of an interface, of less than 2 KiB each.
const maxReply = 4 << 20

// reply is the response to io.systemd.Network.GetLLDPNeighbors.
// Source: systemd, src/shared/varlink-io.systemd.Network.c.
type reply struct {
	Error      string `json:"error"`
	Parameters struct {
		Neighbors []struct {
			InterfaceName string
			Neighbors     []struct {
				ChassisID       string
				PortID          string
				PortDescription string
				SystemName      string
			}
		}
	} `json:"parameters"`
}

// askNetworkd asks a running networkd. One before systemd 256 does not know the question.
func askNetworkd(ctx context.Context, path string) (out heard, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(end); err != nil {
			return out, err
		}
	}

	_, err = io.WriteString(c, `{"method":"io.systemd.Network.GetLLDPNeighbors","parameters":{}}`+"\x00")
	if err != nil {
		return out, err
	}
	text, err := bufio.NewReader(io.LimitReader(c, maxReply)).ReadBytes(0)
	if err != nil {
		return out, fmt.Errorf("reading the reply: %w", err)
	}

	var r reply
	if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &r); err != nil {
		return out, fmt.Errorf("the reply is not JSON: %w", err)
	}
	switch r.Error {
	case "":
	case "org.varlink.service.MethodNotFound", "org.varlink.service.InterfaceNotFound":
		return out, errOldNetworkd
	default:
		return out, fmt.Errorf("it refused: %s", contract.OneLine(r.Error))
	}

	for _, link := range r.Parameters.Neighbors {
		for _, n := range link.Neighbors {
			out.add(neighbor{
				Interface:       link.InterfaceName,
				System:          clean(n.SystemName),
				Port:            n.PortID,
				PortDescription: clean(n.PortDescription),
				Chassis:         n.ChassisID,
			})
		}
	}

	return out, nil
}

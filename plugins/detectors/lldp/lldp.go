// Package lldp is the detector of LLDP neighbours: the switch and the port at the other end of each interface, from
// which a site makes labels of racks and rails. It captures no packets: systemd-networkd receives them, and this
// detector reads its files. Anybody on the wire can send LLDP frames, so this code trusts none of their content.
package lldp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/sdk"
)

// maxNeighbors limits the neighbours of a machine. A machine with 64 ports does not exist; a flooded wire does.
const maxNeighbors = 64

// neighbor is a neighbour, as its last frame describes it.
type neighbor struct {
	Interface       string  `json:"interface" doc:"The interface of this machine."`
	System          *string `json:"system" doc:"The neighbour's name: of a switch, its host name."`
	Port            string  `json:"port" doc:"The id of its port: a name, a number or a MAC address."`
	PortDescription *string `json:"port_description" doc:"The description of that port."`
	Chassis         string  `json:"chassis" doc:"The id of the neighbour: in most cases a MAC address."`
}

var (
	wait = sdk.Attr[float64]{
		Name:    "wait_seconds",
		Unit:    "seconds",
		Default: new(0.0),
		Minimum: new(0.0),
		Maximum: new(120.0),
		Doc: "How long to wait until each of `interfaces` has a neighbour. Switches send a frame every 30 seconds. " +
			"The detector's timeout limits it: set `timeout` of the detector block to a few seconds more.",
	}
	interfaces = sdk.Attr[[]string]{
		Name: "interfaces",
		Doc:  "Interfaces that must have a neighbour. Without one there is a warning.",
	}

	neighbors = sdk.Fact[[]neighbor]{
		Name: "lldp_neighbors",
		Doc:  "All neighbours, by interface. Recordings leave them out, because they show where the machine is.",
	}
)

// New declares the detector of a version.
func New(version string) sdk.Detector {
	return sdk.Detector{
		Name:    "lldp",
		Version: version,
		Vendor:  "prelet",
		Doc:     "LLDP neighbours: switch and port of each interface, as systemd-networkd received them.",
		Config:  []sdk.Declaration{interfaces, wait},
		Facts:   []sdk.Declaration{neighbors},
		Match:   sdk.Match{Paths: []string{socket, frameFolder}},
		Wants:   sdk.Needs{Sockets: []string{socket}, Read: []string{frameFolder}},
		Detect:  detect,
	}
}

func detect(m *sdk.Machine) error {
	limit := time.Duration(wait.Of(m.Config) * float64(time.Second))
	wanted := interfaces.Of(m.Config)
	found, source, err := waitForNeighbors(m.Context(), m.Root, wanted, limit)
	if err != nil {
		why := explain(err)
		m.AddFacts(neighbors.Unknown(why))
		m.Warn("%s", why)
		return nil
	}

	for _, problem := range found.problems {
		m.Warn("%s", problem)
	}
	list := found.sorted()
	if hidden := len(list) - maxNeighbors; hidden > 0 {
		m.Warn("%d neighbours are left out: more than %d are a fault or an attack", hidden, maxNeighbors)
		list = list[:maxNeighbors]
	}
	if missing := found.missing(wanted); len(missing) > 0 {
		const text = "no LLDP neighbour on %s: its switch does not send LLDP, networkd does not receive it there " +
			"(LLDP=yes in its .network file), or wait_seconds is too short"
		m.Warn(text, strings.Join(missing, ", "))
	}
	m.AddFacts(neighbors.Is(list, source))

	return nil
}

// heard is the answer of one of the two sources.
type heard struct {
	neighbors []neighbor
	problems  []string // of frames that were ignored
}

// sorted returns each neighbour once.
func (r heard) sorted() []neighbor {
	key := func(n neighbor) string {
		return strings.Join([]string{n.Interface, n.Chassis, n.Port}, "\x00")
	}
	list := append([]neighbor{}, r.neighbors...)
	slices.SortStableFunc(list, func(a, b neighbor) int {
		return strings.Compare(key(a), key(b))
	})

	return slices.CompactFunc(list, func(a, b neighbor) bool {
		return key(a) == key(b)
	})
}

// missing returns the interfaces without a neighbour.
func (r heard) missing(wanted []string) (out []string) {
	for _, name := range wanted {
		isThere := func(n neighbor) bool { return n.Interface == name }
		if !slices.ContainsFunc(r.neighbors, isThere) {
			out = append(out, name)
		}
	}

	return out
}

// waitInterval is the time between two reads.
const waitInterval = 200 * time.Millisecond

// waitForNeighbors reads until each wanted interface has a neighbour, at most for a time. It keeps a part of the
// deadline for the answer.
func waitForNeighbors(
	ctx context.Context,
	root sdk.Root,
	wanted []string,
	limit time.Duration,
) (found heard, source string, err error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/10))
		defer cancel()
	}

	until := time.Now().Add(limit)
	for {
		found, source, err = read(ctx, root)
		isDone := err == nil && len(found.missing(wanted)) == 0
		if isDone || !root.Real() || time.Now().After(until) {
			return found, source, err
		}
		select {
		case <-ctx.Done():
			return found, source, err
		case <-time.After(waitInterval):
		}
	}
}

// read asks networkd: from systemd 256 on over its socket, before that in its files. A recorded machine has files only.
func read(ctx context.Context, root sdk.Root) (heard, string, error) {
	if !root.Real() {
		return readFrames(root)
	}

	found, err := askNetworkd(ctx, root.Path(socket))
	if err == nil {
		return found, socket, nil
	}
	files, source, fileErr := readFrames(root)
	if fileErr == nil {
		return files, source, nil
	}
	if errors.Is(err, errOldNetworkd) || errors.Is(err, fs.ErrNotExist) {
		return heard{}, "", fileErr // a folder that may not be read is the reason
	}

	return heard{}, "", err
}

var errOldNetworkd = errors.New("this systemd-networkd does not answer GetLLDPNeighbors")

// explain returns why no neighbour could be read, and the next step.
func explain(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("no permission: grant it with allow { sockets = [%q], read = [%q] }", socket, frameFolder)
	case errors.Is(err, errOldNetworkd), errors.Is(err, fs.ErrNotExist):
		return "systemd-networkd has no LLDP neighbours: it does not run, or its .network files have LLDP=no. " +
			"Neighbours that another program receives (lldpd, NetworkManager) are not read"
	}

	return "systemd-networkd did not answer: " + err.Error()
}

// Package ovs is the detector of Open vSwitch: its bridges, its DPDK, and the cards that DPDK took from the kernel, which
// no longer shows their links. It asks ovsdb-server over the Unix socket, which the site must grant, and reads only.
package ovs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/sdk"
)

// Socket is where ovsdb-server listens.
const Socket = "/run/openvswitch/db.sock"

// Group is who may connect to the socket, where packaging/ovsdb-server.conf is installed.
const Group = "prelet-ovs"

// Detector implements sdk.Detector.
type Detector struct{ Version string }

// bridge is one bridge.
type bridge struct {
	Name         string   `json:"name" doc:"As ovs-vsctl shows it."`
	DatapathType string   `json:"datapath_type" doc:"netdev for DPDK and other userspace, system for the kernel's."`
	Ports        []string `json:"ports" doc:"Their names, sorted."`
}

// iface is one interface.
type iface struct {
	Name   string  `json:"name" doc:"As ovs-vsctl shows it."`
	Type   string  `json:"type" doc:"dpdk, dpdkvhostuserclient, internal, vxlan …; system where it is a device of the kernel."`
	Bridge *string `json:"bridge" doc:"The bridge that it is in."`
	PCI    *string `json:"pci" doc:"The PCI address of its card, for DPDK."`
	Error  *string `json:"error" doc:"Why Open vSwitch could not open it."`
}

var (
	wait = sdk.Attr[float64]{Name: "wait_seconds", Unit: "seconds", Default: new(0.0), Minimum: new(0.0), Maximum: new(60.0),
		Doc: "How long to wait for Open vSwitch, which may start at the same time; never longer than the detector's timeout leaves."}

	running     = sdk.Fact[bool]{Name: "running", Doc: "Whether ovsdb-server answers."}
	dpdk        = sdk.Fact[bool]{Name: "dpdk", Doc: "Whether any interface is DPDK's: what `ovs-vsctl show` shows as type dpdk…"}
	initialized = sdk.Fact[bool]{Name: "dpdk_initialized", Doc: "Whether ovs-vswitchd has initialised DPDK; null before it said so."}
	ovsVersion  = sdk.Fact[string]{Name: "ovs_version", Doc: "Of ovs-vswitchd."}
	dpdkVersion = sdk.Fact[string]{Name: "dpdk_version", Doc: "Of the DPDK that it was built with."}
	bridges     = sdk.Fact[[]bridge]{Name: "bridges", Doc: "By name."}
	interfaces  = sdk.Fact[[]iface]{Name: "interfaces", Doc: "All that are DPDK's or could not be opened, by name."}
)

// Domain is of the labels that are recommended.
const Domain = "openvswitch.org"

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	return sdk.Description{
		Name: "ovs", Version: d.Version, Vendor: "prelet",
		Doc:     "Open vSwitch: bridges, and DPDK with its interfaces and their links.",
		Config:  []sdk.Declaration{wait},
		Facts:   []sdk.Declaration{running, dpdk, initialized, ovsVersion, dpdkVersion, bridges, interfaces},
		Domains: []string{Domain},
		// The database of Debian and of Fedora; the socket where there is neither.
		Match: sdk.Match{Paths: []string{"/etc/openvswitch/conf.db", "/var/lib/openvswitch/conf.db", Socket}},
		Needs: sdk.Needs{Sockets: []string{Socket}},
		// Debian's socket is for root alone; packaging/ has what lets this group in.
		// The cards that DPDK took are of any vendor.
		Wants: sdk.Needs{Groups: []string{Group}, AnyPCIDevice: true},
	}
}

// Detect implements sdk.Detector.
func (d Detector) Detect(ctx context.Context, r sdk.Request, a *sdk.Answer) error {
	s, err := readWithin(ctx, r.Root.Path(Socket), time.Duration(wait.Of(r.Config)*float64(time.Second)))
	if err != nil {
		why := reason(err)
		if notThere(err) {
			a.Tell(running.Is(false, Socket))
		} else {
			a.Tell(running.Unknown("%s", why))
		}
		a.Tell(dpdk.Unknown("%s", why), initialized.Unknown("%s", why), ovsVersion.Unknown("%s", why), dpdkVersion.Unknown("%s", why),
			bridges.Unknown("%s", why), interfaces.Unknown("%s", why))
		a.Warn("%s", why)
		return nil
	}
	a.Tell(running.Is(true, Socket))
	s.tell(a)
	return nil
}

// readWithin asks until somebody answers, as long as it may: an answer that Open vSwitch is not there is one too, and
// needs some time.
func readWithin(ctx context.Context, socket string, wait time.Duration) (state, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/10))
		defer cancel()
	}
	until := time.Now().Add(wait)
	for {
		s, err := query(ctx, socket)
		if err == nil || !notThere(err) || time.Now().After(until) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// state is what the database says.
type state struct {
	ovs, dpdk   string // versions; empty: not said
	initialized *bool
	bridges     []bridge
	interfaces  []link
}

// link is an interface with what becomes of a card.
type link struct {
	iface
	up    *bool
	gbps  float64
	admin string
}

func (l link) isDPDK() bool { return strings.HasPrefix(l.Type, "dpdk") }

func (s state) tell(a *sdk.Answer) {
	const evidence = "ovsdb, table Open_vSwitch"
	told := func(f sdk.Fact[string], v string) {
		if v == "" {
			a.Tell(f.Unknown("ovs-vswitchd has not said it: it does not run, or not with DPDK"))
			return
		}
		a.Tell(f.Is(v, evidence))
	}
	told(ovsVersion, s.ovs)
	told(dpdkVersion, s.dpdk)
	if s.initialized == nil {
		a.Tell(initialized.Unknown("ovs-vswitchd has not said it"))
	} else {
		a.Tell(initialized.Is(*s.initialized, evidence))
	}
	shown, any := []iface{}, false
	addresses := map[string]int{}
	for _, l := range s.interfaces {
		any = any || l.isDPDK()
		if l.isDPDK() || l.Error != nil {
			shown = append(shown, l.iface)
		}
		if l.PCI != nil {
			addresses[*l.PCI]++
		}
	}
	// As an attribute too: those need no lock to be written in a site.
	a.Attribute("dpdk", strconv.FormatBool(any))
	a.Tell(bridges.Is(s.bridges, "ovsdb, table Bridge"), interfaces.Is(shown, "ovsdb, table Interface"), dpdk.Is(any, "ovsdb, table Interface, column type"))
	for _, l := range s.interfaces {
		if l.PCI != nil && addresses[*l.PCI] == 1 { // one address for several: representors, and whose link it is nobody says
			a.Add(l.device())
		}
	}
	if any {
		a.Recommend(Domain+"/dpdk", "true", fmt.Sprintf("%d interfaces of type dpdk…", count(s.interfaces)))
	}
}

func count(list []link) (n int) {
	for _, l := range list {
		if l.isDPDK() {
			n++
		}
	}
	return n
}

// device is what Open vSwitch knows of a card that the kernel has no interface for.
func (l link) device() sdk.Device {
	x := sdk.Device{Address: *l.PCI, Kind: new("nic"), Attributes: map[string]string{"ovs.interface": l.Name}, Evidence: map[string]string{"attributes.ovs.interface": "ovsdb"}}
	if l.Bridge != nil {
		x.Attributes["ovs.bridge"] = *l.Bridge
	}
	if l.admin != "" {
		x.Attributes["ovs.admin_state"] = l.admin
	}
	if l.Error != nil {
		x.Attributes["ovs.error"] = *l.Error
	}
	if l.up != nil {
		x.Link, x.Evidence["link"] = new("down"), "ovsdb, column link_state"
		if *l.up {
			x.Link = new("up")
			if l.gbps > 0 {
				x.SpeedGbps, x.Evidence["speed_gbps"] = new(l.gbps), "ovsdb, column link_speed"
			}
		}
	}
	return x
}

// address returns the PCI address in DPDK's arguments for a device: 0000:5e:00.0, 5e:00.0,representor=[0]. A
// representor is no card of its own.
func address(devargs string) *string {
	first, rest, _ := strings.Cut(devargs, ",")
	first = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(first), "pci:"))
	if strings.Contains(rest, "representor") {
		return nil
	}
	if len(first) == len("5e:00.0") {
		first = "0000:" + first
	}
	var domain, bus, slot, function uint
	n, err := fmt.Sscanf(first, "%04x:%02x:%02x.%1x", &domain, &bus, &slot, &function)
	if canonical := fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, slot, function); err != nil || n != 4 || function > 7 || canonical != first {
		return nil
	}
	return &first
}

// reason says why there is no answer, and what to do.
func reason(err error) string {
	switch {
	case errors.Is(err, errDenied):
		return fmt.Sprintf("%s may not be opened by this detector: ovsdb-server makes it for root alone, until its drop-in of this detector gives it to the group %s, which the site grants (allow { groups = [\"%s\"] })",
			Socket, Group, Group)
	case notThere(err):
		return fmt.Sprintf("Open vSwitch does not run: nobody listens on %s", Socket)
	}
	return "ovsdb-server does not answer: " + err.Error()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

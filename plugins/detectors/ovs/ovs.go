// Package ovs is the detector of Open vSwitch: its bridges, its DPDK, and the cards that DPDK took from the kernel,
// which no longer shows their links. It only reads from ovsdb-server over the Unix socket, which the site must grant.
package ovs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/sdk"
)

// Socket is the socket of ovsdb-server.
const Socket = "/run/openvswitch/db.sock"

// Group can connect to the socket if packaging/ovsdb-server.conf is installed.
const Group = "prelet-ovs"

type bridge struct {
	Name         string   `json:"name" doc:"As ovs-vsctl shows it."`
	DatapathType string   `json:"datapath_type" doc:"netdev for DPDK and other userspace, system for the kernel's."`
	Ports        []string `json:"ports" doc:"Their names, sorted."`
}

type iface struct {
	Name   string  `json:"name" doc:"As ovs-vsctl shows it."`
	Type   string  `json:"type" doc:"dpdk, dpdkvhostuserclient, internal, vxlan …; system for a device of the kernel."`
	Bridge *string `json:"bridge" doc:"Its bridge."`
	PCI    *string `json:"pci" doc:"The PCI address of its card, for DPDK."`
	Error  *string `json:"error" doc:"Why Open vSwitch could not open it."`
}

var (
	wait = sdk.Attr[float64]{
		Name:    "wait_seconds",
		Unit:    "seconds",
		Default: new(0.0),
		Minimum: new(0.0),
		Maximum: new(60.0),
		Doc: "How long to wait for Open vSwitch, which may start at the same time. " +
			"The detector's timeout limits it.",
	}

	running = sdk.Fact[bool]{Name: "running", Doc: "Whether ovsdb-server answers."}
	dpdk    = sdk.Fact[bool]{
		Name: "dpdk",
		Doc:  "Whether any interface is DPDK's: `ovs-vsctl show` shows its type as dpdk…",
	}
	initialized = sdk.Fact[bool]{
		Name: "dpdk_initialized",
		Doc:  "Whether ovs-vswitchd has initialised DPDK; null until ovs-vswitchd reports it.",
	}
	ovsVersion  = sdk.Fact[string]{Name: "ovs_version", Doc: "Version of ovs-vswitchd."}
	dpdkVersion = sdk.Fact[string]{
		Name: "dpdk_version",
		Doc:  "Version of the DPDK in ovs-vswitchd.",
	}
	bridges    = sdk.Fact[[]bridge]{Name: "bridges", Doc: "All bridges, by name."}
	interfaces = sdk.Fact[[]iface]{
		Name: "interfaces",
		Doc:  "The interfaces that are DPDK's or could not be opened, by name.",
	}
)

// Domain is the domain of the recommended labels.
const Domain = "openvswitch.org"

// New declares the detector of a version.
func New(version string) sdk.Detector {
	return sdk.Detector{
		Name:    "ovs",
		Version: version,
		Vendor:  "prelet",
		Doc:     "Open vSwitch: bridges, and DPDK with its interfaces and their links.",
		Config:  []sdk.Declaration{wait},
		Facts: []sdk.Declaration{
			running,
			dpdk,
			initialized,
			ovsVersion,
			dpdkVersion,
			bridges,
			interfaces,
		},
		Domains: []string{Domain},
		// The databases of Debian and Fedora, or the socket.
		Match: sdk.Match{
			Paths: []string{"/etc/openvswitch/conf.db", "/var/lib/openvswitch/conf.db", Socket},
		},
		Needs: sdk.Needs{Sockets: []string{Socket}},
		// Debian's socket is for root only; with the files in packaging/ this group can use it. The cards of DPDK are
		// of any vendor.
		Wants:  sdk.Needs{Groups: []string{Group}, AnyPCIDevice: true},
		Detect: detect,
	}
}

func detect(m *sdk.Machine) error {
	limit := time.Duration(wait.Of(m.Config) * float64(time.Second))
	s, err := waitForState(m.Context(), m.Path(Socket), limit)
	if err == nil {
		m.AddFacts(running.Is(true, Socket))
		s.report(m)
		return nil
	}

	why := explain(err)
	if isNotRunning(err) {
		m.AddFacts(running.Is(false, Socket))
	} else {
		m.AddFacts(running.Unknown(why))
	}
	m.AddFacts(
		dpdk.Unknown(why),
		initialized.Unknown(why),
		ovsVersion.Unknown(why),
		dpdkVersion.Unknown(why),
		bridges.Unknown(why),
		interfaces.Unknown(why),
	)
	m.Warn("%s", why)

	return nil
}

// waitForState queries the database until ovsdb-server runs, at most for a time. It keeps a part of the deadline,
// because an answer without Open vSwitch takes time too.
func waitForState(ctx context.Context, socket string, limit time.Duration) (database, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/10))
		defer cancel()
	}

	until := time.Now().Add(limit)
	for {
		s, err := query(ctx, socket)
		if err == nil || !isNotRunning(err) || time.Now().After(until) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// database is the content of the database. Empty versions are unknown.
type database struct {
	ovs         string
	dpdk        string
	initialized *bool
	bridges     []bridge
	interfaces  []link
}

// link is an interface with the state of its card.
type link struct {
	iface

	up    *bool
	gbps  float64
	admin string
}

func (l link) isDPDK() bool {
	return strings.HasPrefix(l.Type, "dpdk")
}

// report adds facts, devices and labels.
func (s database) report(m *sdk.Machine) {
	const evidence = "ovsdb, table Open_vSwitch"
	const noVersion = "ovs-vswitchd has not reported it: it does not run, or without DPDK"
	m.AddFacts(
		devices.TextFact(ovsVersion, s.ovs, evidence, noVersion),
		devices.TextFact(dpdkVersion, s.dpdk, evidence, noVersion),
	)
	if s.initialized == nil {
		m.AddFacts(initialized.Unknown("ovs-vswitchd has not reported it"))
	} else {
		m.AddFacts(initialized.Is(*s.initialized, evidence))
	}

	shown := []iface{}
	count := 0 // of DPDK's interfaces
	addresses := map[string]int{}
	for _, l := range s.interfaces {
		if l.isDPDK() {
			count++
		}
		if l.isDPDK() || l.Error != nil {
			shown = append(shown, l.iface)
		}
		if l.PCI != nil {
			addresses[*l.PCI]++
		}
	}
	m.AddFacts(
		bridges.Is(s.bridges, "ovsdb, table Bridge"),
		interfaces.Is(shown, "ovsdb, table Interface"),
		dpdk.Is(count > 0, "ovsdb, table Interface, column type"),
	)
	// An attribute too, because a site can use attributes without a lock.
	m.Attribute("dpdk", strconv.FormatBool(count > 0))

	for _, l := range s.interfaces {
		if l.PCI != nil && addresses[*l.PCI] == 1 { // interfaces that share a card are representors
			m.Add(l.device(m))
		}
	}
	if count > 0 {
		m.Recommend(Domain+"/dpdk", "true", fmt.Sprintf("%d interfaces of type dpdk…", count))
	}
}

// device returns the device of a card that the kernel has no interface for.
func (l link) device(m *sdk.Machine) *sdk.Device {
	x := m.NewDevice(sdk.PCIDevice{Address: *l.PCI})
	x.Kind = "nic"
	x.SetAttribute("ovs.interface", l.Name, "ovsdb")
	if l.Bridge != nil {
		x.Attributes["ovs.bridge"] = *l.Bridge
	}
	if l.admin != "" {
		x.Attributes["ovs.admin_state"] = l.admin
	}
	if l.Error != nil {
		x.Attributes["ovs.error"] = *l.Error
	}
	if l.up == nil {
		return x
	}

	x.Link = "down"
	x.Evidence["link"] = "ovsdb, column link_state"
	if *l.up {
		x.Link = "up"
		if l.gbps > 0 {
			x.SpeedGbps = l.gbps
			x.Evidence["speed_gbps"] = "ovsdb, column link_speed"
		}
	}

	return x
}

// pciAddress matches an address with an optional domain.
var pciAddress = regexp.MustCompile(`^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// parseAddress returns the PCI address in DPDK's arguments for a device, such as 0000:5e:00.0 or 5e:00.0, or nil. A
// representor (5e:00.0,representor=[0]) has no card of its own.
func parseAddress(arguments string) *string {
	first, rest, _ := strings.Cut(arguments, ",")
	address := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(first), "pci:"))
	if strings.Contains(rest, "representor") || !pciAddress.MatchString(address) {
		return nil
	}
	if len(address) == len("5e:00.0") {
		address = "0000:" + address
	}

	return &address
}

// explain returns why the database could not be read, and what to do.
func explain(err error) string {
	switch {
	case errors.Is(err, errDenied):
		const text = "no permission to open %s: ovsdb-server makes it for root only. Install this detector's " +
			"drop-in for ovsdb-server and grant the group: allow { groups = [%q] }"
		return fmt.Sprintf(text, Socket, Group)
	case isNotRunning(err):
		return "Open vSwitch does not run: no server listens on " + Socket
	}

	return "ovsdb-server does not answer: " + err.Error()
}

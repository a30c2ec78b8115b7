package tape

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Identities returns the values in a recording that belong to one machine, each with its name: its node name,
// addresses, MAC addresses, GUIDs, serial numbers, asset tags, WWNs, uuids and machine id. Two machines with equal
// hardware differ in these. Values that were withheld, and values that many machines share (127.0.0.1, a serial number
// "None"), are not in it. facts are those of the recording, with or without what detectors report; nil: they have not
// been decoded.
func (r *Recording) Identities(facts *Facts) map[string]string {
	c := identityCollector{}
	for _, e := range r.Entries {
		switch {
		case e.Answer.Fault != nil:
		case e.Kind == KindHardware && facts != nil:
			c.addFacts(*facts)
		default:
			c.collect(e)
		}
	}

	return c
}

// identityCollector has names by values. The first name of a value stays.
type identityCollector map[string]string

func (c identityCollector) collect(e Entry) {
	switch e.Kind {
	case KindKubelet:
		var k KubeletAns
		if json.Unmarshal(e.Answer.Value, &k) == nil && k.Identity != nil {
			c.addHost(k.Identity.Node)
			c.addHost(k.Identity.Host)
		}
	case KindHardware:
		var f Facts
		if json.Unmarshal(e.Answer.Value, &f) == nil {
			c.addFacts(f)
		}
	case KindFile:
		c.addFile(e)
	case KindDetector:
		var v any
		if json.Unmarshal(e.Answer.Value, &v) == nil {
			c.addDetector("detector", v)
		}
	}
}

// minIdentity is the length of the shortest serial number that is not taken for a number of another meaning, and
// minDigits that of one without a letter: ports, sizes and counts have fewer digits.
const (
	minIdentity = 4
	minDigits   = 7
)

// add adds a value under a name, unless it is too short or too common to identify a machine.
func (c identityCollector) add(value, name string) {
	value = strings.TrimSpace(value)
	isShort := len(value) < minIdentity || len(value) < minDigits && strings.Trim(value, "0123456789") == ""
	if c[value] == "" && !isShort && !isPlaceholder(value) {
		c[value] = name
	}
}

// addHost adds the name of a node and, of a qualified one, its first label, unless that is a plain word, as in
// gpu.r1.example.com: it occurs in other names.
func (c identityCollector) addHost(name string) {
	const shortest = 2 // a single letter is in too many words
	if len(name) < shortest || strings.HasPrefix(name, "localhost") || c[name] != "" {
		return
	}

	c[name] = "node name"
	short, _, isQualified := strings.Cut(name, ".")
	isOwn := len(short) >= shortest && strings.ContainsAny(short, "0123456789")
	if isQualified && isOwn && c[short] == "" {
		c[short] = "host name"
	}
}

// isPlaceholder reports whether firmware has this value where the vendor set none: a text of one repeated character, or
// one of the usual words.
func isPlaceholder(value string) bool {
	if value == "" {
		return true
	}
	lower := strings.ToLower(value)
	if strings.Trim(lower, lower[:1]+"-:. ") == "" {
		return true
	}
	if strings.HasPrefix("1234567890", lower) || strings.HasPrefix("0123456789", lower) {
		return true
	}
	for _, word := range []string{
		"none", "unknown", "default string", "not specified", "not available", "not applicable", "n/a",
		"system serial number", "to be filled", "asset tag", "no asset", "chassis serial", "base board serial",
	} {
		if strings.HasPrefix(lower, word) {
			return true
		}
	}

	return false
}

func (c identityCollector) addFacts(f Facts) {
	for _, name := range slices.Sorted(maps.Keys(f.Interfaces)) { // a bond and its members have one MAC address
		i := f.Interfaces[name]
		if !isOfCluster(name) {
			c.addAddress(i.IPv4, "address of "+name)
			c.addAddress(i.IPv6, "IPv6 address of "+name)
		}
		c.addMAC(i.MAC, "MAC address of "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.GUIDs)) {
		c.add(f.GUIDs[name], "GUID of "+name)
	}
	for _, d := range f.BlockDevices {
		c.addFact(d.Serial, "serial number of "+d.Name)
		c.addFact(d.WWN, "WWN of "+d.Name)
	}

	c.addFact(f.MachineID, "machine id")
	c.addFact(f.Product.Serial, "serial number")
	c.addFact(f.Product.UUID, "uuid")
	c.addFact(f.Chassis.Serial, "serial number of the chassis")
	c.addFact(f.Chassis.AssetTag, "asset tag of the chassis")
	c.addFact(f.Baseboard.Serial, "serial number of the board")
	c.addFact(f.Baseboard.AssetTag, "asset tag of the board")
}

func (c identityCollector) addFact(value *string, name string) {
	if value != nil {
		c.add(*value, name)
	}
}

// addMAC adds the address, and its digits, of which names of interfaces are made (enx02005e005301).
func (c identityCollector) addMAC(mac *string, name string) {
	if mac == nil || isPlaceholder(*mac) {
		return
	}

	c.add(*mac, name)
	c.add(strings.ToLower(*mac), name)
	c.add(strings.ToUpper(*mac), name)
	c.add(hexDigits(*mac), "digits of the "+name)
}

// isOfCluster reports whether an interface is made on each node by the cluster or a container runtime, with addresses
// that are not the machine's own: all Services with kube-proxy in IPVS mode, or the bridge of a runtime.
func isOfCluster(name string) bool {
	for _, prefix := range []string{
		"kube-", "nodelocaldns", "docker", "cni", "br-", "virbr", "cali", "cilium", "flannel",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}

	return false
}

// addAddress adds the first address of an interface that not every machine has. Further ones may be virtual addresses,
// which move between machines.
func (c identityCollector) addAddress(all []string, name string) {
	for _, text := range all {
		ip, err := netip.ParseAddr(text)
		isCommon := ip.IsLoopback() || ip.IsUnspecified() || ip.Is4() && ip.IsLinkLocalUnicast()
		if err == nil && !isCommon {
			c.add(text, name)
			return
		}
	}
}

// addFile adds the content of a file that only identifies the machine.
func (c identityCollector) addFile(e Entry) {
	req, err := File.Request(e.Question)
	if err != nil {
		return
	}
	var a FileAns
	if json.Unmarshal(e.Answer.Value, &a) != nil {
		return
	}

	name := map[string]string{
		"/etc/machine-id":                            "machine id",
		"/var/lib/dbus/machine-id":                   "machine id",
		"/sys/class/dmi/id/product_serial":           "serial number",
		"/sys/class/dmi/id/product_uuid":             "uuid",
		"/sys/class/dmi/id/board_serial":             "serial number of the board",
		"/sys/class/dmi/id/board_asset_tag":          "asset tag of the board",
		"/sys/class/dmi/id/chassis_serial":           "serial number of the chassis",
		"/sys/class/dmi/id/chassis_asset_tag":        "asset tag of the chassis",
		"/sys/devices/virtual/dmi/id/product_serial": "serial number",
	}[req.Path]
	switch {
	case req.Path == "/etc/hostname":
		c.addHost(strings.TrimSpace(a.Text))
	case name != "":
		c.add(a.Text, name)
	}
}

// addDetector adds the values in the answer of a detector whose names are those of identities, at any depth.
func (c identityCollector) addDetector(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			inner := v[key]
			if text, isText := inner.(string); isText && isIdentity(key) {
				c.add(text, at+" "+key)
			}
			c.addDetector(at+" "+key, inner)
		}
	case []any:
		for i, inner := range v {
			c.addDetector(at+" "+strconv.Itoa(i+1), inner)
		}
	}
}

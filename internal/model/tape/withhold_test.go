package tape

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/plugins/contract"
)

// leaves lists where facts hold text, by the JSON names on the way.
func leaves(t reflect.Type, at string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return leaves(t.Elem(), at)
	case reflect.Slice:
		return leaves(t.Elem(), at+"[]")
	case reflect.Map:
		return leaves(t.Elem(), at+"{}")
	case reflect.Struct:
		var all []string
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			all = append(all, leaves(t.Field(i).Type, strings.TrimPrefix(at+"."+name, "."))...)
		}
		return all
	case reflect.String:
		return []string{at}
	}
	return nil
}

// fill sets every text to what its place has, and makes one of each element, under that key in a map.
func fill(v reflect.Value, at, key string, text func(at string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), at, key, text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), at+"[]", key, text)
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, at+"{}", key, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(key), e)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			fill(v.Field(i), strings.TrimPrefix(at+"."+name, "."), key, text)
		}
	case reflect.String:
		v.SetString(text(at))
	}
}

// ofFacts is a recording with facts of the hardware.
func ofFacts(f Facts, more ...Entry) *Recording {
	return &Recording{Entries: append([]Entry{{Hardware.Question(HardwareReq{}), Hardware.Answer(f)}}, more...)}
}

// withhold returns the facts of a recording that are not withheld.
func withhold(t *testing.T, r *Recording) (after Facts) {
	t.Helper()
	must(t, r.Withhold())
	must(t, json.Unmarshal(r.Entries[0].Answer.Value, &after))
	return after
}

// TestEveryFactIsAnIdentityOrNot fails for a new fact: its author decides here whether it identifies the machine, and
// if so withholds it.
func TestEveryFactIsAnIdentityOrNot(t *testing.T) {
	identity := []string{
		"product.serial",
		"product.uuid",
		"machine_id",
		"guids{}",
		"interfaces{}.mac",
		"chassis.serial",
		"chassis.asset_tag",
		"baseboard.serial",
		"baseboard.asset_tag",
		"block_devices[].serial",
		"block_devices[].wwn",
	}
	harmless := table.Lines(`
cpu.vendor
cpu.model
cpu.architecture
cpu.cores[].kind
pci[].address
pci[].device
pci[].subsystem
pci[].class
pci[].driver
pci[].physfn
pci[].parent
accelerators[].kind
accelerators[].vendor
accelerators[].name
accelerators[].model
accelerators[].device
accelerators[].driver
accelerators[].address
accelerators[].driver_version
accelerators[].evidence
nics[].interface
nics[].vendor
nics[].model
nics[].device
nics[].link
nics[].driver
nics[].address
nics[].infiniband[].device
nics[].infiniband[].link_layer
nics[].infiniband[].state
interfaces{}.ipv4[]
interfaces{}.ipv6[]
interfaces{}.addresses[].address
default_route.ipv4.interface
default_route.ipv4.gateway
default_route.ipv4.source
default_route.ipv6.interface
default_route.ipv6.gateway
default_route.ipv6.source
product.name
product.vendor
product.sku
virtualization
kernel.release
bios.vendor
bios.version
bios.date
chassis.type
chassis.vendor
chassis.version
baseboard.name
baseboard.vendor
baseboard.version
block_devices[].name
block_devices[].type
block_devices[].controller
block_devices[].vendor
block_devices[].model
block_devices[].state
os.id
os.id_like[]
os.version_id
os.name
runtime.endpoint
runtime.name
runtime.version
runtime.cgroup_driver
units{}
unknown[].fact
unknown[].why
evidence{}
`)
	var f Facts
	fill(reflect.ValueOf(&f).Elem(), "", "key", func(at string) string { return "canary:" + at + ":" })
	r := ofFacts(f)
	withhold(t, r)
	text := encode(t, r)
	for _, place := range leaves(reflect.TypeFor[Facts](), "") {
		there := strings.Contains(text, "canary:"+place+":")
		switch {
		case slices.Contains(identity, place) && there:
			t.Errorf("%s identifies the machine: got it in a recording that is passed on, want it withheld", place)
		case slices.Contains(harmless, place) && !there:
			t.Errorf("%s does not identify the machine: got it withheld, want it in the recording", place)
		case !slices.Contains(identity, place) && !slices.Contains(harmless, place):
			t.Errorf("got the new field %s, want it in one of the two lists of this test: does it identify the machine?",
				place)
		}
	}
	if got := len(r.Entries[0].Answer.Withheld); got != len(identity) {
		t.Errorf("got %v withheld, want %d identities", r.Entries[0].Answer.Withheld, len(identity))
	}
}

// TestNoFactNamesAMACAddress: nothing is left of it in any text or key, wherever a name or a remark has it, and the
// rest stays.
func TestNoFactNamesAMACAddress(t *testing.T) {
	for _, tt := range table.YAML[[]struct{ Is, Becomes string }](t, `
- {is: enx02fc00000001, becomes: enx-1}
- {is: wlx02fc00000001, becomes: wlx-1}
- {is: ibx0002c90300001234, becomes: ibx-1}
- {is: rocex0002c90300001234, becomes: rocex-1}
- {is: /sys/class/net/enx02fc00000001/speed, becomes: /sys/class/net/enx-1/speed}
- {is: no link of 02:FC:00:00:00:01, becomes: no link of hwaddr-1}
- {is: enp1s0, becomes: enp1s0}
- {is: br-02fc00000001, becomes: br-02fc00000001}
- {is: lxc02fc00000001, becomes: lxc02fc00000001}
- {is: 0000:1b:00.0, becomes: 0000:1b:00.0}
`) {
		var f Facts
		fill(reflect.ValueOf(&f).Elem(), "", tt.Is, func(string) string { return tt.Is })
		r := ofFacts(f)
		for range 2 {
			after := withhold(t, r)
			a := r.Entries[0].Answer
			all := string(a.Value) + strings.Join(a.Withheld, " ")
			if tt.Is != tt.Becomes && strings.Contains(all, tt.Is) {
				t.Errorf("want %s withheld, got %s", tt.Is, all)
			}
			if _, ok := after.Interfaces[tt.Becomes]; !ok || *after.NICs[0].Interface != tt.Becomes ||
				*after.NICs[0].InfiniBand[0].Device != tt.Becomes ||
				after.Unknown[0].Why != tt.Becomes {
				t.Errorf("%s: want %s in its place, got %s", tt.Is, tt.Becomes, a.Value)
			}
			if want := Pointer("interfaces", tt.Becomes, "mac"); !slices.Contains(a.Withheld, want) {
				t.Errorf("%s: got %v withheld, want %s in it", tt.Is, a.Withheld, want)
			}
		}
	}
}

// A name is replaced in the same way at every place, also next to its address, and stays where the site, or a file
// that it reads, contains it.
func TestNamesOfMACAddressesAreOneName(t *testing.T) {
	for what, tt := range table.YAML[map[string]struct {
		Site, File, Want string
	}](t, `
not reported: {want: enx-2}
the site: {site: 'local.hw.interfaces["enx02fc00000002"]', want: enx02fc00000002}
a file: {file: '{"listenInterface":"enx02fc00000002"}', want: enx02fc00000002}
`) {
		mac, name := "02:fc:00:00:00:02", "enx02fc00000002"
		f := Facts{
			Interfaces: map[string]Interface{name: {MAC: &mac}, "enx02fc00000001": {}},
			NICs:       []NIC{{Interface: &name}},
		}
		r := ofFacts(f, Entry{Question{"file", "{}"}, Answer{Value: json.RawMessage("[" + tt.File + "]")}}, Entry{
			Detector.Question(DetectorReq{Name: "x"}),
			Detector.Answer(DetectorAns{Warnings: []string{"port " + name + " of 02-FC-00-00-00-02"}}),
		})
		r.Header.Site = []SiteFile{{"site.hcl", tt.Site}}
		after := withhold(t, r)
		if _, ok := after.Interfaces[tt.Want]; !ok || *after.NICs[0].Interface != tt.Want ||
			after.Interfaces["enx-1"].IPv4 != nil ||
			len(after.Interfaces) != 2 {
			t.Errorf("%s: got %s, want two interfaces with %s", what, r.Entries[0].Answer.Value, tt.Want)
		}
		if said := string(r.Entries[2].Answer.Value); !strings.Contains(said, "port "+tt.Want+" of hwaddr-2") {
			t.Errorf("%s: got %s, want port %s of hwaddr-2", what, said, tt.Want)
		}
	}
}

// An IPv6 address that a machine gave itself has its MAC address inside.
func TestAddressesWithAHardwareIDAreWithheld(t *testing.T) {
	mac := "02:fc:00:00:00:01"
	gone := []string{"fe80::fc:ff:fe00:1", "2001:db8::fc:ff:fe00:1", "fe80::202:c903:f9:bfa1"}
	kept := []string{"2001:db8::7", "fd00::2", "2001:db8:1:2:8d3f:11ab:92c0:7"}
	f := Facts{
		Interfaces: map[string]Interface{
			"a/b~": {
				MAC:       &mac,
				IPv6:      []string{gone[0], kept[0], gone[1], kept[1], gone[2], kept[2]},
				Addresses: []InterfaceAddress{{kept[0], 64}, {gone[1], 64}},
			},
		},
		DefaultRoute: &DefaultRoutes{IPv6: Route{Gateway: &gone[0], Source: &gone[1]}, IPv4: Route{Source: &kept[0]}},
	}
	r := ofFacts(f, Entry{Hardware.Question(HardwareReq{WaitMillis: 1}), Failure(fault.HardwareFailed, "", "")})
	after := withhold(t, r)
	want := []string{
		"/default_route/ipv6/gateway",
		"/default_route/ipv6/source",
		"/interfaces/a~1b~0/addresses/1/address",
		"/interfaces/a~1b~0/ipv6/0",
		"/interfaces/a~1b~0/ipv6/2",
		"/interfaces/a~1b~0/ipv6/4",
		"/interfaces/a~1b~0/mac",
	}
	if got := r.Entries[0].Answer.Withheld; !slices.Equal(got, want) {
		t.Errorf("withheld %v, want %v", got, want)
	}
	left := []string{"", kept[0], "", kept[1], "", kept[2]}
	if got := after.Interfaces["a/b~"].IPv6; !slices.Equal(got, left) {
		t.Errorf("left %q, want %q: places must stay where they are", got, left)
	}
}

// TestWithholdDetector takes out of what a detector said what is called an identity, or written like a MAC address,
// at any depth; the rest stays, and the second time nothing changes.
func TestWithholdDetector(t *testing.T) {
	r := &Recording{Entries: []Entry{{Detector.Question(DetectorReq{Name: "x"}), Detector.Answer(DetectorAns{
		Labels: map[string]string{
			"example.com/boardSerial": "canary",
			"example.com/port":        "02-00-5e-00-53-01",
			"example.com/kind":        "stays",
		},
		Warnings: []string{
			"the port 02:00:5e:00:53:01 is down",
		},
		Evidence: map[string]string{"facts.x": "/sys/class/net/enx02005e005301/speed"},
		Attributes: table.YAML[map[string]string](t, `
nodeGuid: canary
MACAddress: canary
systemUUIDs: canary
02:00:5e:00:53:03: up
state: port 02:00:5e:00:53:01 (up)
serial_number: canary
assetTag: canary
asset_class: stays
board.UUID: canary
firmware: '1.20'
macro: stays
serial_ports: '2'
port: 02:00:5E:00:53:01
address: 0000:5e:00.0
`),
		Devices: []contract.Device{{Attributes: map[string]string{"sn": "canary", "slot": "3", "serialPorts": "4"}}},
		Facts: map[string]any{
			"node_guid":      "canary",
			"lldp_neighbors": []any{map[string]any{"system": "canary", "port": "canary"}},
			"ports":          []any{map[string]any{"mac": "canary", "speed": 100.0}, "02-00-5e-00-53-02"},
			"serials":        []any{"canary"},
			"missing_serial": nil,
		},
	})}}}
	var first string
	for range 2 {
		must(t, r.Withhold())
		text := string(r.Entries[0].Answer.Value)
		if strings.Contains(text, "canary") || strings.Contains(strings.ToLower(text), "5e:00:53") ||
			strings.Contains(text, "5e-00-53") ||
			strings.Contains(text, "5e0053") {
			t.Errorf("got %s, want it without identities", text)
		}
		for _, stays := range []string{`"firmware":"1.20"`, `"macro":"stays"`, `"serial_ports":"2"`, `"asset_class":"stays"`, `"slot":"3"`, `"serialPorts":"4"`, `"hwaddr-3":"up"`, `"example.com/kind":"stays"`, `"example.com/boardSerial":"withheld"`, `the port hwaddr-1 is down`, `/enx-1/speed`, `"speed":100`, `"address":"0000:5e:00.0"`} {
			if !strings.Contains(text, stays) {
				t.Errorf("want %s in it, got %s", stays, text)
			}
		}
		want := []string{
			"/attributes/MACAddress",
			"/attributes/assetTag",
			"/attributes/board.UUID",
			"/attributes/nodeGuid",
			"/attributes/port",
			"/attributes/serial_number",
			"/attributes/state",
			"/attributes/systemUUIDs",
			"/devices/0/attributes/sn",
			"/facts/lldp_neighbors",
			"/facts/node_guid",
			"/facts/ports/0/mac",
			"/facts/ports/1",
			"/facts/serials",
		}
		if got := r.Entries[0].Answer.Withheld; !slices.Equal(got, want) {
			t.Errorf("withheld %v, want %v", got, want)
		}
		if first != "" && first != text {
			t.Errorf("withheld twice: got %s, want %s", text, first)
		}
		first = text
	}
}

package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
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

// fill sets every text to a canary that names its place, and makes one of each element.
func fill(v reflect.Value, at string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), at)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), at+"[]")
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, at+"{}")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			fill(v.Field(i), strings.TrimPrefix(at+"."+name, "."))
		}
	case reflect.String:
		v.SetString("canary:" + at + ":")
	}
}

// TestEveryFactIsAnIdentityOrNot fails for a fact that nobody has thought of: whoever adds one says here whether it tells
// which machine it is, and if so withholds it.
func TestEveryFactIsAnIdentityOrNot(t *testing.T) {
	identity := []string{"product.serial", "product.uuid", "machine_id", "guids{}", "interfaces{}.mac"}
	harmless := []string{
		"cpu.vendor", "cpu.model", "cpu.cores[].kind",
		"pci[].address", "pci[].device", "pci[].subsystem", "pci[].class", "pci[].driver", "pci[].physfn",
		"accelerators[].kind", "accelerators[].vendor", "accelerators[].name", "accelerators[].model", "accelerators[].device",
		"accelerators[].driver", "accelerators[].address", "accelerators[].driver_version", "accelerators[].evidence",
		"nics[].interface", "nics[].vendor", "nics[].model", "nics[].device", "nics[].link", "nics[].driver", "nics[].address",
		"nics[].infiniband[].device", "nics[].infiniband[].link_layer", "nics[].infiniband[].state",
		"interfaces{}.ipv4[]", "interfaces{}.ipv6[]", // but those that are made of a MAC address
		"product.name", "product.vendor", "product.sku", "virtualization", "kernel.release",
		"os.id", "os.id_like[]", "os.version_id", "os.name",
		"runtime.endpoint", "runtime.name", "runtime.version", "runtime.cgroup_driver",
		"unknown[].fact", "unknown[].why", "evidence{}",
	}
	var f Facts
	fill(reflect.ValueOf(&f).Elem(), "")
	r := &Recording{Entries: []Entry{{FactsOf.Question(FactsReq{}), FactsOf.Answer(f)}}}
	if err := r.Withhold(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Encode(&b); err != nil {
		t.Fatal(err)
	}
	for _, place := range leaves(reflect.TypeFor[Facts](), "") {
		there := strings.Contains(b.String(), "canary:"+place+":")
		switch {
		case slices.Contains(identity, place) && there:
			t.Errorf("%s tells which machine it is, and is in a recording that is passed on", place)
		case slices.Contains(harmless, place) && !there:
			t.Errorf("%s tells nothing of which machine it is, and is withheld", place)
		case !slices.Contains(identity, place) && !slices.Contains(harmless, place):
			t.Errorf("%s is new: does it tell which machine it is? Say so in this test", place)
		}
	}
	if got := len(r.Entries[0].Answer.Withheld); got != len(identity) {
		t.Errorf("%v are withheld, for %d identities", r.Entries[0].Answer.Withheld, len(identity))
	}
}

// An IPv6 address that a machine gave itself has its MAC address inside.
func TestAddressesThatTellAMACAddressAreWithheld(t *testing.T) {
	mac := "02:fc:00:00:00:01"
	gone := []string{"fe80::fc:ff:fe00:1", "2001:db8::fc:ff:fe00:1", "fe80::202:c903:f9:bfa1"}
	kept := []string{"2001:db8::7", "fd00::2", "2001:db8:1:2:8d3f:11ab:92c0:7"}
	f := Facts{Interfaces: map[string]Interface{"eth0": {MAC: &mac, IPv6: []string{gone[0], kept[0], gone[1], kept[1], gone[2], kept[2]}}}}
	r := &Recording{Entries: []Entry{{FactsOf.Question(FactsReq{}), FactsOf.Answer(f)}}}
	if err := r.Withhold(); err != nil {
		t.Fatal(err)
	}
	want := []string{"/interfaces/eth0/ipv6/0", "/interfaces/eth0/ipv6/2", "/interfaces/eth0/ipv6/4", "/interfaces/eth0/mac"}
	if got := r.Entries[0].Answer.Withheld; !slices.Equal(got, want) {
		t.Errorf("withheld %v, want %v", got, want)
	}
	var after Facts
	if err := json.Unmarshal(r.Entries[0].Answer.Value, &after); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(after.Interfaces["eth0"].IPv6), fmt.Sprint([]string{"", kept[0], "", kept[1], "", kept[2]}); got != want {
		t.Errorf("left %s, want %s: places must stay where they are", got, want)
	}
}

// TestWithholdDetector takes out of what a detector said what is called an identity, or written like a MAC address, at any depth;
// the rest stays, and the second time nothing changes.
func TestWithholdDetector(t *testing.T) {
	r := &Recording{Entries: []Entry{{DetectorOf.Question(DetectorReq{Name: "x"}), DetectorOf.Answer(DetectorAns{
		Attributes: map[string]string{"serial_number": "canary", "board.UUID": "canary", "firmware": "1.20", "macro": "stays", "serial_ports": "2", "port": "02:00:5E:00:53:01", "address": "0000:5e:00.0"},
		Devices:    []DetectorDevice{{Attributes: map[string]string{"sn": "canary", "slot": "3"}}},
		Facts:      map[string]any{"node_guid": "canary", "ports": []any{map[string]any{"mac": "canary", "speed": 100.0}, "02-00-5e-00-53-02"}, "serials": []any{"canary"}, "missing_serial": nil}})}}}
	var first string
	for range 2 {
		if err := r.Withhold(); err != nil {
			t.Fatal(err)
		}
		text := string(r.Entries[0].Answer.Value)
		if strings.Contains(text, "canary") || strings.Contains(strings.ToLower(text), "5e:00:53") || strings.Contains(text, "5e-00-53") {
			t.Errorf("it is still there: %s", text)
		}
		for _, stays := range []string{`"firmware":"1.20"`, `"macro":"stays"`, `"serial_ports":"2"`, `"slot":"3"`, `"speed":100`, `"address":"0000:5e:00.0"`} {
			if !strings.Contains(text, stays) {
				t.Errorf("%s is gone: %s", stays, text)
			}
		}
		want := []string{"/attributes/board.UUID", "/attributes/port", "/attributes/serial_number", "/devices/0/attributes/sn", "/facts/node_guid", "/facts/ports/0/mac", "/facts/ports/1", "/facts/serials"}
		if got := r.Entries[0].Answer.Withheld; !slices.Equal(got, want) {
			t.Errorf("withheld %v, want %v", got, want)
		}
		if first != "" && first != text {
			t.Errorf("the second time: %s", text)
		}
		first = text
	}
}

package tape

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// withhold removes the machine's identity from facts or from a detector's answer.
func (a *Answer) withhold(kind Kind, x *anonymous) error {
	var v map[string]any
	if err := json.Unmarshal(a.Value, &v); err != nil {
		return fmt.Errorf("recording: %s: %w", kind, err)
	}
	rewrite(v, x.all, x.names)
	out := x.pointers(a.Withheld)
	if kind == KindDetector {
		x.hideInReport(v, &out)
	} else {
		x.hideInFacts(v, &out)
	}
	rewrite(v, x.all, x.all)
	slices.Sort(out)
	b, err := json.Marshal(v)
	if err == nil {
		a.Value, a.Withheld = b, out
	}

	return err
}

// hideInFacts hides the facts that identify a machine, and addresses that are made of such.
func (x *anonymous) hideInFacts(facts map[string]any, out *[]string) {
	for _, part := range []string{"product", "chassis", "baseboard", "block_devices"} {
		x.hide(facts[part], "/"+part, out)
	}
	interfaces, _ := facts["interfaces"].(map[string]any)
	for name, one := range interfaces {
		at := Pointer("interfaces", name)
		x.hide(one, at, out)
		if m, ok := one.(map[string]any); ok {
			*out = append(*out, hideAddresses(m, at)...)
		}
	}

	routes, _ := facts["default_route"].(map[string]any)
	*out = append(*out, hideAddress(routes["ipv6"], "/default_route/ipv6", "gateway", "source")...)

	guids, _ := facts["guids"].(map[string]any)
	for key, isKnown := range map[string]bool{
		"machine_id": facts["machine_id"] != nil,
		"guids":      len(guids) > 0,
	} {
		if isKnown {
			facts[key] = nil
			*out = append(*out, "/"+key)
		}
	}
}

// hideInReport hides the parts of a detector's report that identify the machine. Only the vendor knows the meaning of
// free attributes, facts and labels, so it hides those with the name of a serial number, an asset tag, a WWN, a uuid, a
// GUID, a MAC address or an LLDP neighbour, and texts with a MAC address inside.
func (x *anonymous) hideInReport(v map[string]any, out *[]string) {
	x.hide(v["attributes"], "/attributes", out)
	x.hide(v["facts"], "/facts", out)
	devices, _ := v["devices"].([]any)
	for i, d := range devices {
		if m, ok := d.(map[string]any); ok {
			x.hide(m["attributes"], "/devices/"+strconv.Itoa(i)+"/attributes", out)
		}
	}
	labels, _ := v["labels"].(map[string]any)
	for k := range labels {
		if isIdentity(k) {
			labels[k] = "withheld" // a label's value is a text
		}
	}
}

// hide replaces identities in a value by null, at any depth, and collects their places.
func (x *anonymous) hide(v any, at string, out *[]string) {
	each := func(in any, name, at string, set func()) {
		text, _ := in.(string)
		if in != nil && (isIdentity(name) || x.mac.MatchString(text)) {
			set()
			*out = append(*out, at)
			return
		}
		x.hide(in, at, out)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, in := range v {
			each(in, k, at+Pointer(k), func() {
				v[k] = nil
			})
		}
	case []any:
		for i, in := range v {
			remove := func() { v[i] = nil }
			each(in, "", at+"/"+strconv.Itoa(i), remove)
		}
	}
}

// isIdentity reports whether a name is that of a machine's identity: serial_number, board.serial, nodeGuid; not
// serial_ports.
func isIdentity(name string) bool {
	words := regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")
	// MACAddress is split, but GUIDs is not.
	short := regexp.MustCompile(`([A-Z])([A-Z][a-z])`).ReplaceAllString(words, "$1 $2")

	return saysIdentity(name) || saysIdentity(words) || saysIdentity(short)
}

func saysIdentity(name string) bool {
	isSeparator := func(r rune) bool {
		isLetter := r >= 'a' && r <= 'z'
		return !isLetter && (r < '0' || r > '9')
	}
	words := strings.FieldsFunc(strings.ToLower(name), isSeparator)
	numbers := []string{"number", "numbers", "no", "id"}
	for i, w := range words {
		switch w {
		case "serial":
			isLast := i == len(words)-1
			if isLast || slices.Contains(numbers, words[i+1]) {
				return true
			}
		case "asset":
			if i+1 < len(words) && (words[i+1] == "tag" || words[i+1] == "tags") {
				return true
			}
		case "lldp": // the switch and the port that the machine is connected to
			return true
		case "serials", "serialnumber", "sn", "uuid", "uuids", "guid", "guids", "wwn", "wwns", "mac",
			"macs":
			return true
		}
	}
	return false
}

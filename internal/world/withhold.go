package world

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// withholdSaid removes the machine's identity from a detector's answer. Only the vendor knows the meaning of free
// attributes, facts and labels, so it removes those with the name of a serial number, an asset tag, a uuid, a GUID, a
// MAC address or an LLDP neighbour, and texts with a MAC address inside.
func (a *Answer) withholdSaid(x *anonymous) error {
	var v map[string]any
	if err := json.Unmarshal(a.Value, &v); err != nil {
		return fmt.Errorf("recording: detector: %w", err)
	}
	rewrite(v, x.all, x.names)
	out := x.pointers(a.Withheld)
	x.hide(v["attributes"], "/attributes", &out)
	x.hide(v["facts"], "/facts", &out)
	devices, _ := v["devices"].([]any)
	for i, d := range devices {
		if m, ok := d.(map[string]any); ok {
			x.hide(m["attributes"], "/devices/"+strconv.Itoa(i)+"/attributes", &out)
		}
	}
	labels, _ := v["labels"].(map[string]any)
	for k := range labels {
		if isIdentity(k) {
			labels[k] = "withheld" // a label's value is a text
		}
	}
	rewrite(v, x.all, x.all)
	slices.Sort(out)
	b, err := json.Marshal(v)
	if err == nil {
		a.Value, a.Withheld = b, out
	}
	return err
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
			each(in, k, at+"/"+EscapePointer(k), func() {
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
		case "serials", "serialnumber", "sn", "uuid", "uuids", "guid", "guids", "mac", "macs":
			return true
		}
	}
	return false
}

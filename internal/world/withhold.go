package world

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// withholdSaid leaves out of a detector's answer what tells which machine it is. Nobody but its vendor knows what the names of free
// attributes, of facts and of labels mean: those are taken that are called a serial number, a uuid, a GUID or a MAC address, and texts
// with a MAC address inside. What else it says keeps its place, with other names for such addresses.
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

// hide makes identities below a value null, and notes where.
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
			each(in, k, at+"/"+EscapePointer(k), func() { v[k] = nil })
		}
	case []any:
		for i, in := range v {
			each(in, "", at+"/"+strconv.Itoa(i), func() { v[i] = nil })
		}
	}
}

// isIdentity knows a name whose words say that its value is one machine's alone: serial_number, board.serial, nodeGuid; not serial_ports.
func isIdentity(name string) bool {
	words := regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")
	short := regexp.MustCompile(`([A-Z])([A-Z][a-z])`).ReplaceAllString(words, "$1 $2") // MACAddress; but GUIDs are no GUI
	return saysIdentity(name) || saysIdentity(words) || saysIdentity(short)
}

func saysIdentity(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for i, w := range words {
		switch w {
		case "serial":
			if i == len(words)-1 || slices.Contains([]string{"number", "numbers", "no", "id"}, words[i+1]) {
				return true
			}
		case "serials", "serialnumber", "sn", "uuid", "uuids", "guid", "guids", "mac", "macs":
			return true
		}
	}
	return false
}

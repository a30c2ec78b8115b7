package world

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// withholdSaid leaves out of a detector's answer what tells which machine it is. Nobody but its vendor knows what the names of free
// attributes and of facts mean: those are taken that are called a serial number, a uuid, a GUID or a MAC address.
func (a *Answer) withholdSaid() error {
	var v map[string]any
	if err := json.Unmarshal(a.Value, &v); err != nil {
		return fmt.Errorf("recording: detector: %w", err)
	}
	out := slices.Clone(a.Withheld)
	hide(v["attributes"], "/attributes", &out)
	hide(v["facts"], "/facts", &out)
	devices, _ := v["devices"].([]any)
	for i, d := range devices {
		if m, ok := d.(map[string]any); ok {
			hide(m["attributes"], "/devices/"+strconv.Itoa(i)+"/attributes", &out)
		}
	}
	if len(out) == len(a.Withheld) {
		return nil
	}
	sort.Strings(out)
	b, err := json.Marshal(v)
	if err == nil {
		a.Value, a.Withheld = b, out
	}
	return err
}

// hide makes identities below a value null, and notes where.
func hide(v any, at string, out *[]string) {
	each := func(x any, name, at string, set func()) {
		text, _ := x.(string)
		if x != nil && (isIdentity(name) || isMAC(text)) {
			set()
			*out = append(*out, at)
			return
		}
		hide(x, at, out)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			each(x, k, at+"/"+EscapePointer(k), func() { v[k] = nil })
		}
	case []any:
		for i, x := range v {
			each(x, "", at+"/"+strconv.Itoa(i), func() { v[i] = nil })
		}
	}
}

// isIdentity knows a name whose words say that its value is one machine's alone: serial_number, board.serial, node_guid; not serial_ports.
func isIdentity(name string) bool {
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

// isMAC knows six bytes as they are written for people: 02:00:5e:00:53:01.
func isMAC(s string) bool {
	if len(s) != 17 {
		return false
	}
	for i, c := range []byte(strings.ToLower(s)) {
		if hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'; i%3 == 2 && c != ':' && c != '-' || i%3 != 2 && !hex {
			return false
		}
	}
	return true
}

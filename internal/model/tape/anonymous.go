package tape

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// anonymous replaces MAC addresses, GUIDs and names made of them by other names, the same ones in a whole recording:
// the text 02:00:5e:00:53:01 becomes hwaddr-1, and the interface enx02005e005301 becomes enx-1. It finds six bytes as
// they are written for people, and names of interfaces and of RDMA devices that end in x and the digits of six or
// eight bytes.
// Source: systemd.net-naming-scheme(7), ID_NET_NAME_MAC; rdma-core's rdma_rename, NAME_GUID.
type anonymous struct {
	mac, name *regexp.Regexp
	numbers   map[string]string // by hexadecimal digits
	kept      map[string]bool   // names
}

// newAnonymous numbers the addresses in the machine's own answers, in the digits' order. A name that is in the site,
// or in another answer, stays as it is: it is in the recording anyway, and the plan depends on it.
func newAnonymous(r *Recording) (*anonymous, error) {
	x := &anonymous{
		kept:    map[string]bool{},
		numbers: map[string]string{},
		mac:     regexp.MustCompile(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5}\b`),
		name:    regexp.MustCompile(`\b[a-z]{1,5}x([0-9a-f]{12}|[0-9a-f]{16})\b`),
	}
	collect := func(s string) string {
		for _, m := range x.mac.FindAllString(s, -1) {
			x.numbers[hexDigits(m)] = ""
		}
		for _, m := range x.name.FindAllString(s, -1) {
			x.numbers[hexDigits(m)] = ""
			x.kept[m] = r.isPublic(m)
		}
		return s
	}
	for _, e := range r.Entries {
		if e.isHardware() {
			var v any
			if err := json.Unmarshal(e.Answer.Value, &v); err != nil {
				return nil, fmt.Errorf("recording: %s: %w", e.Kind, err)
			}
			rewrite(v, collect, collect)
		}
	}
	for i, d := range slices.Sorted(maps.Keys(x.numbers)) {
		x.numbers[d] = strconv.Itoa(i + 1)
	}
	return x, nil
}

// isHardware reports whether an entry describes the machine's hardware.
func (e Entry) isHardware() bool {
	return (e.Kind == KindHardware || e.Kind == KindDetector) && e.Answer.Fault == nil
}

// isPublic reports whether a name is in the site, or in an entry from which no name is withheld.
func (r *Recording) isPublic(name string) bool {
	isInSite := slices.ContainsFunc(r.Header.Site, func(f SiteFile) bool {
		return strings.Contains(f.Text, name)
	})
	isInEntry := func(e Entry) bool {
		isInAnswer := strings.Contains(string(e.Answer.Value), name)
		return strings.Contains(e.Args, name) || isInAnswer && !e.isHardware()
	}

	return isInSite || slices.ContainsFunc(r.Entries, isInEntry)
}

func (x *anonymous) names(s string) string {
	return x.name.ReplaceAllStringFunc(s, func(m string) string {
		if x.kept[m] {
			return m
		}
		d := hexDigits(m)
		return strings.TrimSuffix(m, d) + "-" + x.numbers[d]
	})
}

func (x *anonymous) all(s string) string {
	return x.mac.ReplaceAllStringFunc(x.names(s), func(m string) string {
		return "hwaddr-" + x.numbers[hexDigits(m)]
	})
}

// pointers are those of an earlier Withhold, which kept names.
func (x *anonymous) pointers(list []string) []string {
	out := slices.Clone(list)
	for i, p := range out {
		keys := SplitPointer(p)
		for j, k := range keys {
			keys[j] = x.all(k)
		}
		out[i] = Pointer(keys...)
	}
	return out
}

// hexDigits returns the digits of a MAC address, or after the x of a name, in lower case.
func hexDigits(s string) string {
	s = strings.ToLower(s)
	afterX := s[strings.LastIndexByte(s, 'x')+1:]

	return strings.ReplaceAll(strings.ReplaceAll(afterX, ":", ""), "-", "")
}

// rewrite replaces keys and texts in a value, at any depth, and returns the value.
func rewrite(v any, key, text func(string) string) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i, x := range v {
			v[i] = rewrite(x, key, text)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x := rewrite(v[k], key, text)
			delete(v, k)
			v[key(k)] = x
		}
	}
	return v
}

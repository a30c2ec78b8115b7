package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// anonymous gives what is made of a MAC address or a GUID another name, the same in a whole recording: the text 02:00:5e:00:53:01
// becomes hwaddr-1, and the interface enx02005e005301 becomes enx-1. It knows six bytes as they are written for people, and the names of
// interfaces and of RDMA devices that end in x and the digits of six or eight bytes.
// Source: systemd.net-naming-scheme(7), ID_NET_NAME_MAC; rdma-core's rdma_rename, NAME_GUID.
type anonymous struct {
	mac, name *regexp.Regexp
	numbers   map[string]string // by hexadecimal digits
	kept      map[string]bool   // names
}

// newAnonymous numbers what the machine's own answers tell, in the digits' order. A name that the site says, or something else that
// it reads, stays as it is: the recording tells it anyway, and without it the plan could not be made again.
func newAnonymous(r *Recording) (*anonymous, error) {
	x := &anonymous{kept: map[string]bool{}, numbers: map[string]string{},
		mac: regexp.MustCompile(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5}\b`), name: regexp.MustCompile(`\b[a-z]{1,5}x([0-9a-f]{12}|[0-9a-f]{16})\b`)}
	collect := func(s string) string {
		for _, m := range x.mac.FindAllString(s, -1) {
			x.numbers[hexDigits(m)] = ""
		}
		for _, m := range x.name.FindAllString(s, -1) {
			x.numbers[hexDigits(m)], x.kept[m] = "", r.says(m)
		}
		return s
	}
	for _, e := range r.Entries {
		if e.tells() {
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

// tells says whether an entry is what the machine, or a detector on it, tells of its hardware.
func (e Entry) tells() bool {
	return (e.Kind == KindFacts || e.Kind == KindDetector) && e.Answer.Fault == nil
}

// says looks for a name where nothing is withheld.
func (r *Recording) says(name string) bool {
	return slices.ContainsFunc(r.Header.Site, func(f SiteFile) bool { return strings.Contains(f.Text, name) }) ||
		slices.ContainsFunc(r.Entries, func(e Entry) bool {
			return strings.Contains(e.Args, name) || !e.tells() && strings.Contains(string(e.Answer.Value), name)
		})
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
	return x.mac.ReplaceAllStringFunc(x.names(s), func(m string) string { return "hwaddr-" + x.numbers[hexDigits(m)] })
}

// pointers are those of an earlier Withhold, which kept names.
func (x *anonymous) pointers(list []string) []string {
	out := slices.Clone(list)
	for i, p := range out {
		keys := strings.Split(p, "/")
		for j, k := range keys {
			keys[j] = EscapePointer(x.all(strings.NewReplacer("~1", "/", "~0", "~").Replace(k)))
		}
		out[i] = strings.Join(keys, "/")
	}
	return out
}

// hexDigits are those of a MAC address, or behind the x of a name, in lower case.
func hexDigits(s string) string {
	s = strings.ToLower(s)
	return strings.NewReplacer(":", "", "-", "").Replace(s[strings.LastIndexByte(s, 'x')+1:])
}

// rewrite makes other keys and other texts of a value and all below it. It returns the value.
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

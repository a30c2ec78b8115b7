package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// newerCase is the kubelet of a node as an installer sets it up, changed at random, and the minor version in place.
type newerCase struct {
	inputCase

	from     int
	Unit     []string `json:"unit,omitempty"`     // flags of the unit's command line, before the others
	Kubeadm  []string `json:"kubeadm,omitempty"`  // flags of kubeadm's file, before those of Flags
	IsObject bool     `json:"isObject,omitempty"` // Config is that of a ConfigMap
}

func (c newerCase) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}

	return string(b)
}

// shape is testdata/newer.yaml's kubelet of one installer: each value is a choice.
type shape struct {
	Config  map[string]any            `json:"config"`
	Flags   map[string]any            `json:"flags"`
	DropIns map[string]map[string]any `json:"dropIns"`
}

// newerInputs makes random cases.
type newerInputs struct {
	*inputs
	shapes map[string]shape
	newest int
}

func newNewerInputs(t *testing.T, g *inputs, newest int) *newerInputs {
	t.Helper()
	text, err := os.ReadFile("testdata/newer.yaml")
	must(t, err)
	out := &newerInputs{inputs: g, newest: newest}
	must(t, yaml.UnmarshalStrict(text, &out.shapes))

	return out
}

// next is a random case in which the kubelet of a minor version is in place.
func (g *newerInputs) next(from int) newerCase {
	kind := pick(g.inputs, slices.Sorted(maps.Keys(g.shapes))...)
	s := g.shapes[kind]
	config, flags := parseBaseline(), []string{}
	if g.oneIn(6) {
		delete(config, "failCgroupV1")
	}
	merged(config, g.some(s.Config))
	given := g.some(s.Flags)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if g.isTaken("flag", name, from) {
			flags = append(flags, fmt.Sprintf("%s=%v", name, given[name]))
		}
	}
	if gates, isSet := config["featureGates"].(map[string]any); isSet {
		for _, name := range slices.Sorted(maps.Keys(gates)) {
			if !g.isTaken("gate", name, from) {
				delete(gates, name)
			}
		}
	}

	for range g.IntN(4) {
		switch g.IntN(7) {
		case 0, 1:
			if name, isOn := g.aGate(from); g.oneIn(2) {
				flags = append(flags, fmt.Sprintf("feature-gates=%s=%t", name, isOn))
			} else {
				merged(config, nested([]string{"featureGates", name}, isOn))
			}
		case 2, 3:
			flags = append(flags, g.aFlag(from))
		case 4, 5:
			name := pick(g.inputs, slices.Sorted(maps.Keys(g.Valid))...)
			merged(config, map[string]any{name: g.draw(g.Valid[name])})
		default:
			f := pick(g.inputs, g.fields...)
			if f.path[0] != "authentication" && f.path[0] != "authorization" {
				merged(config, nested(f.path, g.value(f)))
			}
		}
	}

	c := newerCase{from: from, IsObject: g.oneIn(3), inputCase: inputCase{Kind: kind, Config: toYAML(config)}}
	for _, flag := range flags {
		to := pick(g.inputs, &c.Unit, &c.Kubeadm, &c.Flags, &c.Flags)
		*to = append(*to, flag)
	}
	for _, name := range slices.Sorted(maps.Keys(s.DropIns)) {
		if c.DropIns == nil {
			c.DropIns = map[string]string{}
		}
		fields := map[string]any{"apiVersion": config["apiVersion"], "kind": config["kind"]}
		merged(fields, g.some(s.DropIns[name]))
		c.DropIns[name] = toYAML(fields)
	}

	return c
}

// isTaken is true for a name of the version in place. Of one that a newer version lacks it is true once in four times:
// with it every newer kubelet exits, whatever else it would do.
func (g *newerInputs) isTaken(kind, name string, minor int) bool {
	h := g.known[kind][name]

	return h.at(minor) != "" && (h.at(g.newest) != "" || g.oneIn(4))
}

func toYAML(object map[string]any) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		panic(err)
	}

	return string(text)
}

// some is drawFields without about a quarter of the fields.
func (g *newerInputs) some(choices map[string]any) map[string]any {
	fields := g.drawFields(choices)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if g.oneIn(4) {
			delete(fields, name)
		}
	}

	return fields
}

// aGate is one of a version, with a value that this version accepts. Most are different in a later one.
func (g *newerInputs) aGate(minor int) (name string, isOn bool) {
	name = g.aName("gate", minor)
	state := g.known["gate"][name].at(minor)
	isOn = g.oneIn(2)
	if strings.HasSuffix(state, "!") {
		isOn = strings.Contains(state, "+")
	}

	return name, isOn
}

// aFlag is a flag of a version, with a value. Most are different in a later one.
func (g *newerInputs) aFlag(minor int) string {
	for {
		name := g.aName("flag", minor)
		if slices.Contains(g.NotTried, name) || slices.Contains(notReadable(), name) {
			continue
		}
		takes, _, _ := strings.Cut(g.known["flag"][name].at(minor), " ")
		i := slices.IndexFunc(g.flags, func(f knownFlag) bool { return f.name == name })
		f := g.flags[i]
		if !f.isNow {
			f.takes = takes
		}

		return name + "=" + g.flagValue(f)
	}
}

// notReadable are flags with which nothing can be read from the kubelet.
func notReadable() []string {
	return []string{
		"anonymous-auth", "authentication-token-webhook", "authorization-mode", "client-ca-file", "enable-server",
		"port", "tls-cert-file", "tls-private-key-file", "address", "enable-debugging-handlers", "version",
	}
}

// aName is a name of a kind that a version has: three times in four of those that a newer one changes.
func (g *newerInputs) aName(kind string, minor int) string {
	var all, changing []string
	for name, h := range g.known[kind] {
		if h.at(minor) == "" {
			continue
		}
		all = append(all, name)
		if h.at(g.newest) != h.at(minor) {
			changing = append(changing, name)
		}
	}
	if len(changing) > 0 && !g.oneIn(4) {
		all = changing
	}
	slices.Sort(all)

	return pick(g.inputs, all...)
}

// placeOf is the field that a message names, by itself or by its flag.
func (g *newerInputs) placeOf(item string) string {
	name, isFlag := strings.CutPrefix(item, "--")
	if i := slices.IndexFunc(g.flags, func(f knownFlag) bool { return f.name == name }); isFlag && i >= 0 {
		return g.flags[i].field
	}

	return item
}

// tables are those of internal/model/kubelet/known: what each version has, by kind and name.
type tables map[string]map[string]history

type history []historyState

type historyState struct {
	since int
	text  string // "-": removed
}

// at is the state in a version; "" where it does not have the name.
func (h history) at(minor int) (text string) {
	for _, s := range h {
		if s.since <= minor {
			text = strings.TrimPrefix(s.text, "-")
		}
	}

	return text
}

func readTables(t *testing.T) tables {
	t.Helper()
	text, err := os.ReadFile("../../internal/model/kubelet/known/tables.txt")
	must(t, err)
	out := tables{"gate": {}, "flag": {}, "field": {}, "read": {}}
	for line := range strings.Lines(string(text)) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if out[part[0]] == nil {
			continue
		}
		var h history
		for _, state := range strings.Split(part[2], ";") {
			since, is, isState := strings.Cut(state, "=")
			minor, err := strconv.Atoi(since)
			if isState && err == nil { // a message may have a semicolon, too
				h = append(h, historyState{minor, is})
			}
		}
		out[part[0]][part[1]] = h
	}

	return out
}

// fieldOf is the field of the tables that a place in a configuration belongs to.
func (t tables) fieldOf(place string) history {
	for {
		if h, isField := t["field"][place]; isField {
			return h
		}
		i := strings.LastIndex(place, ".")
		if i < 0 {
			return nil
		}
		place = place[:i]
	}
}

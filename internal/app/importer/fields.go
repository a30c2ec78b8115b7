package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
)

// fields are the values of an object by key, each with the place of its key.
type fields struct {
	values map[string]*lang.JSONNode
	keys   map[string]hcl.Range
}

// object returns the known fields of an object; without any for null or a missing one. Unknown fields are reported.
func (r *reader) object(n *lang.JSONNode, what string, known ...string) fields {
	out := fields{map[string]*lang.JSONNode{}, map[string]hcl.Range{}}
	if n == nil || n.Kind == lang.JSONNull {
		return out
	}
	if n.Kind != lang.JSONObject {
		r.add(origin.Error(fault.WrongType, n.Range, "Wrong type for "+what, "An object is needed, not %s.", n.Kind))
		return out
	}

	for i, key := range n.Keys {
		if !slices.Contains(known, key.Text) {
			r.add(origin.Warning(
				fault.UnknownArgument, key.Range, fmt.Sprintf("%s is not imported", shorten(key.Text, 28)),
				"It is not a field of %s that prelet knows. %s", what, schema.Suggest(key.Text, known),
			))
			continue
		}
		if _, isDuplicate := out.values[key.Text]; isDuplicate {
			r.add(origin.Note(fault.Duplicate, key.Range, key.Text+" is given twice", "The last one counts."))
		}
		out.values[key.Text] = n.Items[i]
		out.keys[key.Text] = key.Range
	}

	return out
}

// leave reports fields that are set and not imported, each with the reason.
func (r *reader) leave(f fields, reason string, names ...string) {
	for _, name := range names {
		if n := f.values[name]; n != nil && n.Kind != lang.JSONNull {
			r.add(origin.Note(fault.UnknownArgument, f.keys[name], name+" is not imported", "%s.", reason))
		}
	}
}

// text returns a string; "" for a missing one and null. The place of a wrong type is that of the key.
func (r *reader) text(f fields, name string) string {
	n := f.values[name]
	if n == nil || n.Kind == lang.JSONNull {
		return ""
	}
	if n.Kind != lang.JSONString {
		r.add(origin.Error(fault.WrongType, f.keys[name], "Wrong type for "+name,
			"A string is needed, not %s. Quote it.", n.Kind))
		return ""
	}

	return n.Text
}

// list returns the elements of a list.
func (r *reader) list(f fields, name string) []*lang.JSONNode {
	n := f.values[name]
	if n == nil || n.Kind == lang.JSONNull {
		return nil
	}
	if n.Kind != lang.JSONArray {
		r.add(origin.Error(fault.WrongType, f.keys[name], "Wrong type for "+name, "A list is needed, not %s.", n.Kind))
		return nil
	}

	return n.Items
}

// at returns the place of a field's value, or of its key.
func (f fields) at(name string) hcl.Range {
	if n := f.values[name]; n != nil && n.Kind != lang.JSONNull {
		return n.Range
	}

	return f.keys[name]
}

// toAny returns a tree of JSON as Go values; numbers keep their digits.
func toAny(n *lang.JSONNode) any {
	switch n.Kind {
	case lang.JSONObject:
		out := map[string]any{}
		for i, key := range n.Keys {
			out[key.Text] = toAny(n.Items[i])
		}
		return out
	case lang.JSONArray:
		out := []any{}
		for _, i := range n.Items {
			out = append(out, toAny(i))
		}
		return out
	case lang.JSONNumber:
		return json.Number(n.Text)
	case lang.JSONBool:
		return n.Text == "true"
	case lang.JSONNull:
		return nil
	}

	return n.Text
}

// literal returns a value as an expression of the site's language.
func literal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	t, err := ctyjson.ImpliedType(text)
	if err != nil {
		return "", err
	}
	c, err := ctyjson.Unmarshal(text, t)
	if err != nil {
		return "", err
	}

	return string(hclwrite.TokensForValue(c).Bytes()), nil
}

// settings are what flags and registration options of a kubelet become in a site.
type settings struct {
	Name, IP string
	Labels   []label
	Taints   []taint
	Flags    map[string]any // by name
	Patch    map[string]any // of the configuration
}

func newSettings() settings {
	return settings{Flags: map[string]any{}, Patch: map[string]any{}}
}

// locate notes the place of a value by a text that messages about it contain.
func (r *reader) locate(text string, at hcl.Range) {
	if text != "" {
		r.places[text] = at
	}
}

// placeFor returns the place of the value that a message is about: that of the longest text in it, or the begin of the
// file.
func (r *reader) placeFor(message string) hcl.Range {
	at := r.start()
	longest := 0
	for _, text := range slices.Sorted(maps.Keys(r.places)) {
		if len(text) > longest && strings.Contains(message, text) {
			longest = len(text)
			at = r.places[text]
		}
	}

	return at
}

// addFlag adds a flag of the kubelet. Labels, taints, name and address have places of their own in a site. Several
// uses of one flag add up where the kubelet adds them up; otherwise the last one counts, as for taints.
func (r *reader) addFlag(s *settings, written, text string, at hcl.Range) {
	name := kubelet.FlagName(written)
	r.locate("--"+name, at)
	switch name {
	case "":
		r.add(origin.Warning(fault.FlagsInvalid, at, "A flag without a name is not imported", "Write its name."))
	case "node-labels":
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				r.addLabel(s, item, at)
			}
		}
	case "register-with-taints": // each use replaces the earlier ones, and kubeadm's own
		if len(s.Taints) > 0 {
			r.add(origin.Note(fault.Duplicate, at, "Earlier taints are not imported",
				"The kubelet takes the taints of the last --register-with-taints only."))
		}
		s.Taints = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				r.addTaint(s, item, at)
			}
		}
	case "hostname-override":
		s.Name = text
		r.locate(strconv.Quote(text), at)
	case "node-ip":
		s.IP = text
	case "container-runtime-endpoint":
		s.Patch["containerRuntimeEndpoint"] = text
	case "config", "kubeconfig", "bootstrap-kubeconfig":
		r.add(origin.Note(fault.UnknownArgument, at, "--"+name+" is not imported",
			"The kubelet's unit sets it. For another path, set path in kubelet_config of the site."))
	default:
		if old, isSet := s.Flags[name]; isSet && old != text {
			text = kubelet.JoinFlag(name, fmt.Sprint(old), text)
		}
		s.Flags[name] = text
	}
}

func (r *reader) addLabel(s *settings, item string, at hcl.Range) {
	key, val, _ := strings.Cut(item, "=")
	r.locate(key, at)
	err := kubelet.CheckLabel(key, val)
	if err == nil {
		err = kubelet.CheckNodeKey(key, "")
	}
	if err != nil {
		summary := "A label is not imported: the kubelet would refuse it"
		r.add(origin.Warning(fault.LabelInvalid, at, summary, "%s.", err))
		return
	}
	s.Labels = slices.DeleteFunc(s.Labels, func(l label) bool { return l.Key == key })
	s.Labels = append(s.Labels, label{key, val, at})
}

func (r *reader) addTaint(s *settings, item string, at hcl.Range) {
	t, err := kubelet.ParseTaint(item)
	if err != nil {
		summary := "A taint is not imported: the kubelet would refuse it"
		r.add(origin.Warning(fault.TaintInvalid, at, summary, "%s.", err))
		return
	}
	s.Taints = slices.DeleteFunc(s.Taints, func(o taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
	s.Taints = append(s.Taints, taint{t, at})
}

// dropTaints removes the taints of a patch if the kubelet has the flag too, which replaces them.
func (r *reader) dropTaints(s *settings, at hcl.Range) {
	const field = "registerWithTaints"
	if _, isSet := s.Patch[field]; !isSet || len(s.Taints) == 0 {
		return
	}
	if place, ok := r.places[field]; ok {
		at = place
	}
	delete(s.Patch, field)
	r.add(origin.Note(fault.Duplicate, at, field+" is not imported",
		"The kubelet takes the taints of --register-with-taints instead."))
}

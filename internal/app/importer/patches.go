package importer

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
)

// PatchFile is a file of kubeadm's folder of patches.
type PatchFile struct {
	Name string // with its folder, for messages
	Text []byte
}

// patchName splits a file's name as kubeadm does. Source: cmd/kubeadm/app/util/patches.
var patchName = regexp.MustCompile(
	`^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubeletconfiguration|corednsdeployment|` +
		`kubeproxydaemonset)` +
		`([^.+\n]*)?(\+)?(json|merge|strategic)?`)

// readPatches merges the patches of the kubelet's configuration, in the order of their names, into one.
func (r *reader) readPatches(files []PatchFile) map[string]any {
	out := map[string]any{}
	for _, f := range files {
		base := path.Base(f.Name)
		top := hcl.Range{Filename: f.Name, Start: hcl.InitialPos, End: hcl.InitialPos}
		m := patchName.FindStringSubmatch(base)
		isText := strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".json")
		switch {
		case m == nil || !isText:
			r.add(origin.Note(fault.UnknownArgument, top, base+" is not imported", "kubeadm ignores it too."))
		case m[1] != "kubeletconfiguration":
			r.add(origin.Note(fault.UnknownArgument, top, base+" is not imported",
				"It patches %s, which prelet does not write.", m[1]))
		case m[3] != "" && m[4] == "":
			r.add(origin.Warning(fault.UnknownArgument, top, base+" is not imported",
				"kubeadm refuses a name without json, merge or strategic behind +."))
		default:
			r.readPatch(out, f, m[4] == "json")
		}
	}

	return out
}

func (r *reader) readPatch(into map[string]any, f PatchFile, isJSONPatch bool) {
	docs, diags := readYAML(f.Name, f.Text)
	r.diags = append(r.diags, diags...)
	for _, doc := range docs {
		switch {
		case isJSONPatch:
			r.readOperations(into, doc)
		case doc.Kind == lang.JSONNull:
		case doc.Kind != lang.JSONObject:
			r.add(origin.Error(fault.WrongType, doc.Range, "This is not a patch",
				"An object is needed, not %s.", doc.Kind))
		case r.hasDirective(doc):
		default:
			fields := toAny(doc).(map[string]any)
			delete(fields, "apiVersion")
			delete(fields, "kind")
			for _, key := range doc.Keys {
				r.locate(key.Text, key.Range)
			}
			for _, field := range compose(into, fields) {
				name, _, _ := strings.Cut(field, ".")
				r.refuseObject(keyRange(doc, name), field)
			}
		}
	}
}

// hasDirective reports directives of strategic merge patches, such as $patch.
func (r *reader) hasDirective(n *lang.JSONNode) bool {
	for i, key := range n.Keys {
		if strings.HasPrefix(key.Text, "$") {
			r.add(origin.Warning(fault.UnknownArgument, key.Range, "A patch is not imported: it has "+key.Text,
				"A site has no directives of strategic merge patches: write the fields that it changes. "+
					"null removes a field."))
			return true
		}
		if r.hasDirective(n.Items[i]) {
			return true
		}
	}

	return false
}

// compose adds a merge patch to one that is applied before it. It returns the fields that it leaves out: those that
// the earlier patch removes, and that this one sets to an object. kubeadm gives exactly that object, but one merge
// patch can only add it to the cluster's.
func compose(into, patch map[string]any) (replaced []string) {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		inner, isObject := patch[name].(map[string]any)
		old, wasSet := into[name]
		oldInner, wasObject := old.(map[string]any)
		switch {
		case isObject && wasObject:
			for _, below := range compose(oldInner, inner) {
				replaced = append(replaced, name+"."+below)
			}
		case isObject && wasSet:
			delete(into, name)
			replaced = append(replaced, name)
		default:
			into[name] = patch[name]
		}
	}

	return replaced
}

// refuseObject reports a field that a patch sets to a whole new object.
func (r *reader) refuseObject(at hcl.Range, field string) {
	r.add(origin.Warning(fault.UnknownArgument, at, shorten(field, 60)+" is not imported",
		"kubeadm replaces this object, with what the cluster has in it. patch of kubelet_config adds to the "+
			"cluster's: write its fields there, and null for those to remove."))
}

// keyRange returns the place of a key of an object, or else that of the object.
func keyRange(object *lang.JSONNode, name string) hcl.Range {
	for _, key := range object.Keys {
		if key.Text == name {
			return key.Range
		}
	}

	return object.Range
}

// readOperations adds the operations of a JSON patch (RFC 6902) that set or remove a field. What changes an element of
// a list is not imported, because that list is in the cluster, and neither is a new object, which replaces the
// cluster's.
func (r *reader) readOperations(into map[string]any, doc *lang.JSONNode) {
	if doc.Kind != lang.JSONArray {
		r.add(origin.Error(fault.WrongType, doc.Range, "This is not a JSON patch",
			"A list of operations is needed, not %s.", doc.Kind))
		return
	}

	for _, o := range doc.Items {
		f := r.object(o, "a JSON patch", "op", "path", "value", "from")
		op := r.text(f, "op")
		names, ok := splitPointer(r.text(f, "path"))
		value := f.values["value"]
		isSet := (op == "add" || op == "replace") && value != nil
		if !ok || !isSet && op != "remove" {
			r.add(origin.Warning(fault.UnknownArgument, o.Range, "An operation of a JSON patch is not imported",
				"Only add, replace and remove of a field can be, and not of an element of a list: "+
					"write the field in patch of kubelet_config."))
			continue
		}

		var v any
		if isSet {
			v = toAny(value)
		}
		if _, isObject := v.(map[string]any); isObject {
			removeField(into, names)
			r.refuseObject(o.Range, strings.Join(names, "."))
			continue
		}
		for i := len(names) - 1; i > 0; i-- {
			v = map[string]any{names[i]: v}
		}
		for _, field := range compose(into, map[string]any{names[0]: v}) {
			r.refuseObject(o.Range, field)
		}
	}
}

// removeField removes what earlier patches do to a field.
func removeField(patch map[string]any, path []string) {
	for _, name := range path[:len(path)-1] {
		inner, isObject := patch[name].(map[string]any)
		if !isObject {
			return
		}
		patch = inner
	}
	delete(patch, path[len(path)-1])
}

// splitPointer splits a JSON pointer to a field; not ok for one to an element of a list.
func splitPointer(pointer string) (names []string, ok bool) {
	rest, isPointer := strings.CutPrefix(pointer, "/")
	if !isPointer || rest == "" {
		return nil, false
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for name := range strings.SplitSeq(rest, "/") {
		if _, err := strconv.Atoi(name); err == nil || name == "-" || name == "" {
			return nil, false
		}
		names = append(names, unescape.Replace(name))
	}

	return names, true
}

// describePatches is the remark for a folder of patches that was not read.
func describePatches(dir string) string {
	return fmt.Sprintf(
		"kubeadm reads patches from %s on the node. Copy that folder here, and name it with --patches.", dir,
	)
}

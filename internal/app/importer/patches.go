package importer

import (
	"fmt"
	"path"
	"regexp"
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
			compose(into, fields)
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

// compose adds a merge patch to one that is applied before it.
func compose(into, patch map[string]any) {
	for name, v := range patch {
		inner, isObject := v.(map[string]any)
		if old, wasObject := into[name].(map[string]any); isObject && wasObject {
			compose(old, inner)
			continue
		}
		into[name] = v
	}
}

// readOperations adds the operations of a JSON patch (RFC 6902) that set or remove a field. What changes an element of
// a list is not imported: that list is in the cluster.
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
		for i := len(names) - 1; i > 0; i-- {
			v = map[string]any{names[i]: v}
		}
		compose(into, map[string]any{names[0]: v})
	}
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

package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
)

// Object is what a ConfigMap holds.
type Object struct {
	ResourceVersion string
	Data            map[string]string // with the values of binaryData that are text
	Binary          []string          // keys of binaryData whose values are not UTF-8, sorted
}

// parseConfigMap reads a reply with status 200.
func parseConfigMap(r *reply, namespace, name string) (Object, *failure) {
	var cm struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Metadata   struct {
			Name            string `json:"name"`
			Namespace       string `json:"namespace"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data       map[string]string `json:"data"`
		BinaryData map[string][]byte `json:"binaryData"`
	}
	d := json.NewDecoder(bytes.NewReader(r.body))
	if err := d.Decode(&cm); err != nil {
		return Object{}, fail(fault.ClusterUnusable, final, hintPortal, "HTTP 200 with %s", looksLike(r)).because(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Object{}, fail(fault.ClusterUnusable, final, hintPortal, "the answer goes on after the object")
	}
	if cm.Kind != "ConfigMap" || cm.APIVersion != "v1" {
		return Object{}, fail(fault.ClusterUnusable, final, hintPortal,
			"the answer is a %q of version %q, not a ConfigMap of v1",
			quote(withhold(cm.Kind, r.secret)), quote(withhold(cm.APIVersion, r.secret)))
	}
	if cm.Metadata.Name != name || cm.Metadata.Namespace != namespace {
		return Object{}, fail(fault.ClusterUnusable, final, hintPortal,
			"the answer is ConfigMap %q, another one than asked for",
			quote(withhold(cm.Metadata.Namespace+"/"+cm.Metadata.Name, r.secret)))
	}
	if !utf8.Valid(r.body) { // the decoder has put U+FFFD in its place
		return Object{}, fail(fault.ClusterUnusable, final,
			"Make the ConfigMap again with `kubectl create configmap --from-file`, which puts what is not text into binaryData",
			"the answer has bytes that are not UTF-8, and would be changed")
	}

	return newObject(cm.Metadata.ResourceVersion, cm.Data, cm.BinaryData), nil
}

// newObject puts the texts of binaryData beside the others. A key is in one of the two only.
func newObject(version string, data map[string]string, binary map[string][]byte) Object {
	out := Object{ResourceVersion: version, Data: map[string]string{}}
	maps.Copy(out.Data, data)
	for _, k := range slices.Sorted(maps.Keys(binary)) {
		if utf8.Valid(binary[k]) {
			out.Data[k] = string(binary[k])
			continue
		}
		out.Binary = append(out.Binary, k)
	}

	return out
}

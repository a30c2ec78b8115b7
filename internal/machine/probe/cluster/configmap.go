package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/model/tape"
)

// Object is the content of a ConfigMap. The values of binaryData that are text are in Data.
type Object = tape.ObjectAns

// configMap is a ConfigMap as the API server and kubectl encode it.
type configMap struct {
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

// parseConfigMap parses a response with status 200.
func parseConfigMap(r *reply, namespace, name string) (Object, *failure) {
	var cm configMap

	decoder := json.NewDecoder(bytes.NewReader(r.body))
	if err := decoder.Decode(&cm); err != nil {
		return Object{}, failUnusable("HTTP 200 with %s", describeBody(r)).withCause(err)
	}

	if _, err := decoder.Token(); err != io.EOF {
		return Object{}, failUnusable("the response continues after the object")
	}

	if cm.Kind != "ConfigMap" || cm.APIVersion != "v1" {
		kind := withhold(cm.Kind, r.secret)
		version := withhold(cm.APIVersion, r.secret)

		return Object{}, failUnusable("the response is a %q of version %q, not a ConfigMap of v1",
			quote(kind), quote(version))
	}

	found := cm.Metadata.Namespace + "/" + cm.Metadata.Name
	if found != namespace+"/"+name {
		return Object{}, failUnusable("the response is another ConfigMap, %q", quote(withhold(found, r.secret)))
	}

	if !utf8.Valid(r.body) { // the decoder has replaced the invalid bytes with U+FFFD
		f := failUnusable("the response contains bytes that are not UTF-8")
		f.Next = "Create the ConfigMap again with `kubectl create configmap --from-file`, which puts files that are " +
			"not text into binaryData"

		return Object{}, f
	}

	return cm.object(), nil
}

// object adds the texts of binaryData to those of data. No key is in both.
func (cm configMap) object() Object {
	out := Object{ResourceVersion: cm.Metadata.ResourceVersion, Data: map[string]string{}}
	maps.Copy(out.Data, cm.Data)

	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		if value := cm.BinaryData[key]; utf8.Valid(value) {
			out.Data[key] = string(value)
		} else {
			out.Binary = append(out.Binary, key)
		}
	}

	return out
}

package cluster

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/prelet/prelet/internal/fault"
)

// Object is what a ConfigMap holds.
type Object struct {
	ResourceVersion string
	Data            map[string]string
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
		Data map[string]string `json:"data"`
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
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	return Object{ResourceVersion: cm.Metadata.ResourceVersion, Data: cm.Data}, nil
}

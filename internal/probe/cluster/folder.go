package cluster

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Folder is a folder that replaces a cluster: it has the CA in ca.crt, and each ConfigMap in NAMESPACE/NAME.yaml or
// NAMESPACE/NAME.json. Its name is what --objects was given. Its methods return a *fault.Fault as the error.
type Folder string

// ReadTrust returns the CA of the folder as the identity of a cluster with these servers. If there are pins, they must
// cover the CA.
func (d Folder) ReadTrust(servers, pins []string) (Trust, error) {
	path := filepath.Join(string(d), "ca.crt")
	text, err := nodefile.ReadFile(path, nodefile.Max)
	if err != nil {
		return Trust{}, &fault.Fault{
			Code: fault.Absent, Why: path + ": " + nodefile.Reason(err),
			Next: "With --objects, the cluster's CA is ca.crt in that folder",
		}
	}

	all, err := CAHashes(text)
	if err != nil || len(all) == 0 {
		return Trust{}, &fault.Fault{Code: fault.ClusterUnusable, Why: path + " holds no certificate"}
	}

	by := ByCAFile
	if len(pins) > 0 {
		by = ByPins
		if err := Covers(text, pins); err != nil {
			return Trust{}, &fault.Fault{
				Code: fault.ClusterUntrusted, Why: path + ": " + err.Error(),
				Next: "With --objects, ca.crt in that folder is the CA: put the one there that the site pins, " +
					"or its pin into ca_cert_hashes",
			}
		}
	}

	return Trust{PEM: string(text), Hash: all[0], Hashes: all, Servers: servers, VerifiedBy: by}, nil
}

// ReadConfigMap returns a ConfigMap of the folder, whose file is as kubectl prints it. The namespace and the name in
// its metadata, if there are any, must be those of its path.
func (d Folder) ReadConfigMap(namespace, name string) (Object, error) {
	var tried []string
	for _, ext := range []string{".yaml", ".json"} {
		path := filepath.Join(string(d), namespace, name+ext)
		text, err := nodefile.ReadFile(path, nodefile.Max)
		if err != nil {
			tried = append(tried, path)
			continue
		}
		return parseConfigMapFile(path, text, namespace, name)
	}

	return Object{}, &fault.Fault{
		Code: fault.Absent, Why: "there is no " + strings.Join(tried, " or "),
		Next: "With --objects, each ConfigMap is a file NAMESPACE/NAME.yaml in that folder",
	}
}

// parseConfigMapFile parses the file of a ConfigMap that must have a namespace and a name.
func parseConfigMapFile(path string, text []byte, namespace, name string) (Object, error) {
	var cm struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Namespace, Name string
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data       map[string]string `json:"data"`
		BinaryData map[string][]byte `json:"binaryData"`
	}
	if err := yaml.Unmarshal(text, &cm); err != nil || cm.Kind != "ConfigMap" {
		return Object{}, &fault.Fault{
			Code: fault.ClusterUnusable, Why: path + " is no ConfigMap",
			Next: "Write it as `kubectl get configmap -o yaml` prints it",
		}
	}

	want := namespace + "/" + name
	found := cmp.Or(cm.Metadata.Namespace, namespace) + "/" + cmp.Or(cm.Metadata.Name, name)
	if found != want {
		return Object{}, &fault.Fault{
			Code: fault.ClusterUnusable, Why: fmt.Sprintf("%s holds the ConfigMap %s, and %s is wanted", path, found, want),
			Next: "With --objects, a ConfigMap lies in NAMESPACE/NAME.yaml, by its metadata: move it, " +
				"or put the one there that the site asks for",
		}
	}
	return newObject(cm.Metadata.ResourceVersion, cm.Data, cm.BinaryData), nil
}

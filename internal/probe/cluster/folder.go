package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/value"
)

// Folder is the path of a folder that replaces a cluster (--objects). It contains the CA in ca.crt, and each
// ConfigMap in NAMESPACE/NAME.yaml or NAMESPACE/NAME.json. Its methods return a *fault.Fault as the error.
type Folder string

// ReadTrust returns the CA of the folder as the identity of a cluster with these servers. If there are pins, only
// its CAs with a pin count.
func (d Folder) ReadTrust(servers, pins []string) (Trust, error) {
	path := filepath.Join(string(d), "ca.crt")

	text, err := nodefile.ReadFile(path, nodefile.Max)
	if err != nil {
		return Trust{}, &fault.Fault{
			Code: fault.Absent,
			Why:  path + ": " + nodefile.Reason(err),
			Next: "With --objects, the cluster's CA is ca.crt in that folder",
		}
	}

	return GivenTrust(path, text, servers, pins, "With --objects, ca.crt in that folder is the CA: replace it with "+
		"the CA that the site pins, or add its pin to ca_cert_hashes")
}

// ReadConfigMap returns a ConfigMap of the folder, whose file is in the format of kubectl. The namespace and the
// name in its metadata, if there are any, must be those of its path.
func (d Folder) ReadConfigMap(namespace, name string) (Object, error) {
	var tried []string

	for _, ext := range []string{".yaml", ".json"} {
		path := filepath.Join(string(d), namespace, name+ext)

		text, err := nodefile.ReadFile(path, nodefile.Max)
		switch {
		case err == nil:
			return parseConfigMapFile(path, text, namespace, name)
		case !errors.Is(err, fs.ErrNotExist):
			return Object{}, &fault.Fault{
				Code: fault.ClusterUnusable,
				Why:  path + ": " + nodefile.Reason(err),
				Next: "A ConfigMap has at most 1 MiB",
			}
		}

		tried = append(tried, path)
	}

	return Object{}, &fault.Fault{
		Code: fault.Absent,
		Why:  strings.Join(tried, " or ") + " is missing",
		Next: "With --objects, each ConfigMap is a file NAMESPACE/NAME.yaml in that folder",
	}
}

func parseConfigMapFile(path string, text []byte, namespace, name string) (Object, error) {
	if err := value.CheckYAMLSize(text); err != nil {
		return Object{}, &fault.Fault{
			Code: fault.ClusterUnusable,
			Why:  path + ": " + err.Error(),
			Next: "A ConfigMap of a cluster has at most 1 MiB",
		}
	}

	var cm configMap

	err := yaml.Unmarshal(text, &cm)
	if err != nil || cm.Kind != "ConfigMap" {
		return Object{}, &fault.Fault{
			Code: fault.ClusterUnusable,
			Why:  path + " is not a ConfigMap",
			Next: "Write it in the format of `kubectl get configmap -o yaml`",
		}
	}

	if err := kubelet.CheckSingleDocument(string(text)); err != nil {
		return Object{}, &fault.Fault{
			Code: fault.ClusterUnusable,
			Why:  path + ": " + err.Error(),
			Next: "With --objects, each file has one ConfigMap: write the others into files of their own",
		}
	}

	want := namespace + "/" + name
	foundNamespace := cmp.Or(cm.Metadata.Namespace, namespace)
	found := foundNamespace + "/" + cmp.Or(cm.Metadata.Name, name)

	if found != want {
		return Object{}, &fault.Fault{
			Code: fault.ClusterUnusable,
			Why:  fmt.Sprintf("%s contains the ConfigMap %s, not %s", path, found, want),
			Next: "With --objects, the path of a ConfigMap is NAMESPACE/NAME.yaml, as in its metadata: " +
				"move the file, or replace it with the ConfigMap that the site names",
		}
	}

	return cm.object(), nil
}

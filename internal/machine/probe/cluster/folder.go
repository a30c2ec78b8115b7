package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Folder is the path of a folder that replaces a cluster (--objects). It contains the CA in ca.crt, and each
// ConfigMap in NAMESPACE/NAME.yaml or NAMESPACE/NAME.json. Its methods return a *fault.Fault as the error.
type Folder string

// ReadTrust returns the CA of the folder as the identity of a cluster. If there are pins, only its CAs with a pin
// count.
func (d Folder) ReadTrust(a tape.Access) (Trust, error) {
	path := filepath.Join(string(d), "ca.crt")

	text, err := nodefile.ReadFile(path, nodefile.Max)
	if err != nil {
		return Trust{}, &fault.Fault{
			Code: fault.Absent,
			Why:  path + ": " + nodefile.Reason(err),
			Next: "With --objects, the cluster's CA is ca.crt in that folder",
		}
	}

	return GivenTrust(path, text, a, "With --objects, ca.crt in that folder is the CA: replace it with "+
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
		Why:  strings.Join(tried, " or ") + " is missing" + nodefile.SuggestBeside(tried[0]),
		Next: "With --objects, each ConfigMap is a file NAMESPACE/NAME.yaml in that folder",
	}
}

func parseConfigMapFile(path string, text []byte, namespace, name string) (Object, error) {
	refuse := func(err error, next string) (Object, error) {
		f := codec.FaultIn(fault.ClusterUnusable, path, text, err)
		f.Next = cmp.Or(f.Next, next)

		return Object{}, f
	}

	if err := codec.CheckYAMLSize(text); err != nil {
		return refuse(err, "A ConfigMap of a cluster has at most 1 MiB")
	}
	if err := kubelet.CheckSingleDocument(string(text)); err != nil {
		return refuse(err, "With --objects, each file has one ConfigMap: write the others into files of their own")
	}
	cm, err := decodeConfigMap(text)
	if err != nil {
		return refuse(err, "Write it in the format of `kubectl get configmap NAME -o yaml`")
	}

	want := namespace + "/" + name
	foundNamespace := cmp.Or(cm.Metadata.Namespace, namespace)
	found := foundNamespace + "/" + cmp.Or(cm.Metadata.Name, name)

	if found != want {
		key := "name"
		if foundNamespace != namespace {
			key = "namespace"
		}
		return refuse(placeIn(text, fmt.Sprintf("it contains the ConfigMap %s, not %s", found, want), "metadata", key),
			"With --objects, the path of a ConfigMap is NAMESPACE/NAME.yaml, as in its metadata: "+
				"move the file, or replace it with the ConfigMap that the site names")
	}

	return cm.object(), nil
}

// placeIn returns a mistake at a value of a YAML document.
func placeIn(text []byte, why string, path ...string) *codec.PlaceError {
	line, column := findYAML(text, path)

	return &codec.PlaceError{Line: line, Column: column, Why: why}
}

// configMapFile has all names of a ConfigMap, as kubectl prints it.
type configMapFile struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Data       map[string]string `json:"data"`
	BinaryData map[string][]byte `json:"binaryData"`
	Immutable  *bool             `json:"immutable"`
	Metadata   struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		ResourceVersion string            `json:"resourceVersion"`
		UID             string            `json:"uid"`
		Generation      any               `json:"generation"`
		Created         any               `json:"creationTimestamp"`
		Deleted         any               `json:"deletionTimestamp"`
		GracePeriod     any               `json:"deletionGracePeriodSeconds"`
		GenerateName    string            `json:"generateName"`
		SelfLink        string            `json:"selfLink"`
		Finalizers      any               `json:"finalizers"`
		Owners          any               `json:"ownerReferences"`
		ManagedFields   any               `json:"managedFields"`
	} `json:"metadata"`
}

// decodeConfigMap decodes a file that a person may have written, as strictly as the API server does: the values of data
// are texts, and no name is unknown.
func decodeConfigMap(text []byte) (cm configMap, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return cm, codec.YAMLError(err)
	}
	var head struct {
		Kind any `json:"kind"`
	}
	if err := yaml.Unmarshal(asJSON, &head); err != nil || head.Kind != "ConfigMap" {
		why := fmt.Sprintf("this is not a ConfigMap: its kind is %v", cmp.Or(head.Kind, "missing"))
		at := placeIn(text, why, "kind")
		if kind, _ := head.Kind.(string); strings.HasSuffix(kind, "List") {
			at.Next = "Write each of its items into a file of its own, NAMESPACE/NAME.yaml"
		}
		return cm, at
	}

	var at *codec.PlaceError
	if err := codec.DecodeStrict(asJSON, new(configMapFile), nil); errors.As(err, &at) {
		at.Line, at.Column = findYAML(text, at.Path)
		if isText := len(at.Path) == 2 && at.Path[0] == "data"; isText && strings.HasSuffix(at.Why, " is an object") {
			at.Next = fmt.Sprintf("Write a text: `%s: |`, with its lines below, indented", at.Path[1])
		}
		return cm, at
	}

	return cm, yaml.Unmarshal(asJSON, &cm)
}

// findYAML returns the line and column of a value of a YAML or JSON document, from 1: of its name. Each name is
// searched behind the one before it, since a parser with places would be a second one.
func findYAML(text []byte, path []string) (line, column int) {
	at := 0
	for _, name := range path {
		key := regexp.MustCompile(`(?m)^(?:[^#\n]*[\s{,])??(["']?` + regexp.QuoteMeta(name) + `["']?)\s*:`)
		if found := key.FindSubmatchIndex(text[at:]); found != nil {
			at += found[2]
		}
	}
	before := text[:at]

	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

package kubelet

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
)

// Configz is a request for the configuration that a kubelet runs with, and the planned one. Without a URL, only the
// configuration that the kubelet logs at its start is compared.
type Configz struct {
	URL        string         `json:"url"`
	Credential string         `json:"credential"`          // its name: a client certificate and its key, PEM
	Served     []string       `json:"served_by,omitempty"` // files, one of which has the kubelet's own certificate
	Planned    map[string]any `json:"planned,omitempty"`   // KubeletConfiguration
}

// ConfigDifferences returns the planned fields that a running kubelet does not have with the same meaning, as /configz
// returns its configuration. The kubelet itself sets fields that are planned as 0s, 0, "" or [], like many in kubeadm's
// ConfigMap. It also takes the cgroup driver from the runtime, and lets reservedSystemCPUs replace reserved cpu.
//
// Source: cmd/kubelet/app/server.go.
func ConfigDifferences(planned, running map[string]any) []string {
	return diffObjects("", planned, running)
}

// SecretField is the only field with secrets: headers of requests for static pods, such as Authorization.
const SecretField = "staticPodURLHeader"

// HasSecrets reports whether a configuration has a value in its field with secrets.
func HasSecrets(config map[string]any) bool {
	headers, isObject := config[SecretField].(map[string]any)

	return config[SecretField] != nil && (!isObject || len(headers) > 0)
}

// WithoutSecrets returns a configuration without its only field with secrets.
func WithoutSecrets(config map[string]any) map[string]any {
	out := maps.Clone(config)
	delete(out, SecretField)

	return out
}

// pathFields are the fields with paths that the kubelet makes absolute when it loads its file.
//
// Source: pkg/kubelet/apis/config/helpers.go, KubeletConfigurationPathRefs.
var pathFields = []string{
	"staticPodPath",
	"authentication.x509.clientCAFile",
	"tlsCertFile",
	"tlsPrivateKeyFile",
	"resolvConf",
	"volumePluginDir",
	"podLogsDir",
}

// ResolvePaths returns a configuration with absolute paths, as a kubelet has it that loads file. Like the kubelet, it
// leaves paths alone that are not in the file: of flags and of drop-ins.
//
// Source: pkg/kubelet/kubeletconfig/configfiles/configfiles.go, resolveRelativePaths.
func ResolvePaths(config, file map[string]any, dir string) map[string]any {
	resolved := &Config{doc: clone(config).(map[string]any)}
	for _, field := range pathFields {
		names := strings.Split(field, ".")
		value, _ := LookUp(config, tape.Pointer(names...))
		inFile, _ := LookUp(file, tape.Pointer(names...))
		name, ok := value.(string)
		if ok && inFile == value && name != "" && !path.IsAbs(name) {
			_ = resolved.Set(names, path.Join(dir, name)) // a text in existing objects
		}
	}

	return resolved.doc
}

func diffObjects(prefix string, planned, running map[string]any) []string {
	var differences []string
	for _, key := range slices.Sorted(maps.Keys(planned)) {
		field := prefix + key
		want := planned[key]
		got := running[key]
		if isSetByKubelet(field, got) {
			continue
		}
		if inner, isObject := want.(map[string]any); isObject {
			other, _ := got.(map[string]any)
			differences = append(differences, diffObjects(field+".", inner, other)...)
		} else if !isSameValue(want, got) {
			difference := fmt.Sprintf("%s is %s and not %s", field, describeShort(got), describeShort(want))
			differences = append(differences, difference)
		}
	}

	return differences
}

func isSetByKubelet(field string, running any) bool {
	switch field {
	case "apiVersion", "kind", "cgroupDriver":
		return true
	case SecretField: // its values do not belong into a message, and the log masks them
		return true
	case "kubeReserved.cpu", "systemReserved.cpu":
		return running == nil
	}

	return false
}

func describeShort(v any) string {
	if v == nil {
		return "not set"
	}
	text := fmt.Sprint(v)
	if len(text) > 80 {
		text = text[:80] + "…"
	}

	return strings.ToValidUTF8(text, "")
}

// isSameValue compares the meaning of two values: 1000m and 1, 64 and 64.0, 60s and 1m. An unset value equals an
// empty one.
func isSameValue(planned, running any) bool {
	_, isBool := planned.(bool)
	if isZero(planned) && !isBool || isZero(planned) && isZero(running) {
		return true
	}

	switch p := planned.(type) {
	case []any:
		list, _ := running.([]any)

		return slices.EqualFunc(p, list, isSameValue)
	case map[string]any: // in a list
		object, _ := running.(map[string]any)

		return isSameObject(p, object)
	}

	return isSameText(fmt.Sprint(planned), fmt.Sprint(running))
}

func isSameObject(planned, running map[string]any) bool {
	for key, value := range running {
		if _, isPlanned := planned[key]; !isPlanned && !isZero(value) {
			return false
		}
	}
	for key, value := range planned {
		if !isSameValue(value, running[key]) {
			return false
		}
	}

	return true
}

// isSameText compares two texts as numbers, durations or quantities.
func isSameText(a, b string) bool {
	if a == b {
		return true
	}
	x, xErr := strconv.ParseFloat(a, 64)
	y, yErr := strconv.ParseFloat(b, 64)
	if xErr == nil && yErr == nil {
		return x == y
	}
	d, dErr := time.ParseDuration(a)
	e, eErr := time.ParseDuration(b)
	if dErr == nil && eErr == nil {
		return d == e
	}
	p, pErr := ParseQuantity(a)
	q, qErr := ParseQuantity(b)

	return pErr == nil && qErr == nil && p.Cmp(q) == 0
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		d, err := time.ParseDuration(v)
		return v == "" || err == nil && d == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	return err == nil && f == 0
}

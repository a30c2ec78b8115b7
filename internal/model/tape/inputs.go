package tape

import (
	"encoding/json"
	"fmt"
)

// HardwareInput is the name of the hardware as an input.
const HardwareInput = "the hardware"

// subject is a kind of questions.
type subject struct {
	kind     Kind
	template string
	fields   []string
}

// subjects are the kinds of questions in the order of their inputs, with the name of an input in words: a template, and
// the fields of the request in it. The state of managed files and what they were before prelet are left out: they
// follow from the earlier generation. So is what only warnings depend on, such as the id of a process.
var subjects = []subject{
	{KindVariable, "variable %s", []string{"name"}},
	{KindValidation, "rule %s of variable %s", []string{"rule", "variable"}},
	{KindObject, "ConfigMap %s/%s", []string{"namespace", "name"}},
	{KindTrust, "the cluster's CA", nil},
	{KindHardware, HardwareInput, nil},
	{KindDetector, "detector %s", []string{"name"}},
	{KindLock, "the lock of detector %s", []string{"name"}},
	{KindKubelet, "the installed kubelet", nil},
	{KindAccepts, "what the kubelet's binary accepts", nil},
	{KindDryRun, "the verdict of the kubelet's binary", nil},
	{KindConfigDump, "the verdict of the container runtime", nil},
	{KindFile, "file %s", []string{"path"}},
	{KindExists, "whether %s exists", []string{"path"}},
	{KindDropIns, "the kubelet's drop-ins in %s", []string{"dir"}},
	{KindCredential, "credential %s", []string{"name"}},
	{KindServing, "the certificates of the kubelet's API", nil},
	{KindUnit, "unit %s", []string{"name"}},
	{KindLogind, "how long logind delays a shutdown", nil},
	{KindOwner, "user and group %s", []string{"owner"}},
	{KindNode, "the Node of this name in the cluster", nil},
}

// InputKinds returns the kinds of questions that are about inputs, in the order of subjects.
func InputKinds() (out []Kind) {
	for _, s := range subjects {
		out = append(out, s.kind)
	}

	return out
}

// InputName returns the name of the input that a question is about; "" if it is not about an input.
func InputName(q Question) string {
	for _, s := range subjects {
		if s.kind != q.Kind {
			continue
		}
		var request map[string]any
		_ = json.Unmarshal([]byte(q.Args), &request)
		var values []any
		for _, f := range s.fields {
			values = append(values, fmt.Sprint(request[f]))
		}
		return fmt.Sprintf(s.template, values...)
	}

	return ""
}

package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/model/tape"
)

// NodeObject has the parts of a Node object that prelet reads.
type NodeObject struct {
	Name   string
	Labels map[string]string
	Taints []Taint

	Annotations map[string]string
	Conditions  []condition.Condition // those of the kubelet and of other parties, too

	ResourceVersion string
	rawTaints       []json.RawMessage // those of Taints, with fields that Taint lacks

	Age time.Duration // since its creation, by the API server's clock; negative if unknown

	Deleted string // since when it is being deleted; "" if it is not

	MachineID, SystemUUID string // of the machine whose kubelet reported last; "" if none has
	Ready                 bool
	Unschedulable         bool   // it is cordoned
	Address               string // its internal IP address, if it has one
}

// ParseNode parses a Node object. date is the Date header of its HTTP response.
func ParseNode(body []byte, date string) (NodeObject, error) {
	var doc struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name        string            `json:"name"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
			Created     string            `json:"creationTimestamp"`
			Deleted     string            `json:"deletionTimestamp"`
			Version     string            `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			Taints        []json.RawMessage `json:"taints"`
			Unschedulable bool              `json:"unschedulable"`
		} `json:"spec"`
		Status struct {
			Conditions []condition.Condition
			Addresses  []struct{ Type, Address string }
			NodeInfo   struct{ MachineID, SystemUUID string }
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return NodeObject{}, fmt.Errorf("invalid Node: %w", err)
	}
	if doc.Kind != "Node" || doc.Metadata.Name == "" {
		return NodeObject{}, fmt.Errorf("invalid Node: kind is %q and name %q", doc.Kind, doc.Metadata.Name)
	}

	n := NodeObject{
		Name:   doc.Metadata.Name,
		Labels: doc.Metadata.Labels,

		ResourceVersion: doc.Metadata.Version,
		rawTaints:       doc.Spec.Taints,

		Annotations: doc.Metadata.Annotations,
		Conditions:  doc.Status.Conditions,

		Age:        -1,
		Deleted:    doc.Metadata.Deleted,
		MachineID:  doc.Status.NodeInfo.MachineID,
		SystemUUID: doc.Status.NodeInfo.SystemUUID,

		Unschedulable: doc.Spec.Unschedulable,
	}
	for _, raw := range doc.Spec.Taints {
		var t Taint
		if err := json.Unmarshal(raw, &t); err != nil {
			return NodeObject{}, fmt.Errorf("invalid Node: a taint: %w", err)
		}
		n.Taints = append(n.Taints, t)
	}
	for _, c := range doc.Status.Conditions {
		n.Ready = n.Ready || c.Type == "Ready" && c.Status == "True"
	}
	for _, a := range doc.Status.Addresses {
		if a.Type == "InternalIP" && n.Address == "" {
			n.Address = a.Address
		}
	}
	now, dateErr := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", date) // RFC 9110, 5.6.7
	created, createdErr := time.Parse(time.RFC3339, doc.Metadata.Created)
	if dateErr == nil && createdErr == nil {
		n.Age = max(0, now.Sub(created))
	}

	return n, nil
}

// IsDrained reports whether a maintenance controller or an administrator has declared the Node drained, by the
// condition of KEP-5683.
func (n NodeObject) IsDrained() bool {
	return slices.ContainsFunc(n.Conditions, func(c condition.Condition) bool {
		return c.Type == "Drained" && c.Status == condition.True
	})
}

// ParsePods returns the pods in a PodList of one node that a drain evicts, as NAMESPACE/NAME: not those of DaemonSets,
// and not mirror pods, which the kubelet makes of files. A list that is not whole is an error.
func ParsePods(body []byte) (pods []string, err error) {
	var list struct {
		Kind     string
		Metadata struct{ Continue string }
		Items    []struct {
			Metadata struct {
				Namespace, Name string
				Annotations     map[string]string
				OwnerReferences []struct {
					Kind       string
					Controller bool
				}
			}
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("invalid list of pods: %w", err)
	}
	if list.Kind != "PodList" || list.Metadata.Continue != "" {
		return nil, fmt.Errorf("invalid list of pods: kind is %q, or it has more than one page", list.Kind)
	}

	for _, item := range list.Items {
		m := item.Metadata
		_, isMirror := m.Annotations["kubernetes.io/config.mirror"]
		stays := isMirror
		for _, o := range m.OwnerReferences {
			stays = stays || o.Controller && o.Kind == "DaemonSet"
		}
		if !stays {
			pods = append(pods, m.Namespace+"/"+m.Name)
		}
	}

	return pods, nil
}

// LabelChange is a label to set, or to remove if it still has a value.
type LabelChange struct {
	Key, Value string
	Remove     bool
}

// String returns the argument of kubectl label: key=value, or key- to remove it.
func (c LabelChange) String() string {
	if c.Remove {
		return c.Key + "-"
	}
	return c.Key + "=" + c.Value
}

// NodeChange is a set of changes to labels, taints or annotations of a Node.
type NodeChange interface {
	// Patch returns the change as the API server takes it at a time: the kind of patch in its content type, what
	// follows the path of the Node, and the document, to be encoded as JSON.
	Patch(now time.Time) (kind, path string, document any)
}

type LabelChanges []LabelChange

// Patch implements Change by a JSON patch (RFC 6902), which the API server applies completely or not at all.
func (changes LabelChanges) Patch(time.Time) (kind, path string, document any) {
	type operation struct {
		Op    string  `json:"op"`
		Path  string  `json:"path"`
		Value *string `json:"value,omitempty"`
	}

	operations := []operation{}
	for _, c := range changes {
		path := tape.Pointer("metadata", "labels", c.Key)
		if c.Remove {
			operations = append(operations, operation{"test", path, &c.Value})
			operations = append(operations, operation{Op: "remove", Path: path})
		} else {
			operations = append(operations, operation{"add", path, &c.Value})
		}
	}

	return "json-patch", "", operations
}

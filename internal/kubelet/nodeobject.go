package kubelet

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Node is what prelet looks at of a Node object.
type Node struct {
	Name   string
	Labels map[string]string
	Taints []Taint
	Age    time.Duration // since it was made, by the API server's clock; negative where that is not known

	MachineID, SystemUUID string // of the machine whose kubelet reported last; "" where none has
	Ready                 bool
	Address               string // its internal IP address; "" where it has none
}

// ParseNode reads a Node object; date is the Date header of the answer that it came in.
func ParseNode(body []byte, date string) (Node, error) {
	var doc struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name    string            `json:"name"`
			Labels  map[string]string `json:"labels"`
			Created string            `json:"creationTimestamp"`
		} `json:"metadata"`
		Spec struct {
			Taints []Taint `json:"taints"`
		} `json:"spec"`
		Status struct {
			Conditions []struct{ Type, Status string }
			Addresses  []struct{ Type, Address string }
			NodeInfo   struct{ MachineID, SystemUUID string }
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return Node{}, fmt.Errorf("a Node that cannot be read: %w", err)
	}
	if doc.Kind != "Node" || doc.Metadata.Name == "" {
		return Node{}, fmt.Errorf("a %q without a name, or no Node", doc.Kind)
	}
	n := Node{Name: doc.Metadata.Name, Labels: doc.Metadata.Labels, Taints: doc.Spec.Taints, Age: -1}
	n.MachineID, n.SystemUUID = doc.Status.NodeInfo.MachineID, doc.Status.NodeInfo.SystemUUID
	for _, c := range doc.Status.Conditions {
		n.Ready = n.Ready || c.Type == "Ready" && c.Status == "True"
	}
	for _, a := range doc.Status.Addresses {
		if a.Type == "InternalIP" && n.Address == "" {
			n.Address = a.Address
		}
	}
	now, err1 := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", date) // RFC 9110, 5.6.7; net/http is not for this room
	made, err2 := time.Parse(time.RFC3339, doc.Metadata.Created)
	if err1 == nil && err2 == nil {
		n.Age = max(0, now.Sub(made))
	}
	return n, nil
}

// LabelChange is a label to set, or to remove as long as it has still the value that it had.
type LabelChange struct {
	Key, Value string
	Remove     bool
}

// String is as kubectl label takes it: key=value, key-.
func (c LabelChange) String() string {
	if c.Remove {
		return c.Key + "-"
	}
	return c.Key + "=" + c.Value
}

// LabelPatch writes changes as a JSON patch (RFC 6902) of a Node. It is applied whole or not at all.
func LabelPatch(changes []LabelChange) []byte {
	type op struct {
		Op    string  `json:"op"`
		Path  string  `json:"path"`
		Value *string `json:"value,omitempty"`
	}
	ops := []op{}
	for _, c := range changes {
		at := "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(c.Key)
		if c.Remove {
			ops = append(ops, op{"test", at, &c.Value}, op{Op: "remove", Path: at})
			continue
		}
		ops = append(ops, op{"add", at, &c.Value})
	}
	b, err := json.Marshal(ops)
	if err != nil {
		panic(fmt.Sprintf("kubelet: strings do not encode: %v", err))
	}
	return b
}

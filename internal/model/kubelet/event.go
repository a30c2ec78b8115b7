package kubelet

import "time"

// Event is a change of a Node that `kubectl describe node` shows.
type Event struct {
	Node      string
	Reason    string // one word, such as PreletHeld
	Message   string
	IsWarning bool
}

// Document returns the event as the API server takes it at a time (core/v1, in the namespace default). The uid is the
// name of the Node, as in the events of a kubelet, because kubectl describe looks for both.
func (e Event) Document(now time.Time) any {
	type object = map[string]any
	kind := "Normal"
	if e.IsWarning {
		kind = "Warning"
	}
	at := now.UTC().Format(time.RFC3339)

	return object{
		"metadata":           object{"generateName": e.Node + "."},
		"involvedObject":     object{"apiVersion": "v1", "kind": "Node", "name": e.Node, "uid": e.Node},
		"reason":             e.Reason,
		"message":            e.Message,
		"type":               kind,
		"source":             object{"component": "prelet", "host": e.Node},
		"reportingComponent": "prelet",
		"reportingInstance":  e.Node,
		"firstTimestamp":     at,
		"lastTimestamp":      at,
		"count":              1,
	}
}

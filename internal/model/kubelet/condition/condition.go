// Package condition is the report of a machine in the conditions of its Node: their statuses and reasons, and the
// changes of a patch. The package is pure, and imports only the standard library.
package condition

import (
	"slices"
	"time"
)

// Condition is one condition of a Node, without its times.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The statuses of a condition.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// The reasons that prelet gives. Programs may compare them, so they do not change.
const (
	Verified         = "Verified"         // True: the kubelet is healthy, and all checks hold
	StaleSite        = "StaleSite"        // True: the same, and no look for a pulled site has succeeded lately
	Booting          = "Booting"          // False: from the begin of a boot to its verdict
	Stopping         = "Stopping"         // False: the node shuts down, or prelet.service was stopped
	TurnedOff        = "TurnedOff"        // Unknown: the node was booted with prelet=off
	GateShut         = "GateShut"         // False: prelet does not let the kubelet start
	KubeletUnhealthy = "KubeletUnhealthy" // False: the kubelet is not healthy on the generation in place
	KubeletUnknown   = "KubeletUnknown"   // Unknown: nothing shows whether the kubelet is healthy
	CheckFailed      = "CheckFailed"      // False: a check of the site does not hold
	Drift            = "Drift"            // False: a run would change files, as prelet-check.service has found
	CheckUnknown     = "CheckUnknown"     // Unknown: a check of the site is null, or was not evaluated
)

// Healthy is the message of a condition that is True. It has no number and no time, so that it does not change.
const Healthy = "the kubelet is healthy, and all checks of the site hold"

// All returns a condition of each type, all with the same status, reason and message.
func All(types []string, status, reason, message string) (out []Condition) {
	for _, t := range types {
		out = append(out, Condition{t, status, reason, message})
	}

	return out
}

// Replace returns the conditions with another status. The results of the checks of the site are replaced as well.
func Replace(cs []Condition, status, reason, message string) []Condition {
	return All(Types(cs), status, reason, message)
}

func Types(cs []Condition) (out []string) {
	for _, c := range cs {
		out = append(out, c.Type)
	}

	return out
}

// Patch is a patch of the conditions of a Node.
type Patch struct {
	Set    []Condition
	Turned []string // the types of Set whose status is another one, or that are new
	Remove []string // types
}

// IsEmpty reports whether nothing changes.
func (c Patch) IsEmpty() bool { return len(c.Set) == 0 && len(c.Remove) == 0 }

// Patch implements kubelet.Change by a strategic merge patch of the status, in which a condition is found by its type.
// The time of the last transition stays that of the Node unless the status turns.
func (c Patch) Patch(now time.Time) (kind, path string, document any) {
	at := now.UTC().Format(time.RFC3339)

	list := []map[string]string{}
	for _, s := range c.Set {
		item := map[string]string{
			"type":              s.Type,
			"status":            s.Status,
			"reason":            s.Reason,
			"message":           s.Message,
			"lastHeartbeatTime": at,
		}
		if slices.Contains(c.Turned, s.Type) {
			item["lastTransitionTime"] = at
		}
		list = append(list, item)
	}
	for _, typ := range c.Remove {
		list = append(list, map[string]string{"$patch": "delete", "type": typ})
	}

	return "strategic-merge-patch", "/status", map[string]any{"status": map[string]any{"conditions": list}}
}

// Changes returns the patch from the present conditions of a Node to the wanted ones. An unwanted condition is removed
// if its type is in owned; all others belong to other parties.
func Changes(have, want []Condition, owned []string) (out Patch) {
	for _, w := range want {
		was, isThere := find(have, w.Type)
		if isThere && was == w {
			continue
		}
		out.Set = append(out.Set, w)
		if !isThere || was.Status != w.Status {
			out.Turned = append(out.Turned, w.Type)
		}
	}

	for _, t := range owned {
		_, isThere := find(have, t)
		_, isWanted := find(want, t)
		if isThere && !isWanted {
			out.Remove = append(out.Remove, t)
		}
	}

	return out
}

func find(cs []Condition, typ string) (Condition, bool) {
	i := slices.IndexFunc(cs, func(c Condition) bool { return c.Type == typ })
	if i < 0 {
		return Condition{}, false
	}

	return cs[i], true
}

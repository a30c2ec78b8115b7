package boot

import "encoding/json"

// ParsePurposes returns what the files of a plan are for, by path: kubelet-config, kubelet-flags, state, and so on. plan
// is a plan.json as a generation keeps it. The result is empty if it cannot be parsed.
func ParsePurposes(plan []byte) map[string]string {
	out := map[string]string{}
	var doc struct {
		Files []struct {
			Path    string `json:"path"`
			Purpose string `json:"purpose"`
		} `json:"files"`
	}

	if json.Unmarshal(plan, &doc) == nil {
		for _, f := range doc.Files {
			out[f.Path] = f.Purpose
		}
	}
	return out
}

package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/origin"
)

// unset explains a field that the kubelet has, and that the plan leaves to it. known is false where the configuration
// itself is not known: then nobody can say that a field is not in it.
func (w *walker) unset(name string) (x Explanation, known bool) {
	config, version := w.plan.Node.Config, ""
	if v := w.plan.Kubelet.Version; v != nil {
		version = *v
	}
	if !w.plan.Complete || len(config) == 0 || !kubelet.KnownField(name, version) {
		return Explanation{}, false
	}
	field, key, _ := strings.Cut(name, ".")
	for _, f := range w.plan.Node.Flags {
		if strings.ReplaceAll(f.Name, "-", "") == strings.ToLower(field) {
			x.Summary = fmt.Sprintf("Neither the base nor the site sets it in the kubelet's configuration; the kubelet's flag --%s is what counts.", f.Name)
			w.say(0, Step{Text: "flag/" + f.Name, Value: quote(f.Value), Ref: "flag/" + f.Name})
			return x, true
		}
	}
	_, there := config[field]
	merges, _ := config["mergeDefaultEvictionSettings"].(bool)
	value, told := kubelet.FieldDefault(name, version)
	switch {
	case field == "evictionHard" && key != "" && there && !merges:
		x.Summary = "Neither the base nor the site sets it; evictionHard is set, so the kubelet has the thresholds in it and no others."
	case told:
		x.Summary = fmt.Sprintf("Neither the base nor the site sets it, so the kubelet's default holds: %s.", w.inFull(value))
	case field == "evictionHard":
		x.Summary = "Neither the base nor the site sets it, and the kubelet has no such threshold by itself."
	default:
		x.Summary = "Neither the base nor the site sets it, so the kubelet's default holds."
	}
	w.say(0, Step{Kind: origin.Base, Text: "the base", Note: "has no " + name, Ref: "base"})
	w.baseText("kubelet_config", 1)
	return x, true
}

// inFull is a default as it would stand in the configuration: short enough to be shown whole.
func (w *walker) inFull(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return w.showGo(v)
	}
	return string(b)
}

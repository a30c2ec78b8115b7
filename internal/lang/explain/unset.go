package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
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
	merges := kubelet.MergesEvictionHard(config, version)
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
	x.Summary += w.explainTaken(field)
	w.say(0, Step{Kind: origin.Base, Text: "the base", Note: "has no " + name, Ref: "base"})
	w.baseText("kubelet_config", 1)
	return x, true
}

// explainTaken says which override took away what has set a field of the kubelet's configuration; "" if none did.
func (w *walker) explainTaken(field string) string {
	argument := map[string]string{"maxPods": " max_pods"}[field]
	for _, o := range w.plan.Site.Overrides {
		isPatch := strings.HasSuffix(o.Address, " kubelet_config.patch") && strings.Contains(w.e.Text(o.Base), field)
		isArgument := argument != "" && strings.HasSuffix(o.Address, argument)
		if o.Base.Filename != "" && (isPatch || isArgument) {
			_, name, _ := strings.Cut(o.Address, " ")
			return fmt.Sprintf(" The site set it in %s at %s:%d, and the override at %s:%d replaced that whole.",
				name, o.Base.Filename, o.Base.Start.Line, o.Over.Filename, o.Over.Start.Line)
		}
	}

	return ""
}

// inFull is a default as it would stand in the configuration: short enough to be shown whole.
func (w *walker) inFull(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return w.showGo(v)
	}
	return string(b)
}

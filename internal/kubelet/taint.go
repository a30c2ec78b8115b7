package kubelet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// Taint is one taint of a node. Its effect is one of NoSchedule, PreferNoSchedule, NoExecute.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Effects returns the effects that a taint can have, the mildest first.
func Effects() []string { return []string{"PreferNoSchedule", "NoSchedule", "NoExecute"} }

// String is the canonical form: key=value:Effect, and key:Effect without a value.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// ParseTaint reads a taint in kubectl's syntax: key=value:Effect, key:Effect, and key=:Effect, which is the same
// as key:Effect. Key and value follow the rules of labels (k8s.io/kubernetes pkg/util/taints, parseTaint). What
// kubectl takes for "remove this taint" (a - at the end, a key without effect) is refused.
func ParseTaint(text string) (Taint, error) {
	var t Taint
	if strings.HasSuffix(text, "-") {
		return t, fmt.Errorf("taint %q: a - at the end removes a taint with kubectl; a node that is being made has none to remove: leave the taint out", text)
	}
	pair, effect, found := strings.Cut(text, ":")
	if !found {
		return t, fmt.Errorf("taint %q: no effect: write %s:NoSchedule (effects are %s)", text, orKey(text), strings.Join(Effects(), ", "))
	}
	if strings.Contains(effect, ":") {
		return t, fmt.Errorf("taint %q: more than one colon: write key=value:Effect", text)
	}
	t.Effect = effect
	var hasValue bool
	t.Key, t.Value, hasValue = strings.Cut(pair, "=")
	if hasValue && strings.Contains(t.Value, "=") {
		return Taint{}, fmt.Errorf("taint %q: more than one =: write key=value:Effect", text)
	}
	if err := t.Check(); err != nil {
		return Taint{}, fmt.Errorf("taint %q: %w", text, err)
	}
	return t, nil
}

func orKey(text string) string {
	if text == "" {
		return "key=value"
	}
	return text
}

// Check says what the apiserver would refuse of a taint.
func (t Taint) Check() error {
	if err := checkKey(t.Key); err != nil {
		return err
	}
	if err := checkValue(t.Value); err != nil {
		return err
	}
	if slices.Contains(Effects(), t.Effect) {
		return nil
	}
	hint := ""
	if near := Nearest(t.Effect, Effects()); near != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", near)
	}
	return fmt.Errorf("the effect %q is none of %s%s", t.Effect, strings.Join(Effects(), ", "), hint)
}

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("the key is empty")
	}
	if problems := content.IsLabelKey(key); len(problems) > 0 {
		return fmt.Errorf("the key %q is no label key: %s", key, strings.Join(problems, "; "))
	}
	return nil
}

func checkValue(value string) error {
	if problems := content.IsLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("the value %q is no label value: %s", value, strings.Join(problems, "; "))
	}
	return nil
}

// ParseTaints reads the value of --register-with-taints. Empty is no taint. Like the kubelet it leaves out what removes a
// taint (IsTaintRemoval), and refuses one key with the same effect twice; one key with two effects is allowed.
func ParseTaints(list string) ([]Taint, error) {
	if list == "" {
		return nil, nil
	}
	var taints []Taint
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		if IsTaintRemoval(item) {
			continue
		}
		t, err := ParseTaint(item)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(taints, t.same); i >= 0 {
			return nil, fmt.Errorf("taints %s and %s: duplicated taints with the same key and effect: keep one", taints[i], t)
		}
		taints = append(taints, t)
	}
	return taints, nil
}

// IsTaintRemoval reports whether an item of --register-with-taints is what kubectl would remove a taint by, "key:Effect-" or
// "key-": the kubelet accepts it, and does nothing.
func IsTaintRemoval(item string) bool {
	taint, ok := strings.CutSuffix(item, "-")
	if !ok {
		return false
	}
	if !strings.Contains(taint, ":") {
		return checkKey(taint) == nil
	}
	_, err := ParseTaint(taint)

	return err == nil
}

// same says whether two taints are one to Kubernetes: same key and effect, whatever the values.
func (t Taint) same(other Taint) bool { return t.Key == other.Key && t.Effect == other.Effect }

// FormatTaints prints taints in the order given, as --register-with-taints takes them: here a taint without a
// value is written key=:Effect, which every kubelet reads (key:Effect is an error up to 1.11).
func FormatTaints(taints []Taint) string {
	items := make([]string, len(taints))
	for i, t := range taints {
		items[i] = t.Key + "=" + t.Value + ":" + t.Effect
	}
	return strings.Join(items, ",")
}

// TaintItems are taints as items for MergeList, which thinks two are one when key and effect are the same.
func TaintItems(taints []Taint) []ListItem {
	items := make([]ListItem, len(taints))
	for i, t := range taints {
		items[i] = ListItem{Key: taintListKey(t), Text: FormatTaints([]Taint{t})}
	}
	return items
}

func taintListKey(t Taint) string { return t.Key + ":" + t.Effect }

// ConfigTaints returns registerWithTaints of a configuration, up to the first one that the kubelet would refuse.
func ConfigTaints(config map[string]any) (taints []Taint, err error) {
	list, _ := config["registerWithTaints"].([]any)
	for _, x := range list {
		m, _ := x.(map[string]any)
		t := Taint{}
		t.Key, _ = m["key"].(string)
		t.Value, _ = m["value"].(string)
		t.Effect, _ = m["effect"].(string)
		if err := t.Check(); err != nil {
			return taints, err
		}
		taints = append(taints, t)
	}

	return taints, nil
}

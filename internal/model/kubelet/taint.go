package kubelet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/model/texts"
)

// Taint is one taint of a node. Its effect is one of NoSchedule, PreferNoSchedule, NoExecute.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// Effects returns the valid effects of a taint, the mildest first.
func Effects() []string { return []string{"PreferNoSchedule", "NoSchedule", "NoExecute"} }

// String returns the canonical form: key=value:Effect, or key:Effect without a value.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// Taints is a list whose JSON has the canonical form of each taint.
type Taints []Taint

// MarshalJSON implements json.Marshaler.
func (ts Taints) MarshalJSON() ([]byte, error) {
	var texts []string
	for _, t := range ts {
		texts = append(texts, t.String())
	}

	return json.Marshal(texts)
}

// UnmarshalJSON implements json.Unmarshaler. It does not check the taints: they were checked before they were stored.
func (ts *Taints) UnmarshalJSON(text []byte) error {
	var texts []string
	err := json.Unmarshal(text, &texts)
	*ts = nil
	for _, s := range texts {
		pair, effect, _ := strings.Cut(s, ":")
		key, value, _ := strings.Cut(pair, "=")
		*ts = append(*ts, Taint{key, value, effect})
	}

	return err
}

// ParseTaint parses a taint in kubectl's syntax: key=value:Effect, key:Effect or key=:Effect. Key and value follow
// the rules of labels (pkg/util/taints, parseTaint). It rejects the forms with which kubectl removes a taint: a - at
// the end, or a key without an effect.
func ParseTaint(text string) (Taint, error) {
	var t Taint
	if strings.HasSuffix(text, "-") {
		return t, fmt.Errorf("taint %q: a - at the end removes a taint with kubectl; "+
			"a new node has no taint: remove it", text)
	}
	pair, effect, found := strings.Cut(text, ":")
	if !found {
		meant := cmp.Or(text, "key=value") + ":NoSchedule"
		if at := strings.LastIndex(text, "="); at > 0 && slices.Contains(Effects(), text[at+1:]) {
			meant = text[:at] + ":" + text[at+1:]
		}
		return t, fmt.Errorf("taint %q: no effect: write %s (valid effects: %s)",
			text, meant, strings.Join(Effects(), ", "))
	}
	if strings.Contains(effect, ":") {
		return t, fmt.Errorf("taint %q: more than one colon: write key=value:Effect", text)
	}
	key, value, _ := strings.Cut(pair, "=")
	if strings.Contains(value, "=") {
		return Taint{}, fmt.Errorf("taint %q: more than one =: write key=value:Effect", text)
	}
	t = Taint{Key: key, Value: value, Effect: effect}
	if err := t.Check(); err != nil {
		return Taint{}, fmt.Errorf("taint %q: %w", text, err)
	}
	return t, nil
}

// Check returns why the API server would reject a taint.
func (t Taint) Check() error {
	if err := CheckLabelKey(t.Key); err != nil {
		return err
	}
	if err := checkValue(t.Value); err != nil {
		return err
	}
	if slices.Contains(Effects(), t.Effect) {
		return nil
	}
	hint := ""
	if near := texts.Nearest(t.Effect, Effects()); near != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", near)
	}
	return fmt.Errorf("invalid effect %q: want one of %s%s", t.Effect, strings.Join(Effects(), ", "), hint)
}

func checkValue(value string) error {
	if problems := content.IsLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("invalid value %q: %s", value, strings.Join(problems, "; "))
	}
	return nil
}

// ParseTaints parses the value of --register-with-taints. Like the kubelet it skips items that remove a taint
// (IsTaintRemoval), and rejects duplicates of key and effect.
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
		if i := slices.IndexFunc(taints, t.isSame); i >= 0 {
			return nil, fmt.Errorf(
				"taints %s and %s: duplicated taints with the same key and effect: keep one",
				taints[i],
				t,
			)
		}
		taints = append(taints, t)
	}
	return taints, nil
}

// IsTaintRemoval reports whether an item of --register-with-taints has the form with which kubectl removes a taint,
// "key:Effect-" or "key-". The kubelet accepts and ignores it.
func IsTaintRemoval(item string) bool {
	taint, ok := strings.CutSuffix(item, "-")
	if !ok {
		return false
	}
	if !strings.Contains(taint, ":") {
		return CheckLabelKey(taint) == nil
	}
	_, err := ParseTaint(taint)

	return err == nil
}

// isSame reports whether Kubernetes treats two taints as one: key and effect are equal.
func (t Taint) isSame(other Taint) bool {
	return t.Key == other.Key && t.Effect == other.Effect
}

// FormatTaints returns the value of --register-with-taints. A taint without a value is written key=:Effect, because
// kubelets up to 1.11 reject key:Effect.
func FormatTaints(taints []Taint) string {
	items := make([]string, len(taints))
	for i, t := range taints {
		items[i] = t.Key + "=" + t.Value + ":" + t.Effect
	}
	return strings.Join(items, ",")
}

// TaintItems returns taints as items for MergeList. Two taints with the same key and effect are one item.
func TaintItems(taints []Taint) []ListItem {
	items := make([]ListItem, len(taints))
	for i, t := range taints {
		items[i] = ListItem{
			Key:  t.Key + ":" + t.Effect,
			Text: FormatTaints([]Taint{t}),
		}
	}
	return items
}

// TaintOf returns an element of registerWithTaints, unchecked.
func TaintOf(object map[string]any) Taint {
	var t Taint
	t.Key, _ = object["key"].(string)
	t.Value, _ = object["value"].(string)
	t.Effect, _ = object["effect"].(string)

	return t
}

// ConfigTaints returns registerWithTaints of a configuration, up to the first taint that the kubelet would reject.
func ConfigTaints(config map[string]any) (taints []Taint, err error) {
	list, _ := config["registerWithTaints"].([]any)
	for _, element := range list {
		object, _ := element.(map[string]any)
		t := TaintOf(object)
		if err := t.Check(); err != nil {
			return taints, err
		}
		taints = append(taints, t)
	}

	return taints, nil
}

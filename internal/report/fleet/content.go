package fleet

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
)

// values are the texts of items by kind and name, "label" and "zone": those of one side of a comparison.
type values map[[2]string]string

// compare returns the items that differ. Values are unlike "" for items that exist.
func (v values) compare(after values) (out []Change) {
	for key, to := range after {
		from, isOld := v[key]
		switch {
		case !isOld:
			c := Change{Kind: key[0], Name: key[1], Action: "create"}
			c.To = to
			out = append(out, c)
		case from != to:
			c := Change{Kind: key[0], Name: key[1], Action: "update"}
			c.From, c.To = from, to
			out = append(out, c)
		}
	}
	for key, from := range v {
		if _, stays := after[key]; !stays {
			c := Change{Kind: key[0], Name: key[1], Action: "delete"}
			c.From = from
			out = append(out, c)
		}
	}

	return out
}

func (v values) addLabels(text string) error {
	labels, err := kubelet.ParseLabels(text)
	for _, l := range labels {
		v[[2]string{"label", l.Key}] = quoteEmpty(l.Value)
	}

	return err
}

func (v values) addTaints(text string) error {
	taints, err := kubelet.ParseTaints(text)
	for _, t := range taints {
		v[[2]string{"taint", t.Key + ":" + t.Effect}] = quoteEmpty(t.Value)
	}

	return err
}

// quoteEmpty returns a value that is not "", which means "no item".
func quoteEmpty(value string) string {
	if value == "" {
		return `""`
	}

	return value
}

// compareFlagFiles returns the labels, taints and flags that differ between two environment files of the kubelet; none
// if one of them cannot be parsed.
func compareFlagFiles(before, after string) []Change {
	old, err := readFlagFile(before)
	if err != nil {
		return nil
	}
	planned, err := readFlagFile(after)
	if err != nil {
		return nil
	}

	return old.compare(planned)
}

func readFlagFile(text string) (values, error) {
	file, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil, err
	}

	out := values{}
	for _, variable := range file.Names() {
		flags, _ := file.Get(variable)
		for _, name := range flags.Names() {
			value, _ := flags.Lookup(name)
			switch name {
			case "node-labels":
				err = out.addLabels(value)
			case "register-with-taints":
				err = out.addTaints(value)
			default:
				out[[2]string{"flag", "--" + name}] = quoteEmpty(value)
			}
			if err != nil {
				return nil, err
			}
		}
	}

	return out, nil
}

// compareConfigFiles returns the fields that differ between two KubeletConfigurations; none if one of them cannot be
// parsed. An empty text has no fields.
func compareConfigFiles(before, after string) []Change {
	old, err := readConfigFile(before)
	if err != nil {
		return nil
	}
	planned, err := readConfigFile(after)
	if err != nil {
		return nil
	}

	return old.compare(planned)
}

func readConfigFile(text string) (values, error) {
	out := values{}
	if text == "" {
		return out, nil
	}
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	out.addConfig(c.Object())

	return out, nil
}

// addConfig adds the fields of a KubeletConfiguration. Its taints are taints.
func (v values) addConfig(doc map[string]any) {
	for name, value := range doc {
		switch name {
		case "apiVersion", "kind":
		case "registerWithTaints":
			v.addConfigTaints(value)
		default:
			v.addField(name, value)
		}
	}
}

func (v values) addField(name string, value any) {
	if object, isObject := value.(map[string]any); isObject && len(object) > 0 {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			v.addField(name+"."+key, object[key])
		}
		return
	}

	v[[2]string{"config", name}] = formatValue(value)
}

func (v values) addConfigTaints(value any) {
	list, isList := value.([]any)
	for _, item := range list {
		taint, isObject := item.(map[string]any)
		key, isText := taint["key"].(string)
		effect, _ := taint["effect"].(string)
		text, _ := taint["value"].(string)
		if !isObject || !isText {
			isList = false
			break
		}
		v[[2]string{"taint", key + ":" + effect}] = quoteEmpty(text)
	}
	if !isList {
		v.addField("registerWithTaints", value)
	}
}

// formatValue returns a value as a plain text if it is one, else as JSON.
func formatValue(value any) string {
	if text, isText := value.(string); isText && text != "" && !strings.ContainsAny(text, "\n\"") {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "?" // cannot happen: it was decoded from YAML
	}

	return string(text)
}

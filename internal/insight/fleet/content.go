package fleet

import (
	"cmp"

	"github.com/prelet/prelet/internal/insight/compare"
	"github.com/prelet/prelet/internal/kubelet"
)

// compareFlagFiles returns the items that differ between two files of flags; none if one of them cannot be parsed.
func compareFlagFiles(before, after string) []compare.NodeChange {
	old, err := readFlagFile(before)
	planned, errAfter := readFlagFile(after)
	if err != nil || errAfter != nil {
		return nil
	}

	return old.Diff(planned)
}

// compareConfig returns the items that differ between a file of the kubelet's configuration and a planned one; none if
// the file cannot be parsed. An empty text has no fields.
func compareConfig(before string, planned map[string]any) []compare.NodeChange {
	old, after := compare.Items{}, compare.Items{}
	if before != "" {
		c, err := kubelet.ParseConfig(before)
		if err != nil {
			return nil
		}
		old.AddConfig(c.Object())
	}
	after.AddConfig(planned)

	return old.Diff(after)
}

// readFlagFile reads an environment file of the kubelet.
func readFlagFile(text string) (compare.Items, error) {
	file, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil, err
	}

	out := compare.Items{}
	for _, variable := range file.Names() {
		flags, _ := file.Get(variable)
		for _, name := range flags.Names() {
			value, _ := flags.Lookup(name)
			switch name {
			case "node-labels":
				labels, failed := kubelet.ParseLabels(value)
				err = cmp.Or(err, failed)
				for _, l := range labels {
					out.Set("label", l.Key, l.Value)
				}
			case "register-with-taints":
				taints, failed := kubelet.ParseTaints(value)
				err = cmp.Or(err, failed)
				for _, t := range taints {
					out.Set("taint", t.Key+":"+t.Effect, t.Value)
				}
			default:
				out.Set("flag", name, value)
			}
		}
	}

	return out, err
}

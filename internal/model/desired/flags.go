package desired

import (
	"cmp"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
)

// SplitFlags returns the labels, the taints and the other flags of a kubelet, each from an origin. It fails for a list
// of labels or of taints that is invalid, and leaves it out.
func SplitFlags(flags *kubelet.Flags, from []origin.Origin) (c Contribution, err error) {
	for _, name := range flags.Names() {
		text, _ := flags.Lookup(name)
		var invalid error
		switch {
		case flags.LacksValue(name): // the kubelet's rules report it
		case name == "node-labels":
			var labels []kubelet.Label
			labels, invalid = kubelet.ParseLabels(text)
			for _, l := range labels {
				c.Labels = append(c.Labels, Label{
					Key:     l.Key,
					Value:   l.Value,
					Origins: from,
				})
			}
		case name == "register-with-taints":
			var taints []kubelet.Taint
			taints, invalid = kubelet.ParseTaints(text)
			c.Taints = MakeTaints(taints, from)
		default:
			c.Flags = append(c.Flags, Flag{
				Name:    name,
				Value:   text,
				Earlier: flags.Earlier(name),
				Origins: from,
			})
		}
		err = cmp.Or(err, invalid)
	}

	return c, err
}

// MakeTaints returns taints of the kubelet's flag or configuration as taints of the node.
func MakeTaints(list []kubelet.Taint, from []origin.Origin) (out []Taint) {
	for _, t := range list {
		out = append(out, Taint{Taint: t, Origins: from})
	}

	return out
}

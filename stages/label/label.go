// Package label is the stage that adds labels to the node: labels of the site, and labels that detectors recommend.
// It is pure and checks each key and value once. It must not compare with labels of other stages: package desired does.
package label

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var (
	labelsAttr = schema.Attr[cty.Value]{
		Name:  "labels",
		Type:  cty.Map(cty.String),
		Items: true,
		Secret: "Everybody who may list nodes reads their labels. Leave it out, or use another value, " +
			"such as a variable.",
		Doc: "Keys and values, as `kubectl label` takes them. Numbers and booleans are written as text. " +
			"A null value sets no label. An item whose value is unknown because a fact is null is left out, " +
			"and the boot is degraded.",
	}
	fromDetectorsAttr = schema.Attr[[]string]{
		Name: "from_detectors",
		Type: cty.List(cty.String),
		Doc: "Which of the labels that detectors recommend are taken, as shell patterns of keys: " +
			"`nvidia.com/*`.",
	}
)

// Stage implements stages.Decider.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{
		Phase:     schema.Decide,
		ForEach:   true,
		SoftItems: true,
		Block: schema.Block{
			Type: "label",
			Doc: "Adds labels. The kubelet registers with them; " +
				"keys that it refuses inside kubernetes.io and k8s.io are refused here.",
			Fields: []schema.Field{labelsAttr, fromDetectorsAttr},
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"labels": cty.Map(cty.String)})
}

// Decide implements stages.Decider.
func (Stage) Decide(
	cfg schema.Body,
	in stages.Inputs,
) (desired.Contribution, stages.Output, hcl.Diagnostics) {
	d := decision{in: in, attr: labelsAttr.Of(cfg)}
	d.addItems()
	d.addRecommended(fromDetectorsAttr.Of(cfg))
	slices.SortStableFunc(
		d.labels,
		func(a, b desired.Label) int {
			return strings.Compare(a.Key, b.Key)
		},
	)

	return desired.Contribution{Labels: d.labels}, d.output(), d.Diags
}

type decision struct {
	in        stages.Inputs
	attr      schema.Value[cty.Value]
	labels    []desired.Label
	isUnknown bool // at least one label is not known
	origin.Collector
}

func (d *decision) output() stages.Output {
	values := map[string]string{}
	for _, l := range d.labels {
		values[l.Key] = l.Value
	}

	labels := value.StringMap(values)
	if d.isUnknown {
		labels = cty.UnknownVal(cty.Map(cty.String))
	}

	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"labels": labels})}
}

func (d *decision) addItems() {
	d.isUnknown = !d.attr.Cty.IsWhollyKnown()
	for key, item := range d.attr.Items() {
		label, diag := parseItem(key, d.attr.KeyRange(key), item, d.in)
		if diag != nil {
			d.Report(diag)
		}
		if label != nil {
			d.labels = append(d.labels, *label)
		}
	}
}

// parseItem turns an item into a label; nil if it sets none. The key is checked also where the value is unknown.
//
// A null value, as in try(…, null), is intended by the site, so it is a note. Only an expression that fails because a
// fact is null degrades the boot; else all nodes of a mixed fleet would always be degraded.
func parseItem(
	key string,
	keyRange hcl.Range,
	item schema.Value[string],
	in stages.Inputs,
) (*desired.Label, *hcl.Diagnostic) {
	if diag := checkKey(key, keyRange, in); diag != nil {
		return nil, diag
	}

	switch {
	case item.Null():
		return nil, origin.Note(
			fault.NullFact,
			item.Range,
			"No label "+key,
			"Its value is null on this machine.",
		)
	case !item.Set():
		return nil, nil
	}

	if diag := checkValue(key, item.V, item.Range); diag != nil {
		return nil, diag
	}
	if err := kubelet.CheckOwnLabel(key, item.V); err != nil {
		return nil, origin.Error(fault.LabelForbidden, item.Range, "Label "+key+" is the kubelet's own",
			"%s", stages.Sentence(err.Error()))
	}

	return &desired.Label{
		Key:     key,
		Value:   item.V,
		Origins: item.Origins(),
	}, nil
}

// checkKey refuses a key that is malformed, or that this kubelet may not set.
func checkKey(key string, at hcl.Range, in stages.Inputs) *hcl.Diagnostic {
	if err := kubelet.CheckLabelKey(key); err != nil {
		return origin.Error(fault.LabelInvalid, at, fmt.Sprintf("Invalid label key %q", key), "%s",
			stages.Sentence(err.Error(), "A key is NAME, or DOMAIN/NAME"))
	}

	if err := kubelet.CheckNodeKey(key, in.Kubelet.KnownVersion()); err != nil {
		return origin.Error(
			fault.LabelForbidden,
			at,
			fmt.Sprintf("The kubelet may not set label %s", key),
			"%s",
			stages.Sentence(err.Error()),
		)
	}

	return nil
}

func checkValue(key, val string, at hcl.Range) *hcl.Diagnostic {
	if err := kubelet.CheckLabelValue(key, val); err != nil {
		next := "slug() turns any text into a valid value"
		if strings.HasSuffix(val, "\n") {
			next = "It ends with a newline, which trimspace() removes"
		}
		return origin.Error(fault.LabelInvalid, at, fmt.Sprintf("Label %s is not valid", key), "%s",
			stages.Sentence(err.Error(), next))
	}

	return nil
}

// addRecommended adds the labels of detectors whose keys match a pattern of the site. A label of the site, or of a
// detector before, wins.
func (d *decision) addRecommended(patterns schema.Value[[]string]) {
	if len(patterns.V) == 0 {
		return
	}

	for _, p := range patterns.V {
		if _, err := path.Match(p, ""); err != nil {
			d.Error(
				fault.LabelInvalid,
				patterns.Range,
				fmt.Sprintf("Invalid pattern %q", p),
				"Write a shell pattern, for example nvidia.com/*.",
			)

			return
		}
	}

	var all []string
	for _, detector := range slices.Sorted(maps.Keys(d.in.Recommended)) {
		labels := d.in.Recommended[detector]
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			all = append(all, key)
			if matchesAny(patterns.V, key) && !d.isSet(key) {
				d.addRecommendedLabel(patterns, detector, key, labels[key])
			}
		}
	}
	d.warnOfMisspelt(patterns, all)
}

// warnOfMisspelt warns of patterns that match no recommended label, where one has nearly this key.
func (d *decision) warnOfMisspelt(patterns schema.Value[[]string], recommended []string) {
	for i, p := range patterns.V {
		matches := func(key string) bool { return matchesAny([]string{p}, key) }
		near := texts.Nearest(p, recommended)
		if near == "" || slices.ContainsFunc(recommended, matches) {
			continue
		}
		d.Warn(fault.DetectorUnknown, patterns.ItemRange(strconv.Itoa(i)), fmt.Sprintf("No detector recommends %q", p),
			"Did you mean %q?", near)
	}
}

// matchesAny reports whether a key matches one of the patterns, which are valid.
func matchesAny(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		isMatch, _ := path.Match(p, key)
		return isMatch
	})
}

// isSet reports whether the stage has a label with this key already.
func (d *decision) isSet(key string) bool {
	return slices.ContainsFunc(d.labels, func(l desired.Label) bool {
		return l.Key == key
	})
}

// addRecommendedLabel adds one label of a detector, at the place of the patterns that match it.
func (d *decision) addRecommendedLabel(patterns schema.Value[[]string], detector, key, val string) {
	diag := cmp.Or(
		checkKey(key, patterns.Range, d.in),
		checkValue(key, val, patterns.Range),
	)
	if diag != nil {
		d.Report(diag)
		return
	}

	from := origin.Origin{
		Kind: origin.Detector,
		Role: origin.Value,
		Ref:  "detector." + detector,
		Text: key + "=" + val,
	}
	d.labels = append(d.labels, desired.Label{
		Key:     key,
		Value:   val,
		Origins: append(patterns.Origins(), from),
	})
}

package printer

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// PlanText writes a plan for people: the node in the words of Kubernetes, then the changes on disk.
func PlanText(w io.Writer, v View, s Style) error {
	return s.render(w, "plan", v, template.FuncMap{
		"about":    v.describeFile,
		"changes":  wouldChange,
		"checker":  v.nameChecker,
		"diff":     v.planDiff(s),
		"file":     s.fileLine,
		"hasDiff":  v.hasDiff,
		"headed":   s.headed,
		"hidden":   compare.WhyHidden,
		"reserved": reservedRows,
		"rows":     s.itemLines,
		"sections": func() []section { return s.listItems(v.Plan) },
		"sign":     func(c evaluate.FileChange) string { return s.signOf(c) },
	})
}

// section is the items of one kind in a plan.
type section struct {
	ID, Title string
	Items     []sectionItem
}

// sectionItem is an item with its value, its sources, and the moment when it takes effect.
type sectionItem struct {
	explain.Item
	Text, Note string
}

// listItems returns the labels and taints of a plan, and the flags and fields that the site sets.
func (s Style) listItems(p *evaluate.Plan) []section {
	labels := section{ID: "labels", Title: "Labels"}
	for _, l := range p.Node.Labels {
		note := joinParts("; ", place(l.Origins), describeWhen(p, p.TakesEffect(l.Key)))
		labels.add(explain.Label, l.Key, l.Key+"="+l.Value, note)
	}
	taints := section{ID: "taints", Title: "Taints"}
	for _, t := range p.Node.Taints {
		note := joinParts("; ", place(t.Origins), describeWhen(p, p.TaintTakesEffect(t)))
		taints.add(explain.Taint, t.Key, t.String(), note)
	}
	flags := section{ID: "flags", Title: "Flags that the site adds"}
	for _, f := range p.Node.Flags {
		isOfBase := len(f.Origins) > 0 && f.Origins[0].Kind == origin.Base
		if !isOfBase {
			flags.add(explain.Flag, f.Name, "--"+f.Name+"="+f.Value, place(f.Origins))
		}
	}
	config := section{ID: "config", Title: "KubeletConfiguration, changes to its base"}
	for _, pointer := range slices.Sorted(maps.Keys(p.Node.ConfigOrigins)) {
		name := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
		text := "(removed)"
		if v, ok := kubelet.LookUp(p.Node.Config, pointer); ok {
			text = s.formatBrief(v, s.Width-2-columns(name+" = "))
		}
		config.add(
			explain.Config,
			name,
			name+" = "+text,
			place(p.Node.ConfigOrigins[pointer]),
		)
	}

	return []section{labels, taints, flags, config}
}

func (c *section) add(kind, name, text, note string) {
	c.Items = append(c.Items, sectionItem{explain.Item{Kind: kind, Name: name}, text, note})
}

func (s Style) itemLines(items []sectionItem) string {
	var rows [][]string
	for _, i := range items {
		rows = append(rows, []string{i.Text, i.Note})
	}

	return s.indentTable("  ", rows, s.dim)
}

// describeWhen returns when a change takes effect on a node that has joined; "" if it joins with this plan.
func describeWhen(p *evaluate.Plan, when string) string {
	if !p.Kubelet.Joined {
		return ""
	}

	return map[string]string{
		"restart":      "at restart",
		"reconcile":    "patched",
		"registration": "when registered",
	}[when]
}

// reservedRows returns the reserved and the remaining amounts; none for nil.
func reservedRows(r *desired.Reserved) [][]string {
	if r == nil {
		return nil
	}

	return pairs(
		"kubeReserved", formatAmounts(r.Kube),
		"systemReserved", formatAmounts(r.System),
		"evictionHard", formatAmounts(r.EvictionHard),
		"allocatable", formatAmounts(r.Allocatable),
		"reservedSystemCPUs", r.CPUs,
		"max pods", formatNumber(r.MaxPods),
	)
}

func formatAmounts(amounts map[string]string) string {
	var out []string
	for _, resource := range slices.Sorted(maps.Keys(amounts)) {
		out = append(out, resource+"="+formatAmount(resource, amounts[resource]))
	}

	return strings.Join(out, "  ")
}

func (s Style) fileLine(sign, path, note string) string {
	return joinLines(
		"  "+sign+" ",
		"    ",
		s.table([][]string{{path, note}}, s.Width-4, s.dim),
	)
}

// isUncompared reports whether the content on the disk is unknown, so that a file may change or not.
func isUncompared(c evaluate.FileChange) bool {
	return c.Action == "update" && c.Old.Uncompared != ""
}

// signOf returns the sign of what happens with a file.
func (s Style) signOf(c evaluate.FileChange) string {
	action := c.Action
	if isUncompared(c) {
		action = "unknown"
	}
	switch action {
	case "create":
		return s.green(signs[action])
	case "delete":
		return s.red(signs[action])
	case "keep", "none":
		return signs[action]
	}

	return s.yellow(signs[action])
}

// describeFile returns the action of a file with its reason, drift and consequences.
func (v View) describeFile(c evaluate.FileChange) (string, error) {
	return part("file", struct {
		evaluate.FileChange
		Plan    *evaluate.Plan
		IsBrief bool
	}{c, v.Plan, isNewConfig(c) && !v.Full})
}

// describeFollows returns the consequences of a change of a file of the site, except the restart of the kubelet; "" for
// nothing.
func describeFollows(p *evaluate.Plan, c evaluate.FileChange) string {
	isOfSite := c.File.Purpose == "file" || c.File.Purpose == "runtime"
	if !c.Changes() || !isOfSite {
		return ""
	}

	// The kubelet is the last one to be restarted.
	units := slices.DeleteFunc(slices.Clone(c.Notifies), func(unit string) bool { return unit == p.Restart.Unit })
	if len(units) < len(c.Notifies) {
		units = append(units, p.Restart.Unit)
	}
	follows := "then " + strings.Join(units, ", ")
	switch {
	case len(c.Notifies) == 0:
		follows = "nothing is restarted for it"
	case len(c.Notifies) == 1 && c.Notifies[0] == p.Restart.Unit:
		follows = ""
	}

	return joinParts("; ", follows, c.Stays)
}

// maxDiffLines bounds the diff of one file, unless all is asked for.
const maxDiffLines = 60

// planDiff returns the function that returns the change inside a file.
func (v View) planDiff(s Style) func(evaluate.FileChange) string {
	limit := maxDiffLines
	if v.Full {
		limit = math.MaxInt
	}

	return func(c evaluate.FileChange) string { return indentDiff(s.colourDiff(limit, s.fileDiff(c))) }
}

// isNewConfig reports whether a file is a new configuration of the kubelet, which the base fills.
func isNewConfig(c evaluate.FileChange) bool {
	return c.Action == "create" && c.File.Purpose == "kubelet-config"
}

// hasDiff reports whether the change inside a file is shown or, of a private one, that it is not. Of a new
// configuration of the kubelet the items have what differs from its base.
func (v View) hasDiff(c evaluate.FileChange) bool {
	if isNewConfig(c) && !v.Full {
		return false
	}

	isShown := c.Action == "update" || c.Action == "create" && c.File.Purpose != "ca"
	isKnown := c.File.Kind == desired.Regular && c.Old.Uncompared == ""

	return isShown && isKnown && compare.WhyHidden(c) != compare.Secret
}

// headed returns a text after a bold word, over several lines where it is long.
func (s Style) headed(word, text string) string {
	lines := s.wrap(word+" "+text, s.Width)
	lines[0] = s.bold(word) + strings.TrimPrefix(lines[0], word)

	return joinLines("", "", lines)
}

// countItems returns how many labels and taints a plan changes on the disk; "" for none.
func countItems(p *evaluate.Plan) string {
	return countKinds(slices.DeleteFunc(compare.Changes(compare.DiskStates(p)), func(c compare.NodeChange) bool {
		return c.Kind != "label" && c.Kind != "taint"
	}))
}

// countChanges returns the numbers of files by action; "" for none.
func countChanges(changes []evaluate.FileChange) string {
	count := map[string]int{}
	for _, c := range changes {
		if isUncompared(c) {
			count["unknown"]++
		} else {
			count[c.Action]++
		}
	}

	var parts []string
	for _, action := range [][2]string{
		{"create", "to create"},
		{"update", "to update"},
		{"delete", "to delete"},
		{"restore", "to put back"},
		{"unknown", "that cannot be compared"},
	} {
		number := count[action[0]]
		switch {
		case number > 0 && parts == nil:
			parts = append(parts, Count(number, "file")+" "+action[1])
		case number > 0:
			parts = append(parts, fmt.Sprint(number, " ", action[1]))
		}
	}

	return strings.Join(parts, ", ")
}

// describeUnits returns the actions on units, in their order; "" for none.
func describeUnits(p *evaluate.Plan) string {
	verbs := map[string]string{"create": "creates entries", "reload": "reloads", "restart": "restarts"}
	var parts []string
	for _, u := range p.Units {
		if len(u.Because) > 0 {
			parts = append(parts, u.Unit.Unit+" "+verbs[u.Action])
		}
	}
	if p.Restart.Needed { // the last one
		parts = append(parts, p.Restart.Unit+" restarts")
	}

	return strings.Join(parts, ", ")
}

// place returns the stage, the file and the line that an item comes from.
func place(os []origin.Origin) string {
	o := origin.FindDecider(os)
	switch {
	case o.Range.Filename != "":
		ref := o.Ref
		if o.Kind == origin.Base {
			ref = "base " + ref
		}

		return fmt.Sprintf("%s %s:%d", ref, shortenPath(o.Range.Filename), o.Range.Start.Line)
	case len(os) > 0:
		return joinParts(" ", string(os[0].Kind), os[0].Ref)
	}

	return ""
}

// shortenPath returns the last element of a path.
func shortenPath(p string) string {
	return p[strings.LastIndexByte(p, '/')+1:]
}

// formatBrief returns a value as JSON, cut to a width.
func (s Style) formatBrief(v any, width int) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}

	return secret.Cut(s.cell(string(b)), max(width, 20))
}

package present

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// PlanText writes a plan for people: the node in Kubernetes' terms, then what would change on disk.
func PlanText(w io.Writer, v View, s Style) error {
	var b strings.Builder
	p := v.Plan
	section := func(title string, rows [][]string) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n", s.bold(title))
		for _, l := range s.table(rows, s.Width-2, s.dim) {
			fmt.Fprintf(&b, "  %s\n", l)
		}
		b.WriteString("\n")
	}
	var rows [][]string
	for _, l := range p.Node.Labels {
		rows = append(rows, []string{l.Key + "=" + l.Value, effect(p, p.TakesEffect(l.Key), from(l.Origins))})
	}
	section("Labels", rows)
	rows = nil
	for _, t := range p.Node.Taints {
		rows = append(rows, []string{t.String(), effect(p, "registration", from(t.Origins))})
	}
	section("Taints", rows)
	reserved(&b, p.Node.Reserved, s)
	rows = nil
	for _, f := range p.Node.Flags {
		if len(f.Origins) > 0 && f.Origins[0].Kind == origin.Base {
			continue
		}
		rows = append(rows, []string{"--" + f.Name + "=" + f.Value, from(f.Origins)})
	}
	section("Flags that the site adds", rows)
	rows = nil
	for _, ptr := range slices.Sorted(maps.Keys(p.Node.ConfigOrigins)) {
		name := strings.ReplaceAll(strings.TrimPrefix(ptr, "/"), "/", ".") + " = "
		val := "(removed)"
		if x, ok := at(p.Node.Config, ptr); ok {
			val = s.brief(x, s.Width-2-columns(name))
		}
		rows = append(rows, []string{name + val, from(p.Node.ConfigOrigins[ptr])})
	}
	section("KubeletConfiguration, beyond its base", rows)
	files(&b, v, s)
	for _, d := range p.Degraded {
		note(&b, "degraded:", d.Summary, s)
	}
	for _, a := range p.Assumed {
		note(&b, "assumed:", describeAssumed(a), s)
	}
	for _, u := range p.Unread {
		note(&b, "unread:", describeUnread(u), s)
	}
	summary(&b, v, s)
	_, err := io.WriteString(w, b.String())
	return err
}

// effect adds to where an item comes from when it takes effect, which is no question on a node that joins with this plan.
func effect(p *boot.Plan, when, from string) string {
	if !p.Kubelet.Joined {
		return from
	}
	words := map[string]string{"restart": "at restart", "reconcile": "patched", "registration": "when registered"}[when]
	return strings.TrimPrefix(from+"; "+words, "; ")
}

// note is a line that begins with a painted word; what has no room goes below.
func note(b *strings.Builder, word, text string, s Style) {
	for n, l := range s.wrap(text, s.Width-columns(word)-1) {
		if n == 0 {
			fmt.Fprintf(b, "%s %s\n", s.yellow(word), l)
		} else {
			fmt.Fprintf(b, "%s %s\n", strings.Repeat(" ", columns(word)), l)
		}
	}
}

func reserved(b *strings.Builder, r *node.Reserved, s Style) {
	if r == nil {
		return
	}
	fmt.Fprintf(b, "%s  %s\n", s.bold("Reserved"), s.dim("policy "+r.Policy))
	var rows [][]string
	for _, x := range []struct {
		name string
		m    map[string]string
	}{{"kubeReserved", r.Kube}, {"systemReserved", r.System}, {"evictionHard", r.EvictionHard}, {"allocatable", r.Allocatable}} {
		if len(x.m) > 0 {
			rows = append(rows, []string{x.name, pairs(x.m)})
		}
	}
	if r.CPUs != "" {
		rows = append(rows, []string{"reservedSystemCPUs", r.CPUs})
	}
	if r.MaxPods > 0 {
		rows = append(rows, []string{"max pods", fmt.Sprint(r.MaxPods)})
	}
	for _, l := range s.table(rows, s.Width-2, nil) {
		fmt.Fprintf(b, "  %s\n", l)
	}
	b.WriteString("\n")
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+amount(k, m[k]))
	}
	return strings.Join(out, "  ")
}

var signs = map[string]string{"create": "+", "update": "~", "delete": "-", "restore": "<", "keep": "=", "none": " "}

func files(b *strings.Builder, v View, s Style) {
	if len(v.Plan.Changes)+len(v.Plan.Unjudged) == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n", s.bold("Files"))
	for _, c := range v.Plan.Changes {
		note := c.Action
		if c.Action == "none" {
			note = "no change"
		}
		if c.Why != "" {
			note += ": " + c.Why
		}
		isUnknown := c.Action == "update" && c.Old.Uncompared != ""
		if isUnknown {
			note = c.Why
		}
		if c.Drift != "" {
			note += "; drift: " + c.Drift
		}
		if len(c.File.Text.Secrets()) > 0 {
			note += " (sensitive)"
		}
		if follows := describeFollows(v.Plan, c); follows != "" {
			note += "; " + follows
		}
		sign := signs[c.Action]
		switch c.Action {
		case "create":
			sign = s.green(sign)
		case "delete":
			sign = s.red(sign)
		case "update", "restore":
			sign = s.yellow(sign)
		}
		if isUnknown {
			sign = s.yellow("?")
		}
		for n, l := range s.table([][]string{{c.File.Path, note}}, s.Width-4, s.dim) {
			if n > 0 {
				sign = " "
			}
			fmt.Fprintf(b, "  %s %s\n", sign, l)
		}
		diffOf(b, c, s)
	}
	for _, path := range v.Plan.Unjudged {
		sign := s.yellow("?")
		for _, l := range s.table([][]string{{path, "cannot be judged: it depends on what is unread"}}, s.Width-4, s.dim) {
			fmt.Fprintf(b, "  %s %s\n", sign, l)
			sign = " "
		}
	}
	b.WriteString("\n")
}

// describeFollows returns what follows a change of a file of the site, except the kubelet's restart; "" for nothing to
// say.
func describeFollows(p *boot.Plan, c boot.Change) string {
	if !c.Changes() || c.File.Purpose != "file" {
		return ""
	}
	out := "then " + strings.Join(c.Notifies, ", ")
	switch {
	case len(c.Notifies) == 0:
		out = "nothing is restarted for it"
	case len(c.Notifies) == 1 && c.Notifies[0] == p.Restart.Unit:
		out = ""
	}
	if c.Stays == "" {
		return out
	}

	return strings.TrimPrefix(out+"; "+c.Stays, "; ")
}

// diffOf shows what changes inside a file; of a new one the kubelet's own are told above, so only those of the site.
func diffOf(b *strings.Builder, c boot.Change, s Style) {
	if c.File.Kind != node.Regular || len(c.File.Text.Secrets()) > 0 || c.Old.Uncompared != "" || c.Action != "update" && (c.Action != "create" || c.File.Purpose == "ca") {
		return
	}
	if c.Old.Private {
		fmt.Fprintf(b, "      %s\n", s.dim("(readable by root only, or with a secret in it: not shown)"))
		return
	}
	n := 0
	for _, l := range lines(unified(s.clean(c.Old.Text), s.clean(c.File.Text.Template()))) {
		if n++; n > 60 {
			fmt.Fprintf(b, "      %s\n", s.dim("… (-o json has all of it)"))
			return
		}
		switch l[0] {
		case '+':
			l = s.green(l)
		case '-':
			l = s.red(l)
		}
		fmt.Fprintf(b, "      %s\n", l)
	}
}

func summary(b *strings.Builder, v View, s Style) {
	p := v.Plan
	count := map[string]int{}
	for _, c := range p.Changes {
		if c.Action == "update" && c.Old.Uncompared != "" {
			count["unknown"]++
			continue
		}
		count[c.Action]++
	}
	switch {
	case !v.Changes() && !p.Complete:
		fmt.Fprintf(b, "%s none of those that could be judged would change.", s.bold("Files:"))
	case !v.Changes():
		fmt.Fprintf(b, "%s", s.bold("No changes."))
		fmt.Fprintf(b, " Every file is as planned.")
	default:
		var parts []string
		for _, x := range [][2]string{{"create", "to create"}, {"update", "to update"}, {"delete", "to delete"}, {"restore", "to put back"}, {"unknown", "that cannot be compared"}} {
			if count[x[0]] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", count[x[0]], x[1]))
			}
		}
		fmt.Fprintf(b, "%s %s.", s.bold("Files:"), strings.Join(parts, ", "))
		for _, u := range p.Units {
			if len(u.Because) > 0 {
				fmt.Fprintf(b, " %s", describeUnit(u))
			}
		}
		if p.Restart.Needed {
			fmt.Fprintf(b, " %s would start anew.", p.Restart.Unit)
		}
	}
	b.WriteString("\n")
	if p.Hash != "" {
		fmt.Fprintf(b, "%s\n", s.dim("Plan "+p.Hash))
		return
	}
	incomplete := "The plan is not complete, and so has no hash"
	places := map[string]bool{}
	for _, u := range p.Unread {
		places[u.Where] = true
	}
	if n := len(places); n > 0 {
		incomplete += ": unread in " + Count(n, "place") + ", and what else would change cannot be told"
	}
	for _, l := range s.wrap(incomplete+".", s.Width) {
		fmt.Fprintf(b, "%s\n", s.yellow(l))
	}
}

// describeUnit returns what would happen with a unit, in one sentence.
func describeUnit(u boot.UnitChange) string {
	switch u.Action {
	case boot.ActionCreate:
		return "systemd-tmpfiles would create what they say."
	case "reload":
		return u.Unit.Unit + " would be reloaded."
	}

	return u.Unit.Unit + " would be restarted."
}

// from is where an item came from, in a few words.
func from(o []origin.Origin) string {
	for _, x := range o {
		if x.Range.Filename != "" {
			ref := x.Ref
			if x.Kind == origin.Base {
				ref = "base " + ref
			}
			return fmt.Sprintf("%s %s:%d", ref, short(x.Range.Filename), x.Range.Start.Line)
		}
	}
	if len(o) > 0 {
		return strings.TrimSpace(string(o[0].Kind) + " " + o[0].Ref)
	}
	return ""
}

func short(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[i+1:]
	}
	return p
}

func at(doc map[string]any, ptr string) (any, bool) {
	var v any = doc
	for _, k := range strings.Split(strings.TrimPrefix(ptr, "/"), "/") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(k)]; !ok {
			return nil, false
		}
	}
	return v, true
}

// brief is a value as JSON, cut to a width.
func (s Style) brief(v any, width int) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	width = max(width, 20)
	t := []rune(s.cell(string(b)))
	if len(t) > width {
		return string(t[:width-1]) + "…"
	}
	return string(t)
}

func describeAssumed(a boot.Assumed) string {
	what := map[string]string{"variable": "variable ", "object": "ConfigMap ", "ca": "cluster CA ", "kubelet": "kubelet "}[a.Kind]

	return fmt.Sprintf("%s%s from %s, instead of %s", what, a.Name, a.From, a.InsteadOf)
}

func describeUnread(u boot.Unread) string {
	where, why := u.Where, "which this recording does not hold"
	if where == "" {
		where = "the plan"
	}
	if u.IsDenied {
		why = "which this user may not read"
	}

	return fmt.Sprintf("%s depends on %s, %s", where, u.Question, why)
}

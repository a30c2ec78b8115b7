package printer

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// FactsDocument returns the document of `detect -o json`.
func FactsDocument(found evaluate.Detected, ds hcl.Diagnostics) any {
	var m map[string]any
	if json.Unmarshal(found.Raw, &m) != nil {
		m = map[string]any{}
	}
	gpus := []tape.Accelerator{}
	for _, a := range found.Facts.Accelerators {
		if a.Kind == "gpu" {
			gpus = append(gpus, a)
		}
	}
	m["gpus"] = gpus
	if len(found.Detectors) > 0 {
		m["detectors"] = found.Detectors
	}

	return struct {
		FormatVersion int            `json:"format_version"`
		Facts         any            `json:"facts"`
		Degraded      []fault.Reason `json:"degraded"`
		Diagnostics   []Diagnostic   `json:"diagnostics"`
	}{1, m, orEmpty(found.Degraded), DiagnosticsJSON(Sorted(ds))}
}

// Count returns a number of things in words.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}

	return fmt.Sprint(n, " ", noun)
}

// textOf returns a fact as text, without control characters of firmware and drivers; "" if it is nil.
func textOf(v any) string {
	if v := reflect.Indirect(reflect.ValueOf(v)); v.IsValid() {
		return maskControls(fmt.Sprint(v))
	}

	return ""
}

// FactsText writes the output of `detect` for people: the machine in a few lines, its devices by model, and the unknown
// facts with their reasons.
func FactsText(w io.Writer, f tape.Facts, s Style) error {
	return s.render(w, "detect", f, template.FuncMap{
		"groups":  func(name string) ([]group, error) { return groupDevices(f, name) },
		"layout":  s.layoutGroups,
		"reasons": reasons,
		"rows":    func(name string) ([][]string, error) { return factRows(f, name) },
	})
}

// factRows returns facts as rows of cells, by a template of views/facts.tmpl. Rows of two cells without the second are
// left out.
func factRows(f tape.Facts, name string) (rows [][]string, err error) {
	t, err := template.New(name).Funcs(factFuncs).ParseFS(views, "views/facts.tmpl")
	if err != nil {
		return nil, err
	}
	for _, part := range t.Templates() {
		passActions(part.Tree.Root, "text")
	}
	var out strings.Builder
	if err := t.ExecuteTemplate(&out, name, f); err != nil {
		return nil, err
	}

	for line := range strings.Lines(out.String()) {
		var row []string
		for cell := range strings.SplitSeq(line, "\t") {
			row = append(row, strings.TrimSpace(cell))
		}
		if len(row) != 2 || row[1] != "" {
			rows = append(rows, row)
		}
	}

	return rows, nil
}

var factFuncs = template.FuncMap{
	"count":     Count,
	"hugePages": hugePages,
	"kinds":     coreKinds,
	"less":      isLess,
	"list":      listFacts,
	"prefixed":  prefixed,
	"product":   productName,
	"ranges":    ranges,
	"size":      memory,
	"sockets":   countSockets,
	"text":      textOf,
	"virtual":   virtualization,
}

// listFacts returns the known ones of some facts.
func listFacts(facts ...any) string {
	var parts []string
	for _, f := range facts {
		parts = append(parts, strings.TrimSpace(textOf(f)))
	}

	return joinParts(", ", parts...)
}

func prefixed(prefix string, fact any) string {
	if text := textOf(fact); text != "" {
		return prefix + text
	}

	return ""
}

// isLess compares two numbers; false if one of them is not known.
func isLess(fact, limit any) bool { return toNumber(fact) < toNumber(limit) }

// toNumber returns a number, which may be behind a pointer; NaN for nil.
func toNumber(fact any) float64 {
	n, err := strconv.ParseFloat(textOf(fact), 64)
	if err != nil {
		return math.NaN()
	}

	return n
}

func productName(p tape.Product) string {
	vendor := textOf(p.Vendor)
	name := textOf(p.Name)
	if strings.HasPrefix(name, vendor) { // some repeat themselves
		return name
	}
	return strings.TrimSpace(vendor + " " + name)
}

func virtualization(v *string) string {
	switch text := textOf(v); text {
	case "":
		return ""
	case "none":
		return "bare metal"
	default:
		return "virtual machine (" + text + ")"
	}
}

func countSockets(c tape.CPU) int {
	sockets := map[int]bool{}
	for _, core := range c.Cores {
		if core.Package != nil {
			sockets[*core.Package] = true
		}
	}

	return len(sockets)
}

// coreKinds returns how many cores there are of each kind; "" where all are alike.
func coreKinds(c tape.CPU) string {
	count := map[string]int{}
	for _, core := range c.Cores {
		count[textOf(core.Kind)]++
	}

	var parts []string
	for _, kind := range []string{"performance", "efficient", "low-power"} {
		if n := count[kind]; n > 0 && n < len(c.Cores) {
			parts = append(parts, fmt.Sprint(n, " ", kind))
		}
	}

	return strings.Join(parts, ", ")
}

func memory(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", float64(*bytes)/(1<<30))
}

func hugePages(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			out = append(out, fmt.Sprintf("%d × %s", m[k], k))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "huge pages " + strings.Join(out, " and ")
}

// ranges returns numbers as the kernel writes them: 0-3,8.
func ranges(list []int) string { return cpuset.New(list...).String() }

// minRepeats is how often a fact must be unknown for the same reason to be counted instead of listed.
const minRepeats = 3

// device matches the device in the name of a fact: nics[0000:18:00.0].infiniband[mlx5_0/1].state.
var device = texts.LazyRegexp(`\[([^\]]+)\]`)

// withoutDevices returns an unknown fact with * for each device, also in its reason.
func withoutDevices(u tape.UnknownFact) tape.UnknownFact {
	for _, match := range device().FindAllStringSubmatch(u.Fact, -1) {
		u.Why = strings.ReplaceAll(u.Why, match[1], "*")
	}
	u.Fact = device().ReplaceAllString(u.Fact, "[*]")

	return u
}

// reasons returns rows of unknown facts with their reason: facts with the same reason are in one row. isFailed chooses
// those that should have been readable.
func reasons(us []tape.UnknownFact, isFailed bool) (rows [][]string) {
	us = slices.DeleteFunc(slices.Clone(us), func(u tape.UnknownFact) bool { return u.Degraded != isFailed })
	repeats := map[tape.UnknownFact]int{}
	for _, u := range us {
		repeats[withoutDevices(u)]++
	}

	facts := map[tape.UnknownFact][]string{} // by reason, without the fact
	var order []tape.UnknownFact
	for _, u := range us {
		general := withoutDevices(u)
		n := repeats[general]
		if n == 0 {
			continue // counted before
		}
		if n >= minRepeats {
			repeats[general] = 0
			u = general
			u.Fact = fmt.Sprintf("%s (%d times)", u.Fact, n)
		}
		fact := u.Fact
		u.Fact = ""
		if facts[u] == nil {
			order = append(order, u)
		}
		facts[u] = append(facts[u], fact)
	}

	for _, reason := range order {
		names := strings.Join(shortenNames(facts[reason]), ", ")
		rows = append(rows, []string{maskControls(names), maskControls(reason.Why)})
	}

	return rows
}

// shortenNames writes os.id, os.name as os.{id,name}.
func shortenNames(facts []string) (out []string) {
	for len(facts) > 0 {
		object, _, hasObject := strings.Cut(facts[0], ".")
		isPlain := hasObject && !strings.Contains(object, "[")
		n := 1
		for isPlain && n < len(facts) && strings.HasPrefix(facts[n], object+".") {
			n++
		}
		name := facts[0]
		if n > 1 {
			var fields []string
			for _, fact := range facts[:n] {
				fields = append(fields, strings.TrimPrefix(fact, object+"."))
			}
			name = object + ".{" + strings.Join(fields, ",") + "}"
		}
		out = append(out, name)
		facts = facts[n:]
	}

	return out
}

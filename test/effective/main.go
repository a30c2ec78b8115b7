// Command effective compares the configuration in the log of a real kubelet with the configuration that prelet computes
// for it:
//
//	effective KUBELET-VERSION LOG
//
// It plans the site in /etc/prelet on this node, and prints a line for each field that differs.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/fleets"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

func main() {
	lines, err := compare(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	for _, line := range lines {
		fmt.Println(line)
	}
}

func compare(version, log string) (lines []string, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	running, err := kubelet.ParseLoggedConfig(strings.Split(string(text), "\n"))
	if err == nil && running == nil {
		err = errors.New("the kubelet has not logged its configuration")
	}
	if err != nil {
		return nil, err
	}

	e := &machine.Env{Version: "test", Getenv: os.Getenv, Redactor: secret.NewRedactor(), Say: func(string) {}}
	request := lab.Request{Where: machine.Where{Config: []string{"/etc/prelet"}}, KubeletVersion: version}
	options := fleets.PlanOptions{Request: request}
	_, err = fleets.Plan(context.Background(), e, options, func(p planning.Planned) error {
		if p.Plan.Node.Effective == nil {
			return errors.New("the plan has no effective configuration")
		}
		if p.Plan.Node.Inherited.Partly {
			return errors.New("the plan does not know all flags")
		}
		lines = listDifferences(p.Plan, running, version)

		return nil
	})

	return lines, err
}

// listDifferences compares both ways: the computed with the running configuration, and the running one with the
// defaults.
func listDifferences(p *evaluate.Plan, running map[string]any, version string) (lines []string) {
	computed := kubelet.WithoutSecrets(p.Node.Effective)
	if f, isPlanned := p.Node.FindPurpose("kubelet-config"); isPlanned {
		computed = kubelet.ResolvePaths(computed, p.Node.Config, path.Dir(f.Path))
	}
	if p.Node.TaintFlag {
		var taints []any
		for _, t := range p.Node.Taints {
			taints = append(taints, map[string]any{"key": t.Key, "value": t.Value, "effect": t.Effect})
		}
		computed["registerWithTaints"] = taints
	}
	// The drift that a boot reports.
	for _, difference := range kubelet.ConfigDifferences(computed, running) {
		lines = append(lines, "drift: "+difference)
	}

	minor, _ := known.Minor(version)
	want, got := map[string]any{}, map[string]any{}
	addLeaves(want, nil, computed)
	addLeaves(got, nil, kubelet.WithoutSecrets(running))
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !slices.ContainsFunc(listAllowed(p, minor, field, want[field]), func(allowed any) bool {
			return isSame(allowed, got[field])
		}) {
			lines = append(lines, fmt.Sprintf("%s: computed %v, default %v, is %v", field, want[field],
				defaultOf(p, minor, field), got[field]))
		}
	}

	return lines
}

// listAllowed returns the values that a field may have for a computed one: none and zero select the default.
func listAllowed(p *evaluate.Plan, minor int, field string, computed any) []any {
	switch {
	case isZero(computed) && field == reportFrequency && p.Node.FindPath("config-dir") != "":
		// A drop-in may set it to null, after the defaults of the file: then it is that of the update.
		return []any{computed, defaultOf(p, minor, field), "10s"}
	case isZero(computed):
		return []any{computed, defaultOf(p, minor, field)}
	}

	return []any{computed}
}

const reportFrequency = "nodeStatusReportFrequency"

// otherDefaults are those that prelet does not compute.
//
// Source: pkg/kubelet/apis/config/v1beta1/defaults.go.
func otherDefaults(p *evaluate.Plan) map[string]any {
	defaults := map[string]any{
		"enforceNodeAllocatable": []any{"pods"},
		"logging.flushFrequency": "5s",
		"logging.format":         "text",
		reportFrequency:          p.Node.Config["nodeStatusUpdateFrequency"], // of the file
		"podPidsLimit":           -1,
	}
	_, isOfFile := p.Node.Config[reportFrequency]
	switch zero, isSet := p.Node.Effective[reportFrequency]; {
	case isSet && isZero(zero) && !isOfFile: // of a drop-in, after the defaults of the file
		defaults[reportFrequency] = cmp.Or(p.Node.Effective["nodeStatusUpdateFrequency"], any("10s"))
	case isZero(defaults[reportFrequency]):
		defaults[reportFrequency] = "5m"
	}

	return defaults
}

// defaultOf returns the default of a field; nil: none.
func defaultOf(p *evaluate.Plan, minor int, field string) any {
	defaults, _ := rules.Defaults(p.Node.Effective, minor, nil, nil)
	if text, isKnown := defaults[field]; isKnown {
		return text
	}
	preset, isKnown := kubelet.FieldDefault(field, "1."+strconv.Itoa(minor))
	if isKnown && !strings.HasPrefix(field, "evictionHard.") { // its defaults count only if all of it is missing
		return preset
	}

	return otherDefaults(p)[field]
}

// addLeaves adds the values of an object that are not objects, by the names of the fields.
func addLeaves(to map[string]any, at []string, v any) {
	object, isObject := v.(map[string]any)
	for name, inner := range object {
		addLeaves(to, append(slices.Clone(at), name), inner)
	}
	if !isObject {
		to[strings.Join(at, ".")] = v
	}
}

// isSame reports whether two values mean the same: it compares both ways, as a boot does one way.
func isSame(a, b any) bool {
	if isZero(a) || isZero(b) {
		return isZero(a) && isZero(b)
	}

	return len(kubelet.ConfigDifferences(map[string]any{"x": a}, map[string]any{"x": b})) == 0
}

func isZero(v any) bool {
	return slices.Contains([]string{"<nil>", "false", "0", "0s", "", "[]", "map[]"}, fmt.Sprint(v))
}

package rules

import (
	"strconv"
	"strings"
)

const maxNUMANodes = "max-allowable-numa-nodes"

// policyOption is an option of a policy: the minor version that added it, and those that made it beta and stable; 0:
// none yet.
type policyOption struct {
	name                string
	since, beta, stable int
}

var policyOptions = map[string][]policyOption{
	"CPU Manager": {
		{"full-pcpus-only", 22, 23, 33},
		{"distribute-cpus-across-numa", 23, 33, 0},
		{"align-by-socket", 25, 0, 0},
		{"distribute-cpus-across-cores", 31, 0, 0},
		{"strict-cpu-reservation", 32, 33, 35},
		{"prefer-align-cpus-by-uncorecache", 32, 34, 36},
	},
	"Topology Manager": {
		{"prefer-closest-numa-nodes", 26, 28, 32},
		{maxNUMANodes, 31, 31, 35},
	},
}

// excludes reports whether an option of the static CPU policy and another one, which exclude each other, are on.
func (v value) excludes(other string) bool {
	text, _ := v.lookUp("cpuManagerPolicyOptions", other).(string)

	return v.textOf("cpuManagerPolicy") == "static" && isOnText(v.text()) && isOnText(text) && v.because(
		"keep one of the two", "static policy options {key} and %s can not be used at the same time", other)
}

func isOnText(text string) bool {
	isOn, _ := strconv.ParseBool(text)

	return isOn
}

// isBadOption reports an option that the version does not have or enable, or that is not a boolean.
func (v value) isBadOption(manager string) bool {
	var names []string
	for _, o := range policyOptions[manager] {
		names = append(names, o.name)
		if o.name != v.key() || v.minor < o.since {
			continue
		}
		stage := o.stageIn(v.minor)
		gate := strings.ReplaceAll(manager, " ", "") + "Policy" + stage + "Options"
		if stage != "" && !v.isGateOn(gate) {
			return v.because("set the feature gate "+gate,
				"%s Policy %s-level Options not enabled, but option %q provided", manager, stage, o.name)
		}
		_, err := strconv.ParseBool(v.text())

		return err != nil && o.name != maxNUMANodes &&
			v.because(`write "true" or "false"`, "bad value for option %q: %s", o.name, err)
	}

	return v.because(suggest(v.key(), names), `unknown %s Policy option: "{key}"`, manager)
}

// stageIn returns Alpha, Beta, or "" for a stable option.
func (o policyOption) stageIn(minor int) string {
	switch {
	case o.stable > 0 && minor >= o.stable:
		return ""
	case o.beta > 0 && minor >= o.beta:
		return "Beta"
	}

	return "Alpha"
}

func isBadNUMALimit(v value) bool {
	n, err := strconv.Atoi(v.text())
	switch {
	case err != nil:
		return v.because("write a number", "unable to convert policy option to integer %q: %s", maxNUMANodes, err)
	case n < 8:
		return v.because("", "the minimum value of %q should not be less than 8", maxNUMANodes)
	}

	return false
}

func allowsFewPods(v value) bool {
	perCore, _ := v.number()
	cpus := int64(len(v.Machine.CPUs))
	pods := v.positiveOf("maxPods")
	limit := perCore * cpus

	return limit > 0 && limit < pods && v.because("", "%d pods for each of the %d CPUs allow %d pods, so the kubelet "+
		"silently never reaches maxPods %d", perCore, cpus, limit, pods)
}

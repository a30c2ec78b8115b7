package reserve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/stages"
)

// fillThresholds returns the thresholds that the policy adds to evictionHard. config is the base with all additions
// of the site. If evictionHard is set, the kubelet uses no defaults for missing thresholds, so a policy that changes
// one threshold sets all: policy over base over the kubelet's defaults. Thresholds that the site sets itself win.
//
// Each threshold is a setting of its own: only a changed one has the policy as its origin, and two stages conflict
// over one threshold and not over the whole object.
func (d *decision) fillThresholds(config map[string]any) (out []desired.Setting) {
	c := kubelet.NewConfig()
	if c.Merge(config) != nil {
		return nil // rendering reports the error
	}

	const merge = "mergeDefaultEvictionSettings"
	if d.in.Base.Config[merge] != true {
		_ = c.Set([]string{merge}, nil) // the site's has no effect in a drop-in
	}

	effective := kubelet.EffectiveEvictionHard(c, d.in.Kubelet.KnownVersion())

	var steps []origin.Origin
	for _, signal := range slices.Sorted(maps.Keys(d.thresholds)) {
		old, ok := effective[signal]
		if !ok || !isSameThreshold(old, d.thresholds[signal]) {
			steps = append(steps, d.step(fmt.Sprintf("%s<%s", signal, d.thresholds[signal])))
		}
	}
	if len(steps) == 0 {
		return nil
	}

	present := stages.Amounts(c.Object(), fieldHard)
	all := kubelet.DefaultEvictionHard()
	maps.Copy(all, present)
	maps.Copy(all, d.thresholds)

	from := slices.Concat(d.req.site, steps)
	for _, signal := range slices.Sorted(maps.Keys(all)) {
		if old, ok := present[signal]; !ok || old != all[signal] {
			path := []string{fieldHard, signal}
			out = append(out, desired.Setting{
				Path:    path,
				Value:   all[signal],
				Origins: from,
			})
		}
	}

	return out
}

// thresholdBytes returns a threshold of memory in bytes. A percentage is computed as the kubelet does, in single and
// double precision (pkg/kubelet/eviction, parsePercentage and GetThresholdQuantity), because the memory manager
// compares sums to the byte. 0% and 100% disable a threshold.
func thresholdBytes(text string, capacity int64) (int64, error) {
	if kubelet.IsThresholdOff(text) {
		return 0, nil
	}

	part, isPercent, err := kubelet.ParsePercentage(text)
	switch {
	case !isPercent:
		return parseQuantity(memory, text)
	case err != nil || !(part >= 0 && part <= 1): // NaN is neither
		return 0, fmt.Errorf("%q is not a percentage from 0%% to 100%%", text)
	}

	return int64(float64(capacity) * float64(part)), nil
}

// isSameThreshold compares values: 100Mi and 104857600 are the same threshold.
func isSameThreshold(a, b string) bool {
	if a == b {
		return true
	}
	p, errA := kubelet.ParseQuantity(a)
	q, errB := kubelet.ParseQuantity(b)

	return errA == nil && errB == nil && p.Cmp(q) == 0
}

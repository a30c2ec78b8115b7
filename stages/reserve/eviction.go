package reserve

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
)

// evict decides evictionHard. Where it is set at all the kubelet takes no default for what is missing in it, so a
// policy that changes one threshold sets all: policy over base over the kubelet's defaults.
func (d *decision) evict() hcl.Diagnostics {
	d.eviction = kubelet.EffectiveEvictionHard(d.config)
	changes := false
	for _, signal := range slices.Sorted(maps.Keys(d.thresholds)) {
		old, ok := d.eviction[signal]
		if !ok || !sameThreshold(old, d.thresholds[signal]) {
			changes = true
			d.steps["eviction"] = append(d.steps["eviction"], step{text: fmt.Sprintf("%s<%s", signal, d.thresholds[signal])})
		}
	}
	if changes {
		base := d.strings("evictionHard")
		d.eviction = kubelet.DefaultEvictionHard()
		maps.Copy(d.eviction, base)
		maps.Copy(d.eviction, d.thresholds)
		for _, signal := range slices.Sorted(maps.Keys(d.eviction)) {
			if old, ok := base[signal]; !ok || old != d.eviction[signal] {
				d.evictionSet = append(d.evictionSet, signal)
			}
		}
	}
	n, err := thresholdBytes(d.eviction["memory.available"], d.capacity)
	if err != nil {
		return d.baseFault("evictionHard: memory.available: " + err.Error())
	}
	d.evictionMemory = n
	return nil
}

// thresholdBytes is a threshold of memory in bytes. A percentage is computed as the kubelet does, in single and double
// precision (pkg/kubelet/eviction, parsePercentage and GetThresholdQuantity), because the memory manager compares
// sums to the byte. 0% and 100% switch a threshold off there.
func thresholdBytes(text string, capacity int64) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.ParseFloat(digits, 32)
		if err != nil || !(n >= 0 && n <= 100) { // NaN is neither
			return 0, fmt.Errorf("%q is no percentage from 0%% to 100%%", text)
		}
		if text == "0%" || text == "100%" {
			return 0, nil
		}
		return int64(float64(capacity) * float64(float32(n)/100)), nil
	}
	return parseQuantity(memory, text)
}

// sameThreshold compares what is meant: 100Mi and 104857600 are one threshold.
func sameThreshold(a, b string) bool {
	if a == b {
		return true
	}
	p, errA := resource.ParseQuantity(a)
	q, errB := resource.ParseQuantity(b)
	return errA == nil && errB == nil && p.Cmp(q) == 0
}

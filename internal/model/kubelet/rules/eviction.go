package rules

import (
	"math"

	"github.com/prelet/prelet/internal/model/kubelet"
)

const percentHint = "write a number and %, like 10%"

func isUnknownSignal(v value) bool { return v.isOther(v.key(), kubelet.EvictionSignals()) }

func lacksThreshold(v value) bool { return v.lookUp("evictionSoft", v.key()) == nil }

// isBadThreshold reports a threshold, or a minimum reclaim, that is out of its range.
func isBadThreshold(v value) bool {
	part, isPercent, err := kubelet.ParsePercentage(v.text())
	amount, amountErr := kubelet.ParseQuantity(v.text())
	isReclaim := v.path[0] == "evictionMinimumReclaim"
	// The kubelet accepts NaN as a threshold. As a reservation it is the least integer, which overflows when it is
	// subtracted, unless something else is reserved.
	resource := map[string]string{"memory.available": "memory", "nodefs.available": "ephemeral-storage"}[v.key()]
	isAlone := v.lookUp("systemReserved", resource) == nil && v.lookUp("kubeReserved", resource) == nil
	isReserved := resource != "" && v.path[0] == "evictionHard" && isAlone
	switch {
	case !isSignal(v):
	case isReclaim && !isPercent:
		return amountErr == nil && amount.Sign() < 0 &&
			v.because("", "negative eviction minimum reclaim specified for {key}")
	case !isPercent:
		return amountErr == nil && amount.Sign() <= 0 && v.because("to disable a threshold write 0%",
			"eviction threshold {key} must be positive: {value}")
	case err != nil:
		return v.because(percentHint, "%s", err)
	case isReclaim:
		return part <= 0 && v.because("", "eviction percentage minimum reclaim {key} must be positive: {value}")
	case math.IsNaN(float64(part)) && isReserved:
		return v.because(percentHint, "invalid Node Allocatable configuration: {value} of {key} is not a number")
	case part < 0:
		return v.because("", "eviction percentage threshold {key} must be >= 0%%: {value}")
	case part > 1:
		return v.because("", "eviction percentage threshold {key} must be <= 100%%: {value}")
	}

	return false
}

func lacksGracePeriod(v value) bool {
	isOff := v.text() == "0%" || v.text() == "100%"

	return !isOff && v.lookUp("evictionSoftGracePeriod", v.key()) == nil
}

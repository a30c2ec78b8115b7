package rules

import (
	"math"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/quantity"
)

const (
	evictionSource = "pkg/kubelet/eviction/helpers.go"
	percentHint    = "write a number and %, like 10%"
)

// evictionRules returns the rules about eviction thresholds.
func evictionRules() []Rule {
	return []Rule{
		lists(exits("config-unknown-signal", 0, "an unknown eviction signal", evictionSource,
			at("evictionHard.* evictionSoft.* evictionSoftGracePeriod.* evictionMinimumReclaim.*",
				func(v value) bool { return v.isOther(v.key(), kubelet.EvictionSignals()) }, "",
				"unsupported eviction signal {key}"))),

		exits("config-bad-threshold", 0, "a threshold or reclaim that is not a positive amount, or is above 100%",
			evictionSource,
			at("evictionHard.* evictionSoft.*", isBadThreshold, "", ""),
			at("evictionMinimumReclaim.*", isBadReclaim, "", "")),

		exits("config-soft-without-grace", 0, "a soft threshold without a grace period", evictionSource,
			at("evictionSoft.*", lacksGracePeriod, "add evictionSoftGracePeriod: {{key}: 1m30s}",
				"grace period must be specified for the soft eviction threshold {key}")),

		ignores("config-grace-without-soft", 0, "a grace period without a soft threshold", evictionSource,
			at("evictionSoftGracePeriod.*",
				func(v value) bool { return isSignal(v) && v.lookUp("evictionSoft", v.key()) == nil },
				"add {key} to evictionSoft, or remove it",
				"{key} has no soft threshold, so its grace period has no effect")),
	}
}

func isBadThreshold(v value) bool {
	part, isPercent, err := kubelet.ParsePercentage(v.text())
	amount, amountErr := quantity.Parse(v.text())
	// The kubelet accepts NaN as a threshold, and rejects it as a reservation.
	isResource := v.key() == "memory.available" || v.key() == "nodefs.available"
	isReserved := isResource && v.path[0] == "evictionHard"
	switch {
	case !isSignal(v):
	case !isPercent:
		return amountErr == nil && amount.Sign() <= 0 && v.because("to disable a threshold write 0%",
			"eviction threshold {key} must be positive: {value}")
	case err != nil:
		return v.because(percentHint, "%s", err)
	case math.IsNaN(float64(part)) && isReserved:
		return v.because(percentHint, "invalid Node Allocatable configuration: {value} of {key} is not a number")
	case part < 0:
		return v.because("", "eviction percentage threshold {key} must be >= 0%%: {value}")
	case part > 1:
		return v.because("", "eviction percentage threshold {key} must be <= 100%%: {value}")
	}

	return false
}

func isBadReclaim(v value) bool {
	part, isPercent, err := kubelet.ParsePercentage(v.text())
	amount, amountErr := quantity.Parse(v.text())
	switch {
	case !isSignal(v):
	case err != nil:
		return v.because(percentHint, "%s", err)
	case isPercent && part <= 0:
		return v.because("", "eviction percentage minimum reclaim {key} must be positive: {value}")
	case !isPercent && amountErr == nil && amount.Sign() < 0:
		return v.because("", "negative eviction minimum reclaim specified for {key}")
	}

	return false
}

func lacksGracePeriod(v value) bool {
	isOff := v.text() == "0%" || v.text() == "100%"

	return !isOff && v.lookUp("evictionSoftGracePeriod", v.key()) == nil
}

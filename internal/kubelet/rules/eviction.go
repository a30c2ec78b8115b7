package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

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
		{
			ID:      "config-unknown-signal",
			Lists:   true,
			Summary: "an unknown eviction signal",
			Source:  evictionSource,
			check:   checkSignals,
		},
		{
			ID:      "config-bad-threshold",
			Summary: "a threshold or reclaim that is not a positive amount, or is above 100%",
			Source:  evictionSource,
			check:   checkThresholds,
		},
		{
			ID:      "config-soft-without-grace",
			Summary: "a soft threshold without a grace period",
			Source:  evictionSource,
			check:   checkSoftThresholds,
		},
		{
			ID:      "config-grace-without-soft",
			Summary: "a grace period without a soft threshold",
			Effect:  Ignores,
			Source:  evictionSource,
			check:   checkUnusedGracePeriods,
		},
	}
}

func checkSignals(c *checker) {
	fields := []string{
		"evictionHard",
		"evictionSoft",
		"evictionSoftGracePeriod",
		"evictionMinimumReclaim",
	}
	signals := kubelet.EvictionSignals()
	for _, field := range fields {
		for _, name := range sortedKeys(c.mapAt(field)) {
			if !slices.Contains(signals, name) {
				c.reportMember(field, name, suggest(name, signals), "unsupported eviction signal %s", name)
			}
		}
	}
}

// forEachSignal calls a function for each member of a field whose signal is valid.
func (c *checker) forEachSignal(field string, do func(path []string, signal, value string)) {
	members := c.mapAt(field)
	for _, signal := range sortedKeys(members) {
		if slices.Contains(kubelet.EvictionSignals(), signal) {
			do([]string{field, signal}, signal, members[signal])
		}
	}
}

func checkThresholds(c *checker) {
	c.forEachSignal("evictionHard", c.checkThreshold)
	c.forEachSignal("evictionSoft", c.checkThreshold)
	c.forEachSignal("evictionMinimumReclaim", c.checkReclaim)
}

func (c *checker) checkThreshold(path []string, signal, value string) {
	part, isPercent, err := kubelet.ParsePercentage(value)
	if !isPercent {
		amount, err := quantity.Parse(value)
		if err == nil && amount.Sign() <= 0 {
			c.reportAt(path, "to disable a threshold write 0%",
				"eviction threshold %s must be positive: %s", signal, value)
		}

		return
	}

	// The kubelet accepts NaN as a threshold, and rejects it as a reservation.
	isNaN := math.IsNaN(float64(part))
	isOfResource := signal == "memory.available" || signal == "nodefs.available"
	isReserved := isOfResource && path[0] == "evictionHard"
	switch {
	case err != nil:
		c.reportAt(path, percentHint, "%s", err)
	case isNaN && isReserved:
		c.reportAt(path, percentHint,
			"invalid Node Allocatable configuration: %s of %s is not a number", value, signal)
	case part < 0:
		c.reportAt(path, "", "eviction percentage threshold %s must be >= 0%%: %s", signal, value)
	case part > 1:
		c.reportAt(path, "", "eviction percentage threshold %s must be <= 100%%: %s", signal, value)
	}
}

func (c *checker) checkReclaim(path []string, signal, value string) {
	part, isPercent, err := kubelet.ParsePercentage(value)
	amount, amountErr := quantity.Parse(value)
	switch {
	case err != nil:
		c.reportAt(path, percentHint, "%s", err)
	case isPercent && part <= 0:
		c.reportAt(path, "", "eviction percentage minimum reclaim %s must be positive: %s", signal, value)
	case !isPercent && amountErr == nil && amount.Sign() < 0:
		c.reportAt(path, "", "negative eviction minimum reclaim specified for %s", signal)
	}
}

func checkThresholdQuantities(c *checker) {
	for _, field := range []string{"evictionHard", "evictionSoft", "evictionMinimumReclaim"} {
		c.forEachSignal(field, func(path []string, _, value string) {
			_, err := quantity.Parse(value)
			if err != nil && !strings.HasSuffix(value, "%") {
				c.reportAt(path, quantityHint, "failed to parse quantity %q: %s", value, err)
			}
		})
	}
}

func checkGracePeriods(c *checker) {
	c.forEachSignal("evictionSoftGracePeriod", func(path []string, _, value string) {
		period, err := time.ParseDuration(value)
		switch {
		case err != nil:
			c.reportAt(path, durationHint, "%s", err)
		case period < 0:
			c.reportAt(path, "", "invalid eviction grace period specified: %s, must be a positive value",
				value)
		}
	})
}

func checkSoftThresholds(c *checker) {
	soft := c.mapAt("evictionSoft")
	for _, signal := range sortedKeys(soft) {
		c.startFinding()
		_, hasGrace := c.memberAt("evictionSoftGracePeriod", signal)
		isOff := soft[signal] == "0%" || soft[signal] == "100%"
		if !hasGrace && !isOff {
			c.reportMember("evictionSoft", signal,
				fmt.Sprintf("add evictionSoftGracePeriod: {%s: 1m30s}", signal),
				"grace period must be specified for the soft eviction threshold %s", signal)
		}
	}
}

func checkUnusedGracePeriods(c *checker) {
	c.forEachSignal("evictionSoftGracePeriod", func(path []string, signal, _ string) {
		c.startFinding()
		if _, hasThreshold := c.memberAt("evictionSoft", signal); !hasThreshold {
			c.reportAt(path, "add "+signal+" to evictionSoft, or remove it",
				"%s has no soft threshold, so its grace period has no effect", signal)
		}
	})
}

package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
)

const percentHint = "write a number and %, like 10%"

const evictionSource = "pkg/kubelet/eviction/helpers.go"

// evictionRules mind thresholds. What is wrong with a signal is told once, where a value of it would be.
func evictionRules() []Rule {
	fields := []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"}
	return []Rule{
		{ID: "config-unknown-signal", Minds: "an eviction signal that there is not", Does: Exits, Severity: Error, Alone: true, Source: evictionSource, check: func(l *look) {
			for _, field := range fields {
				for _, name := range sorted(l.stringMap(field)) {
					if !slices.Contains(kubelet.EvictionSignals(), name) {
						l.at([]string{field, name}, choose(name, kubelet.EvictionSignals()), "unsupported eviction signal %s", name)
					}
				}
			}
		}},
		{ID: "config-bad-threshold", Minds: "a threshold or reclaim that is no positive amount, or above 100%", Does: Exits, Severity: Error, Alone: true, Source: evictionSource, check: func(l *look) {
			l.thresholds("evictionHard")
			l.thresholds("evictionSoft")
			l.reclaim()
		}},
		{ID: badQuantity, Minds: "a malformed or negative quantity", Does: Exits, Severity: Error, Alone: true, Source: evictionSource, check: func(l *look) {
			for _, field := range []string{"evictionHard", "evictionSoft", "evictionMinimumReclaim"} {
				values := l.stringMap(field)
				for _, name := range sorted(values) {
					if _, err := resource.ParseQuantity(values[name]); err != nil && !strings.HasSuffix(values[name], "%") && slices.Contains(kubelet.EvictionSignals(), name) {
						l.at([]string{field, name}, quantityHint, "failed to parse quantity %q: %s", values[name], err)
					}
				}
			}
		}},
		{ID: badDuration, Minds: "a malformed or negative duration", Does: Exits, Severity: Error, Alone: true, Source: evictionSource, check: func(l *look) {
			periods := l.stringMap("evictionSoftGracePeriod")
			for _, name := range sorted(periods) {
				path := []string{"evictionSoftGracePeriod", name}
				switch d, err := time.ParseDuration(periods[name]); {
				case !slices.Contains(kubelet.EvictionSignals(), name):
				case err != nil:
					l.at(path, "write a number and a unit, like 90s, 1m30s or 4h", "%s", err)
				case d < 0:
					l.at(path, "", "invalid eviction grace period specified: %s, must be a positive value", periods[name])
				}
			}
		}},
		{ID: "config-soft-without-grace", Minds: "a soft threshold without a grace period", Does: Exits, Severity: Error, Source: evictionSource, check: func(l *look) {
			soft := l.stringMap("evictionSoft")
			for _, name := range sorted(soft) {
				l.fresh()
				if _, ok := l.entry("evictionSoftGracePeriod", name); !ok && soft[name] != "0%" && soft[name] != "100%" {
					l.at([]string{"evictionSoft", name}, fmt.Sprintf("add evictionSoftGracePeriod: {%s: 1m30s}", name),
						"grace period must be specified for the soft eviction threshold %s", name)
				}
			}
		}},
		{ID: "config-grace-without-soft", Minds: "a grace period without a soft threshold", Does: Swallows, Severity: Warning, Source: evictionSource, check: func(l *look) {
			for _, name := range sorted(l.stringMap("evictionSoftGracePeriod")) {
				l.fresh()
				if _, ok := l.entry("evictionSoft", name); !ok && slices.Contains(kubelet.EvictionSignals(), name) {
					l.at([]string{"evictionSoftGracePeriod", name}, "add "+name+" to evictionSoft, or take it out", "there is no soft threshold for %s, so its grace period has no effect", name)
				}
			}
		}},
	}
}

func (l *look) thresholds(field string) {
	statements := l.stringMap(field)
	for _, name := range sorted(statements) {
		path, value := []string{field, name}, statements[name]
		if !slices.Contains(kubelet.EvictionSignals(), name) {
			continue
		}
		if part, ok, err := kubelet.ParsePercentage(value); ok {
			switch {
			case err != nil:
				l.at(path, percentHint, "%s", err)
			case part != part: // NaN, which the kubelet compares with nothing, and which reserves more than there is
				if field == "evictionHard" && (name == "memory.available" || name == "nodefs.available") {
					l.at(path, percentHint, "invalid Node Allocatable configuration: %s of %s is no number", value, name)
				}
			case part < 0:
				l.at(path, "", "eviction percentage threshold %s must be >= 0%%: %s", name, value)
			case part > 1:
				l.at(path, "", "eviction percentage threshold %s must be <= 100%%: %s", name, value)
			}
			continue
		}
		if q, err := resource.ParseQuantity(value); err == nil && q.Sign() <= 0 {
			l.at(path, "to switch a threshold off write 0%", "eviction threshold %s must be positive: %s", name, value)
		}
	}
}

func (l *look) reclaim() {
	values := l.stringMap("evictionMinimumReclaim")
	for _, name := range sorted(values) {
		path, value := []string{"evictionMinimumReclaim", name}, values[name]
		if part, ok, err := kubelet.ParsePercentage(value); ok {
			if err != nil {
				l.at(path, percentHint, "%s", err)
			} else if part <= 0 {
				l.at(path, "", "eviction percentage minimum reclaim %s must be positive: %s", name, value)
			}
		} else if q, err := resource.ParseQuantity(value); err == nil && q.Sign() < 0 {
			l.at(path, "", "negative eviction minimum reclaim specified for %s", name)
		}
	}
}

package kubelet

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/kubelet/known"
)

// DefaultMaxPods is the maxPods of a kubelet whose configuration has none (KubeletConfiguration v1beta1, v1.36.3).
const DefaultMaxPods = 110

// LeastAmount is the least amount of memory or storage, in bytes, that anybody means, but for 0. One below it is most often
// a number whose unit was forgotten.
const LeastAmount = 16 << 20

// KnownField says whether a kubelet has a field of KubeletConfiguration v1beta1, written as clusterDNS or logging.format;
// also a key of one whose keys are free, as evictionHard.memory.available. Without a version it is the newest that is
// known.
func KnownField(name, version string) bool {
	minor := minorOf(version)
	if _, ok := known.FieldAt(name, minor); ok {
		return !strings.Contains(name, "[]")
	}
	field, key, ok := strings.Cut(name, ".")
	if !ok || key == "" {
		return false
	}
	f, _ := known.FieldAt(field, minor)
	if strings.HasPrefix(field, "eviction") {
		return f.Type == known.Strings && slices.Contains(EvictionSignals(), key)
	}
	return f.Type == known.Strings || f.Type == known.Bools
}

func minorOf(version string) int {
	if m, ok := known.Minor(version); ok && version != "" {
		return m
	}
	_, newest := known.Range()
	return newest
}

// FieldDefault is what a kubelet on Linux takes for a field that its configuration does not have, as far as it is known
// here: as Kubernetes' source has it for the version, without one for the newest that is known. Of an evictionHard that
// is there the kubelet fills nothing in, so a key of it counts only where all of it is missing.
func FieldDefault(name, version string) (value any, told bool) {
	defaults := DefaultEvictionHard()
	if name == "evictionHard" {
		all := map[string]any{}
		for k, v := range defaults {
			all[k] = v
		}
		return all, true
	}
	if signal, ok := strings.CutPrefix(name, "evictionHard."); ok {
		v, ok := defaults[signal]
		return v, ok
	}
	f, ok := known.FieldAt(name, minorOf(version))
	if !ok || f.Default == "" {
		return nil, false
	}
	switch f.Type {
	case known.Bool:
		return f.Default == "true", true
	case known.Int32, known.Int64, known.Uint32:
		n, err := strconv.ParseInt(f.Default, 10, 64)
		return n, err == nil
	case known.Number:
		return json.Number(f.Default), true
	case known.String, known.Duration:
		return f.Default, true
	}
	return nil, false
}

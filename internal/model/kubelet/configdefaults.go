package kubelet

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// DefaultMaxPods is the maxPods of a kubelet whose configuration has none (KubeletConfiguration v1beta1, v1.36.3).
const DefaultMaxPods = 110

// MinAmount is the smallest useful amount of memory or storage in bytes. A smaller one, except 0, usually lacks its
// unit.
const MinAmount = 16 << 20

// KnownField reports whether a kubelet has a field like clusterDNS or logging.format, or accepts the key of an object
// like evictionHard.memory.available. Without a version the newest known one is assumed.
func KnownField(name, version string) bool {
	minor := findMinor(version)
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

// DecodeNulls replaces the nulls in the maps of a document by the values that the kubelet decodes them to: an empty
// text, false, 0. A null field is an absent one.
func DecodeNulls(doc map[string]any) {
	zeros := map[known.Type]any{
		known.Strings:    "",
		known.Bools:      false,
		known.Quantities: json.Number("0"),
	}
	for name, value := range doc {
		field, _ := known.FieldAt(name, known.Newest())
		members, isObject := value.(map[string]any)
		zero, hasZero := zeros[field.Type]
		if !isObject || !hasZero {
			continue
		}
		for key, member := range members {
			if member == nil {
				members[key] = zero
			}
		}
	}
}

func findMinor(version string) int {
	if minor, isVersion := known.Minor(version); isVersion {
		return minor
	}

	return known.Newest()
}

// FieldDefault returns the value that a kubelet on Linux uses for a missing field, if it is known from Kubernetes'
// source. Without a version the newest known one is assumed. The defaults of evictionHard apply only if all of it is
// missing.
func FieldDefault(name, version string) (value any, isKnown bool) {
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
	f, ok := known.FieldAt(name, findMinor(version))
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

package known

import (
	"slices"
	"strings"
)

// Flag is a flag in one version.
type Flag struct {
	Bool       bool
	Takes      string // int32, uint64, float64, duration, ip …; "" for any text, and if Field has the type
	Deprecated bool
	Hidden     bool   // --help does not list it
	Field      string // the field of the configuration that it sets; "": none
	Message    string // Kubernetes' deprecation message
}

// FlagHistory returns the history of a flag; its name has no leading dashes.
func FlagHistory(name string) (History, bool) { return findHistory("flag", name) }

// FlagAt returns a flag in a version; false if the version does not have it.
func FlagAt(name string, minor int) (Flag, bool) {
	state := findState("flag", name, minor)
	if state == "" {
		return Flag{}, false
	}
	state, says, _ := strings.Cut(state, " |")
	f := Flag{Message: says}
	for i, word := range strings.Fields(state) {
		switch {
		case word == "bool":
			f.Bool = true
		case word != "value" && word[0] != '>' && i == 0:
			f.Takes = word
		case word == "deprecated":
			f.Deprecated = true
		case word == "hidden":
			f.Hidden = true
		case word[0] == '>':
			f.Field = word[1:]
		}
	}
	return f, true
}

// FlagDeprecated returns the version that deprecated a flag; 0 if it is deprecated in the oldest known one.
func FlagDeprecated(name string) (minor int, isDeprecated bool) {
	h, _ := FlagHistory(name)
	oldest, _ := Range()
	for _, m := range h.minors {
		if f, ok := FlagAt(name, m); ok && f.Deprecated {
			if m == oldest {
				m = 0
			}
			return m, true
		}
	}
	return 0, false
}

// Flags returns the flags of a version.
func Flags(minor int) []string { return listNames("flag", minor) }

// Type is the type of a field, as precise as a JSON decoder checks it.
type Type string

// The types.
const (
	String        Type = "string"
	Bool          Type = "bool"
	Int32         Type = "int32"
	Int64         Type = "int64"
	Uint32        Type = "uint32"
	Number        Type = "number"
	Duration      Type = "duration"      // a string such as 1m30s
	DurationOrInt Type = "durationorint" // the same, or nanoseconds
	Quantity      Type = "quantity"      // a string or number such as 100Mi
	Object        Type = "object"
	ObjectList    Type = "objectlist"
	Strings       Type = "strings"     // an object of strings
	Bools         Type = "bools"       // an object of booleans
	Quantities    Type = "quantities"  // an object of quantities
	StringLists   Type = "stringlists" // an object of lists of strings
	StringList    Type = "stringlist"
	IntList       Type = "intlist"
)

// Field is a field of KubeletConfiguration in one version.
type Field struct {
	Type    Type
	Default string // as text; "" if it has none, or if it depends on other fields
	// Deprecated is why Kubernetes' own comment calls it deprecated: "no longer has any effect"; "" if it does not.
	Deprecated string
}

// FieldHistory returns the history of a field. Its name is like a.b in an object, or a[].b in a list of objects.
func FieldHistory(name string) (History, bool) { return findHistory("field", name) }

// FieldAt returns a field in a version; false if the version does not have it.
func FieldAt(name string, minor int) (Field, bool) {
	state := findState("field", name, minor)
	if state == "" {
		return Field{}, false
	}
	state, why, _ := strings.Cut(state, " |")
	kind, preset, _ := strings.Cut(state, " =")

	return Field{Type: Type(kind), Default: preset, Deprecated: why}, true
}

// DeprecatedFields returns the fields that some version calls deprecated.
func DeprecatedFields() []string { return loadTable().deprecated }

// Fields returns the fields of a version.
func Fields(minor int) []string { return listNames("field", minor) }

// ChangedFields returns the fields that differ between two versions.
func ChangedFields(from, to int) []string { return listChanged("field", from, to) }

// Gate is a feature gate in one version.
type Gate struct {
	Stage  string // alpha, beta, ga, deprecated
	On     bool   // by default
	Locked bool   // to that value: the kubelet panics if it is set to another
}

// GateHistory returns the history of a feature gate.
func GateHistory(name string) (History, bool) { return findHistory("gate", name) }

// GateAt returns a feature gate in a version; false if the version does not have it.
func GateAt(name string, minor int) (Gate, bool) {
	state := findState("gate", name, minor)
	if state == "" {
		return Gate{}, false
	}
	stage, on, _ := strings.Cut(state, " ")
	gate := Gate{
		Stage:  stage,
		On:     strings.HasPrefix(on, "+"),
		Locked: strings.HasSuffix(on, "!"),
	}

	return gate, true
}

// Gates returns the feature gates of a version.
func Gates(minor int) []string { return listNames("gate", minor) }

// ChangedGates returns the feature gates that differ between two versions, and that the kubelet's own code reads in one
// of them. It knows those of other components too, because they share libraries.
func ChangedGates(from, to int) []string {
	return slices.DeleteFunc(listChanged("gate", from, to), func(name string) bool {
		return findState("read", name, from) == "" && findState("read", name, to) == ""
	})
}

// Needs returns the gates that must be on in a version if a gate is on.
func Needs(name string, minor int) []string {
	return strings.FieldsFunc(findState("needs", name, minor), func(r rune) bool {
		return r == ','
	})
}

// Needing returns the gates that need others in a version.
func Needing(minor int) []string { return listNames("needs", minor) }

// Declared is a feature that a Node may list in status.declaredFeatures, by which the scheduler places pods.
type Declared struct {
	Gates     []string // all must be on
	ByRuntime bool     // the container runtime must support it too
}

// DeclaredAt returns the requirements of a declared feature in a version; false if the version does not have it.
func DeclaredAt(name string, minor int) (Declared, bool) {
	gates, runtime, _ := strings.Cut(findState("declared", name, minor), " ")
	if gates == "" {
		return Declared{}, false
	}

	return Declared{Gates: strings.Split(gates, ","), ByRuntime: runtime != ""}, true
}

// DeclaredFeatures returns the features that a node of a version may declare. They are known since 1.36.
func DeclaredFeatures(minor int) []string { return listNames("declared", minor) }

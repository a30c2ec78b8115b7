package known

import "strings"

// Flag is a flag in one version.
type Flag struct {
	Bool       bool
	Takes      string // int32, uint64, float64, duration, ip …, where its value is not any text and no Field says it
	Deprecated bool
	Hidden     bool   // it is there, and --help does not show it
	Field      string // of the configuration that says the same; "" for none
	Says       string // what Kubernetes says about its deprecation
}

// FlagHistory is a flag over the versions; its name has no dashes in front.
func FlagHistory(name string) (History, bool) { return history("flag", name) }

// FlagAt is a flag in a version; false if that has none of the name.
func FlagAt(name string, minor int) (Flag, bool) {
	h, ok := FlagHistory(name)
	state := ""
	if ok {
		state = h.at(minor)
	}
	if state == "" {
		return Flag{}, false
	}
	state, says, _ := strings.Cut(state, " |")
	f := Flag{Says: says}
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

// FlagDeprecated is the version that deprecated a flag; 0 if it was so in the oldest that is known. false: none did.
func FlagDeprecated(name string) (minor int, deprecated bool) {
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

// Flags lists the flags of a version.
func Flags(minor int) []string { return names("flag", minor) }

// Type is a coarse type of a field: what a JSON decoder would refuse, and not more.
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
	Default string   // as it would be written; "" where it has none, or one that depends on others
	Words   []string // the only ones that are allowed; nil for any
}

// FieldHistory is a field over the versions. Its name is a.b for one of an object, a[].b for one of an object in a list.
func FieldHistory(name string) (History, bool) { return history("field", name) }

// FieldAt is a field in a version; false if that has none of the name.
func FieldAt(name string, minor int) (Field, bool) {
	h, ok := FieldHistory(name)
	state := ""
	if ok {
		state = h.at(minor)
	}
	if state == "" {
		return Field{}, false
	}
	var f Field
	for i, word := range strings.Fields(state) {
		switch {
		case i == 0:
			f.Type = Type(word)
		case word[0] == '=':
			f.Default = word[1:]
		case word[0] == '{':
			f.Words = strings.Split(strings.Trim(word, "{}"), ",")
		}
	}
	return f, true
}

// Fields lists the fields of a version.
func Fields(minor int) []string { return names("field", minor) }

// Gate is a feature gate in one version.
type Gate struct {
	Stage  string // alpha, beta, ga, deprecated
	On     bool   // by default
	Locked bool   // to that: the kubelet panics when it is set otherwise
}

// GateHistory is a feature gate over the versions.
func GateHistory(name string) (History, bool) { return history("gate", name) }

// GateAt is a feature gate in a version; false if that has none of the name.
func GateAt(name string, minor int) (Gate, bool) {
	h, ok := GateHistory(name)
	state := ""
	if ok {
		state = h.at(minor)
	}
	if state == "" {
		return Gate{}, false
	}
	stage, on, _ := strings.Cut(state, " ")
	return Gate{Stage: stage, On: strings.HasPrefix(on, "+"), Locked: strings.HasSuffix(on, "!")}, true
}

// Gates lists the feature gates of a version.
func Gates(minor int) []string { return names("gate", minor) }

// Needs are the gates that a gate needs in a version, which have to be on where it is; nil for none.
func Needs(name string, minor int) []string {
	h, _ := history("needs", name)
	return strings.FieldsFunc(h.at(minor), func(r rune) bool { return r == ',' })
}

// Needing lists the gates that need others in a version.
func Needing(minor int) []string { return names("needs", minor) }

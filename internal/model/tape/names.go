package tape

import (
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// name is a recording's name for the reason why an answer has no value. With kinds it is a row for questions of these
// kinds only, and comes before the row for all others.
type name struct {
	text  string
	code  fault.Code
	kinds []Kind
}

// names is the one table between the names in recordings and codes. Names never change, so that old recordings stay
// readable.
func names() []name {
	return []name{
		{"absent", fault.Absent, nil},
		{"unread", fault.Unread, nil}, // replay only: the question is not in the recording
		{"credential", fault.CredentialMissing, nil},
		{"unreachable", fault.ClusterUnreachable, nil},
		{"untrusted", fault.ClusterUntrusted, nil},
		{"denied", fault.ClusterDenied, []Kind{KindTrust, KindObject, KindNode}},
		{"denied", fault.Denied, nil},
		{"unusable", fault.ClusterUnusable, []Kind{KindTrust, KindObject, KindNode}},
		{"unusable", fault.HardwareFailed, []Kind{KindHardware}},
		{"unusable", fault.DetectorFailed, []Kind{KindLock, KindDetector}},
		{"unusable", fault.FileUnusable, nil},
		{"no-answer", fault.NoAnswer, nil}, // of a file system
		{"wrong-file", fault.WrongType, []Kind{KindTrust, KindObject}},
	}
}

// nameOf returns the name of a code: "unusable" for a code that answers must not have.
func nameOf(c fault.Code) string {
	all := names()
	isCode := func(n name) bool { return n.code == c }
	if i := slices.IndexFunc(all, isCode); i >= 0 {
		return all[i].text
	}

	return "unusable"
}

// codeOf returns the code of a name in the answer to a question of a kind.
func codeOf(text string, kind Kind) (fault.Code, bool) {
	all := names()
	i := slices.IndexFunc(all, func(n name) bool {
		return n.text == text && (n.kinds == nil || slices.Contains(n.kinds, kind))
	})
	if i < 0 {
		return "", false
	}

	return all[i].code, true
}

// asRecorded reduces a failure to the fields of a recording, so that a run equals its replay. Its place becomes a
// part of the reason. A place in a file that a person edits stays, with the text that shows it.
func asRecorded(kind Kind, a Answer) Answer {
	if a.Fault == nil {
		return a
	}

	code, _ := codeOf(nameOf(a.Fault.Code), kind)
	f := &fault.Fault{
		Code: code,
		Why:  a.Fault.Reason(),
		Next: a.Fault.Next,
	}
	if a.Fault.Source != "" {
		f.At, f.Source = a.Fault.At, a.Fault.Source
	}
	a.Fault = f

	return a
}

// unusable returns an invalid answer of a kind.
func unusable(kind Kind, why string) Answer {
	code, _ := codeOf("unusable", kind)

	return Failure(code, why, "")
}

// NoAdapter returns the answer to a question of a kind that a source does not support.
func NoAdapter(kind Kind) Answer {
	return unusable(kind, "no adapter answers questions of kind "+string(kind))
}

// Unreadable returns the answer to a question whose arguments cannot be decoded.
func Unreadable(kind Kind, err error) Answer {
	return unusable(kind, "the question cannot be read: "+err.Error())
}

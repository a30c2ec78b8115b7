package world

import (
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// name is how a recording says why an answer has no value. With kinds it is a row for questions of these kinds only,
// and comes before the row for all others.
type name struct {
	text  string
	code  fault.Code
	kinds []Kind
}

// names is the one table between the names in recordings and codes. A name is never changed or given up: recordings are
// read for ever.
func names() []name {
	return []name{
		{"absent", fault.Absent, nil},
		{"unread", fault.Unread, nil}, // replay only: this recording was never asked
		{"credential", fault.CredentialMissing, nil},
		{"unreachable", fault.ClusterUnreachable, nil},
		{"untrusted", fault.ClusterUntrusted, nil},
		{"denied", fault.ClusterDenied, []Kind{KindTrust, KindObject, KindNode}},
		{"denied", fault.Denied, nil},
		{"unusable", fault.ClusterUnusable, []Kind{KindTrust, KindObject, KindNode}},
		{"unusable", fault.HardwareFailed, []Kind{KindFacts}},
		{"unusable", fault.DetectorFailed, []Kind{KindLock, KindDetector}},
		{"unusable", fault.FileUnusable, nil},
	}
}

// nameOf is the name of a code: "unusable" for one that no answer should have.
func nameOf(c fault.Code) string {
	all := names()
	if i := slices.IndexFunc(all, func(n name) bool { return n.code == c }); i >= 0 {
		return all[i].text
	}

	return "unusable"
}

// codeOf is the code of a name in the answer to a question of a kind.
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

// asRecorded leaves of a failure what a recording has of it, so that a run sees the same as its replay. Its place
// becomes a part of the reason.
func asRecorded(kind Kind, a Answer) Answer {
	if a.Fault == nil {
		return a
	}

	code, _ := codeOf(nameOf(a.Fault.Code), kind)
	a.Fault = &fault.Fault{Code: code, Why: a.Fault.Reason(), Next: a.Fault.Next}

	return a
}

// unusable is an answer of a kind that makes no sense.
func unusable(kind Kind, why string) Answer {
	code, _ := codeOf("unusable", kind)

	return Failure(code, why, "")
}

// NoAdapter is the answer to a question of a kind that a source does not know.
func NoAdapter(kind Kind) Answer {
	return unusable(kind, "nobody answers questions of kind "+string(kind))
}

// Unreadable is the answer to a question whose arguments cannot be decoded.
func Unreadable(kind Kind, err error) Answer {
	return unusable(kind, "the question cannot be read: "+err.Error())
}

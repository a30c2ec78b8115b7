package contract

import (
	"regexp"
	"sync"
)

// Forms of names. None of them checks a length: matches does.
var (
	detectorName  = newForm(`^[a-z][a-z0-9-]*$`)
	attributeName = newForm(`^[a-z][a-z0-9_]*$`)
	versionForm   = newForm(`^[A-Za-z0-9][A-Za-z0-9.+_~-]*$`)
	groupName     = newForm(`^[a-z_][a-z0-9_-]*$`)

	// freeKey is for keys of maps without a schema.
	freeKey = newForm(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

	// labelText is for the value of a label, and for its key behind the slash.
	labelText = newForm(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

	domainName = newForm(
		`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$`,
	)

	// pciID is for 10de:2330, 10de:*, 10de:*:03 and 10de:*:0302.
	pciID = newForm(`^[0-9a-f]{4}:(\*|[0-9a-f]{4})(:([0-9a-f]{2}){1,2})?$`)

	// pciAddress is for 0000:17:00.0. Intel's VMD has domains above ffff.
	pciAddress = newForm(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// newForm returns a function that compiles a regular expression at its first call. prelet, prelet-detect and detectors
// start often, and need few of these.
func newForm(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// IsDetectorName reports whether a detector can have that name.
func IsDetectorName(s string) bool {
	return matches(detectorName, s)
}

// matches reports whether a name has a form and at most MaxName bytes.
func matches(form func() *regexp.Regexp, s string) bool {
	return len(s) <= MaxName && form().MatchString(s)
}

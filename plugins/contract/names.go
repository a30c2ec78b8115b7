package contract

import "regexp"

// Forms of names. None of them checks a length: matches does.
var (
	detectorName  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	attributeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	versionForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_~-]*$`)
	groupName     = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

	// freeKey is for keys of maps without a schema.
	freeKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

	// labelText is for the value of a label, and for its key behind the slash.
	labelText = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

	domainName = regexp.MustCompile(
		`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$`,
	)

	// pciID is for 10de:2330, 10de:*, 10de:*:03 and 10de:*:0302.
	pciID = regexp.MustCompile(`^[0-9a-f]{4}:(\*|[0-9a-f]{4})(:([0-9a-f]{2}){1,2})?$`)

	// pciAddress is for 0000:17:00.0. Intel's VMD has domains above ffff.
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// IsDetectorName reports whether a detector can have that name.
func IsDetectorName(s string) bool {
	return matches(detectorName, s)
}

// matches reports whether a name has a form and at most MaxName bytes.
func matches(form *regexp.Regexp, s string) bool {
	return len(s) <= MaxName && form.MatchString(s)
}

package image

import _ "embed"

//go:embed page.txt
var page string

// Page returns docs/reference/seal.md.
func Page() string { return page }

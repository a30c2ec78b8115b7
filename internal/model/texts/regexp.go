package texts

import (
	"regexp"
	"sync"
)

// LazyRegexp returns a function that compiles a regular expression at its first call, so that a start does not pay for
// those it does not use. It panics if the expression is invalid, as regexp.MustCompile does.
func LazyRegexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

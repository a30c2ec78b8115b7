// Package lazy makes package variables at their first use: a program that starts hundreds of times should not pay for
// what it does not need.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles a regular expression when it is first called. It panics if the expression is
// invalid, as regexp.MustCompile does.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

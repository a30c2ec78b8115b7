// Package lazy makes package variables at their first use: a program that starts hundreds of times does not pay for
// unused ones.
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

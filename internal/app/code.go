package app

import "github.com/prelet/prelet/internal/fault"

// higherCode returns the code with the higher exit status, a where they are equal. "" is lower than any code.
func higherCode(a, b fault.Code) fault.Code {
	if b.Exit() > a.Exit() {
		return b
	}
	return a
}

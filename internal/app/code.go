package app

import "github.com/prelet/prelet/internal/fault"

// The code of a command that has done several things, each with its own.

// higherCode returns the code with the higher exit status, a where they are equal. "" is lower than any code.
func higherCode(a, b fault.Code) fault.Code {
	if b.Exit() > a.Exit() {
		return b
	}
	return a
}

// lowestCode returns the code of a command that ended with codes, one for each recording: the one with the lowest exit
// status among the failures, the first of them where several have it. Exit statuses are numbered from the site outwards
// (10 the site, 20 the cluster, 30 the machine, 40 the disk), and a mistake in the site is fixed first. "" where none
// failed.
func lowestCode(codes []fault.Code) fault.Code {
	var lowest fault.Code
	for _, c := range codes {
		if c != "" && (lowest == "" || c.Exit() < lowest.Exit()) {
			lowest = c
		}
	}
	return lowest
}

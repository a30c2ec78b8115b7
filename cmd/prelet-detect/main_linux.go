// Command prelet-detect runs one detector confined, as the detector's own user, and prints one line of JSON for
// prelet. prelet starts it; it has no use for people.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/prelet/prelet/internal/machine/detector/runner"
	"github.com/prelet/prelet/plugins/sandbox"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 1:
		err = runner.Run(os.Stdin, os.Stdout, sandbox.Lines{})
	case len(os.Args) == 3 && os.Args[1] == "sweep":
		var uid int
		if uid, err = strconv.Atoi(os.Args[2]); err == nil {
			err = runner.Sweep(uid)
		}
	default:
		err = fmt.Errorf("prelet starts this program; try `prelet detectors --help`")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prelet-detect:", err)
		os.Exit(70)
	}
}

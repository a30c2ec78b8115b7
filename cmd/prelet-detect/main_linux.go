// Command prelet-detect runs one detector under that detector's own user, confined, and gives prelet one line of
// JSON. prelet starts it; by hand it does nothing useful.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/prelet/prelet/internal/detector/runner"
	"github.com/prelet/prelet/internal/detector/sandbox"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 1:
		err = inside.Run(os.Stdin, os.Stdout, confine.Lines{})
	case len(os.Args) == 2 && os.Args[1] == inside.BecomeCommand:
		err = inside.Become(os.Stdin)
	case len(os.Args) == 3 && os.Args[1] == "sweep":
		var uid int
		if uid, err = strconv.Atoi(os.Args[2]); err == nil {
			err = inside.Sweep(uid)
		}
	default:
		err = fmt.Errorf("prelet starts this program; try `prelet detectors --help`")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prelet-detect:", err)
		os.Exit(70)
	}
}

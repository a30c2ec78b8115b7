// Command program is, for tests, prelet-detect or one of the hostile detectors, by the name that it is started under. As
// prelet-detect it leaves out the lines of the sandbox that its own file's name has (prelet-detect-without-seccomp): for
// controls; and takes the kernel for one with an older Landlock (prelet-detect-landlock-4).
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/detector/hostile"
	"github.com/prelet/prelet/internal/detector/runner"
	"github.com/prelet/prelet/internal/detector/sandbox"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "stuck-filesystem" && len(os.Args) == 2 {
		fmt.Fprintln(os.Stderr, hostile.StuckFilesystem(os.Args[1]))
		os.Exit(1)
	}
	if name != "prelet-detect" {
		hostile.Main(name)
		return
	}
	var err error
	switch len(os.Args) {
	case 2:
		err = inside.Become(os.Stdin)
	case 3:
		var uid int
		if uid, err = strconv.Atoi(os.Args[2]); err == nil {
			err = inside.Sweep(uid)
		}
	default:
		err = inside.Run(os.Stdin, os.Stdout, without())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
}

func without() (l confine.Lines) {
	exe, _ := os.Executable()
	for line, out := range map[string]*bool{"limits": &l.Limits, "landlock": &l.Landlock, "scopes": &l.Scopes, "seccomp": &l.Seccomp, "connect": &l.Connect} {
		*out = strings.Contains(exe, "-without-"+line)
	}
	if _, version, ok := strings.Cut(exe, "-landlock-"); ok {
		_, _ = fmt.Sscan(version, &l.Newer)
	}
	return l
}

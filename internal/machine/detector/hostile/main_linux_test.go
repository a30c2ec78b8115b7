package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/machine/detector/runner"
	"github.com/prelet/prelet/plugins/sandbox"
)

// TestMain is prelet-detect or a hostile detector, by the name that the program is started under. As prelet-detect it
// leaves out lines of the sandbox that the name of its file contains (prelet-detect-without-seccomp), or behaves as on a
// kernel with an older Landlock (prelet-detect-landlock-4).
func TestMain(m *testing.M) {
	var err error
	switch name := filepath.Base(os.Args[0]); {
	case strings.HasSuffix(name, ".test"):
		os.Exit(m.Run())
	case name == "prelet-detect":
		err = detect()
	case name == "stuck-filesystem" && len(os.Args) == 2:
		err = serveStuckFiles(os.Args[1])
	default:
		runDetector(name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
}

// detect is prelet-detect.
func detect() error {
	if len(os.Args) == 3 { // sweep
		uid, err := strconv.Atoi(os.Args[2])
		if err != nil {
			return err
		}
		return runner.Sweep(uid)
	}

	return runner.Run(os.Stdin, os.Stdout, omittedLines())
}

// omittedLines returns the lines of the sandbox that the name of this file omits.
func omittedLines() sandbox.Lines {
	file, _ := os.Executable()
	omits := func(line string) bool { return strings.Contains(file, "-without-"+line) }
	lines := sandbox.Lines{
		Limits:   omits("limits"),
		Landlock: omits("landlock"),
		Scopes:   omits("scopes"),
		Seccomp:  omits("seccomp"),
		Connect:  omits("connect"),
	}
	if _, version, ok := strings.Cut(file, "-landlock-"); ok {
		_, _ = fmt.Sscan(version, &lines.Newer)
	}

	return lines
}

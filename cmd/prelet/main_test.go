package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/testing/sample"
)

// TestMain lets scenarios start the program as a process of its own: the test binary under other names.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // scenarios wait more than they compute; -parallel still wins
	prelet := func() {
		c := cli{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
		if os.Getenv(detectorHost) != "" {
			c.detectors = hostDetectors
		}
		os.Exit(c.main(os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){
		"prelet":          prelet,
		"prelet-measured": runMeasured,
		// Run as a user without rights: as root, a test of permissions checks nothing.
		"prelet-as-nobody": func() {
			if os.Geteuid() == 0 {
				const nobody = 65534
				for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)} {
					if err != nil {
						panic(err)
					}
				}
			}
			prelet()
		},
		// A failure of the runtime: a stack that is too large, as there is no other that can be made at will.
		"prelet-that-throws": func() {
			abortOnThrow()
			debug.SetMaxStack(1 << 16)
			var deep func(int) int
			deep = func(n int) int { return 1 + deep(n+1) }
			os.Exit(deep(0))
		},
	})
}

// chosenScripts returns the scripts in a folder that are run: all of them, or a quarter in a quick run.
func chosenScripts(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in %s: got %d, %v; want some", folder, len(files), err)
	}
	chosen := sample.New(t)

	return slices.DeleteFunc(files, func(file string) bool { return !chosen.Has(sample.Quarter(1), file) })
}

// TestScenarios runs the program as people do: see testdata/scenarios/README.md for what the scripts can say.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set, and scenarios start hundreds of processes")
	}
	shared := &machines{dir: t.TempDir(), built: map[string]func() (string, error){}}
	testscript.Run(t, testscript.Params{
		Files:               chosenScripts(t, "testdata/scenarios"),
		Setup:               func(e *testscript.Env) error { return setUp(e, shared) },
		Cmds:                scriptCommands(),
		Condition:           isRunAs,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

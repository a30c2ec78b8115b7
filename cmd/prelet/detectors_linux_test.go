package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/machine/detector/hostile"
	"github.com/prelet/prelet/plugins/sandbox"
)

// detectorHost is a variable with the folder of detector-host.
const detectorHost = "PRELET_TEST_DETECTOR_HOST"

// hostDetectors makes detectors run as those of detector-host do.
func hostDetectors(o *detector.HostConfig) {
	dir := os.Getenv(detectorHost)
	o.Helper, o.RunDir, o.Passwd = dir+"/prelet-detect", dir+"/run", dir+"/passwd"
}

// canHostDetectors reports whether a detector cannot end programs of this user.
func canHostDetectors() bool {
	abi, err := sandbox.LandlockABI()
	return os.Geteuid() == 0 || err == nil && abi >= sandbox.ABIScopes
}

// detector-host: the node has a detector named good, and prelet-detect with a user for it. The paths of sockets are
// short, and the user reaches the folders.
func cmdDetectorHost(ts *testscript.TestScript, _ bool, _ []string) {
	s := of(ts)
	dir, err := os.MkdirTemp("", "prelet-")
	ts.Check(err)
	s.stop = append(s.stop, func() { _ = os.RemoveAll(dir) })
	ts.Setenv(detectorHost, dir)
	user, free := ownUser(ts)
	s.stop = append(s.stop, free)
	programs := ts.MkAbs("root" + detector.Programs)
	ts.Check(errors.Join(
		os.Chmod(dir, 0o711),
		hostile.Build(context.Background(), dir+"/prelet-detect"),
		os.WriteFile(dir+"/passwd", fmt.Appendf(nil, "prelet-detector-1:x:%d:%[1]d::/:/bin/false\n", user), 0o644),
		os.MkdirAll(programs, 0o755),
		os.Link(dir+"/prelet-detect", programs+"/good"),
	))
	cmdPublic(ts, false, nil)
}

// ownUser claims a user for a test: a host ends whatever it finds of its users, and another run of these tests may go
// on at the same time. An abstract name has one owner, and is free again when its owner ends, however that ends.
func ownUser(ts *testscript.TestScript) (uid int, free func()) {
	for uid = 61000; uid < 61100; uid++ { // no account has one of these, and no other test
		if claim, err := net.Listen("unix", fmt.Sprintf("@prelet-command-%d", uid)); err == nil {
			return uid, func() { _ = claim.Close() }
		}
	}
	ts.Fatalf("all users from 61000 to 61099 are taken")
	return 0, nil
}

// A signal is the reason why a list ends early, and not what it then found wrong in the site.
func TestDetectorsListIsStopped(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	site := "variable \"zone\" {\n  type = string\n}\ndetector \"good\" {}\nstage \"detect-hw\" \"node\" {}\n"
	noError(t, errors.Join(
		os.MkdirAll(root+"/etc/prelet", 0o755),
		os.WriteFile(root+"/etc/prelet/site.hcl", []byte(site), 0o644),
	))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said bytes.Buffer
	command := (&cli{stdout: &said, stderr: &said, getenv: func(string) string { return "" }}).root()
	command.SetArgs([]string{"detectors", "list", "--root", root})

	err := command.ExecuteContext(ctx)
	if fault.CodeOf(err) != fault.Interrupted || said.Len() > 0 {
		t.Errorf("got %v and the output %q, want the code %q and none", err, said.String(), fault.Interrupted)
	}
}

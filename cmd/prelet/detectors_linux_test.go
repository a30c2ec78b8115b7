package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/detector/hostile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/plugins/sandbox"
)

// detectorMachine is a folder with prelet-detect and a detector, and a command that works on it.
func detectorMachine(t *testing.T) (root string, run func(args ...string) (int, string, string)) {
	t.Helper()
	if abi, err := sandbox.LandlockABI(); os.Geteuid() != 0 && (err != nil || abi < sandbox.ABIScopes) {
		t.Skip("needs root, or a kernel whose Landlock restricts signals, so that a detector cannot end programs of this user")
	}
	root, err := os.MkdirTemp("", "prelet-") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root+detector.Programs, 0o755); err != nil {
		t.Fatal(err)
	}
	helper := filepath.Join(root, "prelet-detect")
	if err := hostile.Build(t.Context(), helper); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(helper, root+detector.Programs+"/good"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(
		root+"/passwd",
		fmt.Appendf(nil, "prelet-detector-1:x:%d:%[1]d::/:/bin/false\n", ownUser(t)),
		0o644,
	); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root+"/etc/prelet", 0o755); err != nil {
		t.Fatal(err)
	}
	return root, func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		a := &cli{
			stdout: &stdout,
			stderr: &stderr,
			getenv: func(string) string { return "" },
			detectors: func(o *detector.Options) {
				o.Helper, o.RunDir, o.Passwd = helper, root+"/run", root+"/passwd"
			},
		}
		code := a.main(args)
		return code, stdout.String(), stderr.String()
	}
}

// ownUser claims a user for a test: a host ends whatever it finds of its users, and another run of these tests may go
// on at the same time. An abstract name has one owner, and is free again when its owner ends, however that ends.
func ownUser(t *testing.T) int {
	t.Helper()
	for uid := 61000; uid < 61100; uid++ { // no account has one of these, and no other test
		if claim, err := net.Listen("unix", fmt.Sprintf("@prelet-command-%d", uid)); err == nil {
			t.Cleanup(func() { _ = claim.Close() })
			return uid
		}
	}
	t.Fatal("all users from 61000 to 61099 are taken")
	return 0
}

func putSite(t *testing.T, root, text string) {
	t.Helper()
	if err := os.WriteFile(
		root+"/etc/prelet/site.hcl",
		[]byte(text+"\nstage \"detect-hw\" \"node\" {}\n"),
		0o644,
	); err != nil {
		t.Fatal(err)
	}
}

// A detector from its program to its facts: not locked, locked, asked, checked along its lock, changed.
func TestDetectorsCommand(t *testing.T) {
	t.Parallel()
	root, run := detectorMachine(t)
	putSite(t, root, `detector "good" {}`)
	expect := func(code int, out, want string) {
		t.Helper()
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("exit %d, want %q in %s", code, want, out)
		}
	}
	code, out, _ := run("detectors", "list", "--root", root)
	expect(code, out, "good does not run")
	expect(code, out, "no lock")
	code, _, said := run("detect", "--root", root)
	expect(code, said, "prelet detectors lock "+root+detector.Programs+"/good")
	code, out, said = run("detectors", "lock", "--root", root, root+detector.Programs+"/good")
	expect(code, out+said, `Locked good 1.0.0 as it is`)
	code, out, _ = run("detectors", "list", "--root", root, "--long")
	expect(code, out, "good 1.0.0 runs")
	expect(code, out, "recommends labels in "+hostile.Domain)
	code, out, said = run("detect", "--root", root)
	expect(code, out+said, "good ok 1.0.0")

	code, out, said = run("detect", "-o", "json", "--root", root)
	var doc struct {
		Facts struct {
			Detectors map[string]struct {
				State string
				Facts struct{ Sensors []struct{ Celsius float64 } }
			}
		}
		Diagnostics []struct{ Severity string }
	}
	if err := json.Unmarshal(
		[]byte(out),
		&doc,
	); err != nil || code != 0 || len(doc.Facts.Detectors["good"].Facts.Sensors) != 1 ||
		doc.Facts.Detectors["good"].Facts.Sensors[0].Celsius != 41.5 {
		t.Errorf("exit %d, %v: %s%s", code, err, out, said)
	}

	putSite(t, root, "detector \"good\" {\n  config { second = 1 }\n}")
	if code, _, said = run("validate", "--root", root); code != 10 || !strings.Contains(said, "site.hcl:2:12") ||
		!strings.Contains(said, `Did you mean "seconds"?`) {
		t.Errorf("exit %d: %s", code, said)
	}
	putSite(t, root, "detector \"good\" { required = true }")
	program := root + detector.Programs + "/good"
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+root+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, said = run("detect", "--root", root); code != 31 ||
		!strings.Contains(strings.Join(strings.Fields(said), " "), "it is not the locked program") {
		t.Errorf("exit %d: %s", code, said)
	}
	if _, err := os.Stat(root + "/ran"); err == nil {
		t.Error("it was executed")
	}
	code, out, _ = run("detectors", "list", "--root", root, "-o", "json")
	expect(code, out, `"why":"not the locked program"`)
}

// What a detector said is in the recording: who replays it needs no program.
func TestDetectorsAreRecorded(t *testing.T) {
	t.Parallel()
	root, run := detectorMachine(t)
	putSite(
		t,
		root,
		`detector "good" {}`+"\nstage \"label\" \"x\" { from_detectors = [\""+hostile.Domain+"/*\"] }\nstage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { when = false }\n"+
			"  kubelet_config { base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: "+
			"KubeletConfiguration\\n\" }\n}",
	)
	if code, out, said := run(
		"detectors",
		"lock",
		"--site",
		"--root",
		root,
		root+detector.Programs+"/good",
	); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, said)
	}
	rec := filepath.Join(root, "node.prelet")
	if code, _, said := run("record", rec, "--root", root); code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	if err := os.RemoveAll(root + detector.Programs); err != nil {
		t.Fatal(err)
	}
	code, out, said := run("plan", "--from", rec, "-o", "json")
	if label := fmt.Sprintf(
		`"%s/firmware":{"value":"1.20"`,
		hostile.Domain,
	); code != 0 ||
		!strings.Contains(out, label) {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	code, out, _ = run("explain", "label/"+hostile.Domain+"/firmware", "--from", rec)
	if code != 0 || !strings.Contains(out, "detector good") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// A signal is the reason why a list ends early, and not what it then found wrong in the site.
func TestDetectorsListIsStopped(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc/prelet", 0o755); err != nil {
		t.Fatal(err)
	}
	putSite(t, root, "variable \"zone\" {\n  type = string\n}\ndetector \"good\" {}")

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

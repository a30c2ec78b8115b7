// Package detector runs detectors of vendors: it opens a program and compares its hash with the lock, starts it
// confined, asks it one question and kills it. A hash of an earlier run counts while the file is the same. Everything
// that a detector returns is untrusted: it is limited and checked against the detector's own description, and a bad
// answer is rejected as a whole.
//
// This package opens the program, chooses its user, keeps the deadline, kills and reaps. prelet-detect (packages
// runner and sandbox) confines itself and speaks gRPC; package wire has their messages. Of the stages it imports only
// the interface. It changes processes, and below its run folder, or a temporary one without root, lock files of slots
// and a private folder; the locks of detectors it only reads.
package detector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// DefaultTimeout is the time limit of a detector without one of its own.
const DefaultTimeout = 10 * time.Second

// MinMemory is the smallest memory limit of a detector. Programs in Go start with 80 MiB, with a C library with 128.
const MinMemory = 128 << 20

// DefaultHelper is where packages install prelet-detect.
const DefaultHelper = "/usr/lib/prelet/prelet-detect"

// HostConfig configures a Host. The zero value is for this machine.
type HostConfig struct {
	Root      string   // detectors, locks and readable files are below it; "" is /
	SiteLocks []string // lock files with precedence over fragments, in order; nil is SiteLock below Root
	Elsewhere bool     // SiteLocks are not those of a node
	RunDir    string   // slots and sockets; "" is /run/prelet/detectors
	Helper    string   // prelet-detect; "" is the installed one, or that next to this program, where both were built
	Tree      string   // root of a recorded machine that detectors read instead of /
	Passwd    string   // where the users of detectors are looked up; "" is /etc/passwd
	Digests   string   // the file with what Host.Digests returned to an earlier run; "": none

	// NoSite reports whether SiteLocks are ignored, because they are not signed. nil: they are not.
	NoSite func() bool

	// Redact removes secrets from the output of detectors. nil: there are none.
	Redact func(string) string
}

// Host answers the questions of the kinds "lock" and "detector".
type Host struct {
	o         HostConfig
	now       func() time.Time
	subreaper func() error
	kept      func() []digest // by an earlier run
	verified  sync.Map        // the digests of this run, by path
	turn      chan struct{}   // holds one element while a detector takes a user; others wait in order
}

// New returns a Host. It starts nothing.
func New(o HostConfig) *Host {
	o.RunDir = cmp.Or(o.RunDir, "/run/prelet/detectors")
	o.Helper = cmp.Or(o.Helper, findHelper())
	o.Passwd = cmp.Or(o.Passwd, "/etc/passwd")
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}

	h := &Host{o: o, now: time.Now, subreaper: sync.OnceValue(becomeSubreaper), turn: make(chan struct{}, 1)}
	h.kept = sync.OnceValue(h.readDigests)

	return h
}

// findHelper returns the path of prelet-detect where HostConfig does not name it.
func findHelper() string {
	if self, err := os.Executable(); err == nil {
		next := filepath.Join(filepath.Dir(self), filepath.Base(DefaultHelper))
		if !exists(DefaultHelper) && exists(next) {
			return next
		}
	}

	return DefaultHelper
}

func exists(path string) bool {
	_, err := nodefile.Stat(path)

	return err == nil
}

func (h *Host) path(p string) string {
	return filepath.Join("/", h.o.Root, p)
}

// Ask implements tape.Source.
func (h *Host) Ask(ctx context.Context, q tape.Question) tape.Answer {
	lock := func(_ context.Context, r tape.LockReq) tape.Answer { return h.answerLock(r.Name) }

	return tape.Adapters{tape.Lock.Adapt(lock), tape.Detector.Adapt(h.answerDetector)}.Ask(ctx, q)
}

func (h *Host) answerLock(name string) tape.Answer {
	l, err := h.Lock(name)
	if err == nil {
		return tape.Lock.Answer(l)
	}

	program := h.path(filepath.Join(Programs, name))
	command := ":\n    prelet detectors lock " + program
	if !errors.Is(err, errNoLock) {
		return tape.Failure(fault.DetectorFailed, "Its lock cannot be used: "+err.Error(),
			"Install the detector's package again, or lock the program again"+command)
	}
	if nodefile.CheckTrusted(program) == nil {
		return tape.Failure(fault.Denied, "Program "+program+" has no lock",
			"If you trust this program, lock it"+command)
	}

	return tape.Failure(fault.Absent, "Program "+program+" does not exist, and no lock names another path",
		"Install the detector's package, which contains program and lock, or put detectors.lock.json next to the "+
			"site: with a lock, a machine without the device skips the detector")
}

// answerDetector runs a detector if it matches this machine.
func (h *Host) answerDetector(ctx context.Context, r tape.DetectorReq) tape.Answer {
	l, err := h.Lock(r.Name)
	if err != nil {
		return h.answerLock(r.Name)
	}
	d, err := stages.Description(l.LockEntry)
	if err != nil {
		return h.answerLock(r.Name)
	}
	ungranted := stages.Ungranted(d.Needs, r.Allow)
	if !ungranted.Empty() {
		detail, hint := stages.NotGranted(d, r.Allow)
		return tape.Failure(fault.Denied, detail, hint)
	}

	skipped, err := h.skipReason(ctx, d.Match, r.Devices)
	if err != nil {
		text := fmt.Sprintf("Detector %q was not started: %s", r.Name, err)
		return tape.Failure(fault.DetectorFailed, text, reportToVendor)
	}
	if skipped != "" {
		answer := emptyAnswer(d)
		answer.Skipped = skipped
		return tape.Detector.Answer(answer)
	}

	grants := r.Allow
	if h.o.Tree != "" {
		if grants, err = h.treeGrants(h.Program(l.LockEntry), grants); err != nil {
			return tape.Failure(fault.Absent, fmt.Sprintf("Detector %q: %s", r.Name, err), "")
		}
	}
	reply, trace, err := h.run(ctx, job{
		program: h.Program(l.LockEntry),
		sha256:  l.SHA256,
		grants:  grants,
		memory:  max(r.Memory, MinMemory),
		request: wire.Request{
			Ask:  wire.Detect,
			Name: r.Name,
			Request: contract.Request{
				Config:  r.Config,
				Devices: requestedDevices(r),
				Root:    h.o.Tree,
			},
		},
	})
	if err != nil {
		return h.failure(r.Name, trace, err)
	}

	answer, err := checkAnswer(d, reply.Answer, r)
	if err != nil {
		return h.failure(r.Name, trace, fmt.Errorf("its answer was rejected: %w", err))
	}
	answer.Sandbox = trace.Lacks
	answer.Findings = trace.Finds

	return tape.Detector.Answer(answer)
}

// requestedDevices returns the devices of a request with the contract's types.
func requestedDevices(r tape.DetectorReq) []contract.PCIDevice {
	var devices []contract.PCIDevice
	for _, p := range r.Devices {
		devices = append(devices, stages.PCI(p))
	}

	return devices
}

// skipReason returns why a detector is not started on this machine, or nothing if it is. An error means that this is
// unknown.
func (h *Host) skipReason(
	ctx context.Context, m contract.Match, devices []tape.PCIDevice,
) (string, error) {
	if m.Always || len(devices) > 0 {
		return "", nil
	}
	found, err := h.anyExists(ctx, m.Paths)
	if found || err != nil {
		return "", err
	}

	var reasons []string
	if len(m.PCIIDs) > 0 {
		ids := strings.Join(m.PCIIDs, ", ")
		reasons = append(reasons, "no PCI device is one of "+ids)
	}
	if len(m.Paths) > 0 {
		paths := strings.Join(m.Paths, ", nor ")
		reasons = append(reasons, "there is no "+paths)
	}

	return strings.Join(reasons, ", and "), nil
}

// failure returns the answer for a detector that failed, with the end of its output.
func (h *Host) failure(name string, t Trace, err error) tape.Answer {
	text := fmt.Sprintf("Detector %q: %s", name, err)
	if output := summarizeOutput(t.Stderr); output != "" {
		text += ". Its output: " + output
	}
	if slices.Contains(t.Finds, tape.NotEnded) {
		text += ". One of its processes cannot be killed: a driver may hang"
	}
	code := fault.DetectorFailed
	switch c := fault.CodeOf(err); c {
	case fault.Denied, fault.Absent:
		code = c
	}
	text = h.o.Redact(text)
	hint := h.o.Redact(t.hint())
	if errors.Is(err, errAllBusy) {
		hint = "Lower the timeout of these detectors, or raise that of the stage detect-hw"
	}

	return tape.Failure(code, text, hint)
}

// summarizeOutput returns the last lines of a detector's output as one line: the reason is behind the complaints of
// libraries. Of a Go program that crashed it returns the reason without the stacks and registers.
func summarizeOutput(stderr string) string {
	const maxLines, maxBytes = 5, 600

	var last []string
	length := 0
	lines := strings.Split(cutStacks(stderr), "\n")
	for _, line := range slices.Backward(lines) {
		text := cleanText(line)
		if text == "" {
			continue
		}
		length += len(text)
		if len(last) == maxLines || len(last) > 0 && length > maxBytes {
			break
		}
		last = append(last, text)
	}
	slices.Reverse(last)

	return contract.Shorten(strings.Join(last, " | "), maxBytes) // one long line begins with the reason
}

// cutStacks removes the stacks after a panic, a fatal error or a signal of Go's runtime.
func cutStacks(stderr string) string {
	text, _, _ := strings.Cut(stderr, "\n\ngoroutine ")
	text, _, _ = strings.Cut(text, "\n\nruntime stack:")

	return text
}

// Describe runs a program without a lock, confined and with no more than the given grants, and returns the lock for
// the file as it is now. Its path is that on this machine; of a program outside of the root, it is where packages put
// programs.
func (h *Host) Describe(
	ctx context.Context, program string, grants tape.Grants,
) (tape.LockEntry, Trace, error) {
	absolute, err := filepath.Abs(program)
	if err != nil {
		return tape.LockEntry{}, Trace{}, err
	}
	request := wire.Request{Ask: wire.Describe, Name: filepath.Base(absolute)}
	j := job{
		program: absolute,
		grants:  grants,
		memory:  MinMemory,
		request: request,
	}
	reply, trace, err := h.run(ctx, j)
	if err != nil {
		return tape.LockEntry{}, trace, err
	}

	if reply.Describe == nil {
		return tape.LockEntry{}, trace, errors.New("it returned no description")
	}
	problems := reply.Describe.Check()
	if len(problems) > 0 {
		return tape.LockEntry{}, trace, fmt.Errorf("invalid description: %w", summarize(problems))
	}
	text, err := json.Marshal(reply.Describe)
	if err != nil {
		return tape.LockEntry{}, trace, err
	}

	l := tape.LockEntry{
		Name:     reply.Describe.Name,
		SHA256:   trace.SHA256,
		Describe: text,
	}
	root := strings.TrimSuffix(h.path("/"), "/")
	onNode, isBelow := strings.CutPrefix(absolute, root+"/")
	if onNode = "/" + onNode; isBelow && onNode != filepath.Join(Programs, l.Name) {
		l.Path = onNode
	}

	return l, trace, nil
}

// Failure returns the answer for a failed Describe: what happened and what to do.
func (h *Host) Failure(program string, t Trace, err error) tape.Answer {
	return h.failure(filepath.Base(program), t, err)
}

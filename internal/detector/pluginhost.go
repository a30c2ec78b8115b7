// Package pluginhost runs vendors' detectors: one program, opened, hashed, confined, started, asked one question, killed. It
// touches processes, the lock files that say which program may run, and a private folder below /run/prelet; it knows no
// stage and no HCL. What a detector says is input from outside: bounded, checked against the detector's own description,
// refused whole where it breaks that.
//
// The work is shared: prelet opens and hashes the program, gives it a user of its own, keeps the deadline, kills and reaps
// (here); prelet-detect confines itself and speaks gRPC (inside, confine); wire is what they say to each other.
package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// DefaultTimeout is how long a detector may take when nobody says otherwise.
const DefaultTimeout = 10 * time.Second

// MinMemory is the least that a detector is given: programs in Go start with 80 MiB, such with a C library with 128.
const MinMemory = 128 << 20

// DefaultHelper is where packages put prelet-detect.
const DefaultHelper = "/usr/lib/prelet/prelet-detect"

// Options say where detectors are looked for and how they run. The zero value is this machine.
type Options struct {
	Root      string   // detectors and locks are below it, and what may be read; "" is /
	SiteLocks []string // lock files that win over fragments, the first before the next; nil is /etc/prelet/detectors.lock.json below Root
	RunDir    string   // slots and sockets; "" is /run/prelet/detectors
	Helper    string   // prelet-detect; "" is DefaultHelper
	Tree      string   // a recorded machine's root, where detectors look in the place of /; of this machine they get nothing
	Passwd    string   // where the pool's users are looked up; "" is /etc/passwd
	// Redact takes secrets out of what a detector printed. nil: none are known.
	Redact func(string) string
}

// Host answers the questions "lock" and "detector".
type Host struct {
	o         Options
	subreaper func() error
}

// New makes a Host; nothing is read or started yet.
func New(o Options) *Host {
	if o.RunDir == "" {
		o.RunDir = "/run/prelet/detectors"
	}
	if o.Helper == "" {
		o.Helper = DefaultHelper
	}
	if o.Passwd == "" {
		o.Passwd = "/etc/passwd"
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return &Host{o: o, subreaper: sync.OnceValue(becomeSubreaper)}
}

func (h *Host) path(p string) string { return filepath.Join("/", h.o.Root, p) }

// Ask implements world.Source.
func (h *Host) Ask(ctx context.Context, q world.Question) world.Answer {
	switch q.Kind {
	case world.KindLock:
		r, err := world.LockOf.Request(q)
		if err != nil {
			return world.Unreadable(q.Kind, err)
		}
		return h.lockAnswer(r.Name)
	case world.KindDetector:
		r, err := world.DetectorOf.Request(q)
		if err != nil {
			return world.Unreadable(q.Kind, err)
		}
		return h.detectAnswer(ctx, r)
	}
	return world.NoAdapter(q.Kind)
}

func (h *Host) lockAnswer(name string) world.Answer {
	l, err := h.Lock(name)
	switch {
	case errors.Is(err, errNoLock):
		program := h.path(filepath.Join(Programs, name))
		if f, err := openTrusted(program); err == nil {
			_ = f.Close()
			return world.Failure(fault.Denied, program+" is there, and no lock says that it may run",
				"If you trust this program as it is, lock it:\n    prelet detectors lock "+program)
		}
		return world.Failure(fault.Absent, "There is no program "+program+", and no lock names another",
			"Install the package of the detector, which brings both; or put detectors.lock.json beside the site: "+
				"with a lock, a machine without the device skips the detector")
	case err != nil:
		return world.Failure(fault.DetectorFailed, "Its lock cannot be used: "+err.Error(),
			"Install the package of the detector again, or lock the program anew:\n    prelet detectors lock "+h.path(filepath.Join(Programs, name)))
	}
	return world.LockOf.Answer(l)
}

// detectAnswer asks one detector, if it has something to do here.
func (h *Host) detectAnswer(ctx context.Context, r world.DetectorReq) world.Answer {
	l, err := h.Lock(r.Name)
	if err != nil {
		return h.lockAnswer(r.Name)
	}
	d, err := stages.Description(l.Lock)
	if err != nil {
		return h.lockAnswer(r.Name)
	}
	if !stages.Ungranted(d.Needs, r.Allow).Empty() {
		detail, hint := stages.NotGranted(d, r.Allow)
		return world.Failure(fault.Denied, detail, hint)
	}
	why, err := h.nothingToDo(ctx, d.Match, r.Devices)
	if err != nil {
		return world.Failure(fault.DetectorFailed, fmt.Sprintf("Detector %q was not started: %s", r.Name, err), "Its vendor can mend that")
	}
	if why != "" {
		return world.DetectorOf.Answer(world.DetectorAns{Version: d.Version, Attributes: map[string]string{}, Labels: map[string]string{}, Warnings: []string{}, Skipped: why})
	}
	grants := r.Allow
	if h.o.Tree != "" {
		if grants, err = h.onTree(h.Program(l.Lock), grants); err != nil {
			return world.Failure(fault.Absent, fmt.Sprintf("Detector %q: %s", r.Name, err), "")
		}
	}
	reply, trace, err := h.run(ctx, job{program: h.Program(l.Lock), sha256: l.SHA256, grants: grants, memory: max(r.Memory, MinMemory),
		request: wire.Request{Ask: wire.Detect, Name: r.Name, Config: r.Config, Devices: devicesOf(r), Root: h.o.Tree}})
	if err != nil {
		return h.failed(r.Name, trace, err)
	}
	ans, err := checkAnswer(d, reply.Answer, r)
	if err != nil {
		return h.failed(r.Name, trace, fmt.Errorf("its answer is refused whole: %w", err))
	}
	ans.Sandbox, ans.Findings = trace.Lacks, trace.Finds
	return world.DetectorOf.Answer(ans)
}

// devicesOf are the devices of a question, in the words of the contract.
func devicesOf(r world.DetectorReq) (out []contract.PCIDevice) {
	for _, p := range r.Devices {
		out = append(out, stages.PCI(p))
	}
	return out
}

// nothingToDo says why a detector is not started on this machine; "" if it is. The error says why that is not known.
func (h *Host) nothingToDo(ctx context.Context, m contract.Match, devices []world.PCIDevice) (string, error) {
	if m.Always || len(devices) > 0 {
		return "", nil
	}
	if found, err := h.anyExists(ctx, m.Paths); found || err != nil {
		return "", err
	}
	var what []string
	if len(m.PCIIDs) > 0 {
		what = append(what, "no PCI device is one of "+strings.Join(m.PCIIDs, ", "))
	}
	if len(m.Paths) > 0 {
		what = append(what, "there is no "+strings.Join(m.Paths, ", nor "))
	}
	return strings.Join(what, ", and "), nil
}

// failed is a detector that did not do its work: what happened, in its own words from standard error where it has some.
func (h *Host) failed(name string, t Trace, err error) world.Answer {
	text := fmt.Sprintf("Detector %q: %s", name, err)
	if said := lastWords(t.Stderr); said != "" {
		text += ". It said: " + said
	}
	if t.Left {
		text += ". Something of it is left that cannot be ended: a driver may hang"
	}
	code := fault.DetectorFailed
	if c := fault.CodeOf(err); c == fault.Denied || c == fault.Absent {
		code = c
	}
	return world.Failure(code, h.o.Redact(text), h.o.Redact(t.hint()))
}

// lastWords are the last lines of what a detector printed: a library's complaints come before the reason. Of a Go program that
// panicked it is the panic, without the stacks behind it.
func lastWords(stderr string) string {
	const most = 600
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for i := range slices.Backward(lines) {
		l := lines[i]
		if strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
			if end := slices.IndexFunc(lines[i:], func(l string) bool { return strings.HasPrefix(l, "goroutine ") || l == "" }); end > 0 {
				lines = lines[:i+end]
			}
			break
		}
	}
	var out []string
	length := 0
	for i := len(lines) - 1; i >= 0 && len(out) < 5; i-- {
		l := words(lines[i])
		if length += len(l); length > most && len(out) > 0 {
			break
		}
		if l != "" {
			out = append([]string{l}, out...)
		}
	}
	text := strings.Join(out, " | ")
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

// Describe starts a program that nothing is known of yet, confined and with nothing granted but what is given, and asks what
// it is. It returns the lock that it would have. The program is the file as it is now.
func (h *Host) Describe(ctx context.Context, program string, grants world.Grants) (world.Lock, Trace, error) {
	abs, err := filepath.Abs(program)
	if err != nil {
		return world.Lock{}, Trace{}, err
	}
	reply, trace, err := h.run(ctx, job{program: abs, grants: grants, memory: MinMemory, request: wire.Request{Ask: wire.Describe, Name: filepath.Base(abs)}})
	if err != nil {
		return world.Lock{}, trace, err
	}
	if reply.Describe == nil {
		return world.Lock{}, trace, errors.New("it described nothing")
	}
	if p := reply.Describe.Check(); len(p) > 0 {
		return world.Lock{}, trace, fmt.Errorf("its description breaks the protocol: %w", told(p))
	}
	text, err := json.Marshal(reply.Describe)
	if err != nil {
		return world.Lock{}, trace, err
	}
	l := world.Lock{Name: reply.Describe.Name, SHA256: trace.SHA256, Describe: text}
	inside := strings.TrimPrefix(abs, strings.TrimSuffix(h.path("/"), "/"))
	if inside != filepath.Join(Programs, l.Name) {
		l.Path = inside
	}
	return l, trace, nil
}

// Failure is a failed Describe in the form of an answer: what happened, and what to do.
func (h *Host) Failure(program string, t Trace, err error) world.Answer {
	return h.failed(filepath.Base(program), t, err)
}

// Command writer executes the steps of a scenario like a run on a node, with the real packages machine/generation and
// machine/activation, on one thread, so that a kill at its k-th system call is reproducible.
//
//	writer prepare NAME ROOT RUN   what lay there, and the generations that came earlier
//	writer step    NAME ROOT RUN   the step
//	writer recover NAME ROOT RUN   the beginning of the next run, up to the open gate
//
// ROOT is the root of the targets, with the state folder in it; RUN is the run folder, which a power cut empties.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/test/faults/scenario"
)

func main() {
	runtime.LockOSThread() // strace counts system calls by thread
	debug.SetGCPercent(
		-1,
	) // and the collector's own threads come to no disk, but need no time either
	syscall.Umask(0o022)
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: writer prepare|step|recover NAME ROOT RUN")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		var f *fault.Fault
		if errors.As(err, &f) {
			os.Exit(f.Code.Exit())
		}
		os.Exit(1)
	}
}

func run(verb, name, root, runDir string) error {
	sc, err := scenario.Named(name)
	if err != nil {
		return err
	}
	if verb == "prepare" {
		if err := scenario.Lay(root, sc.Foreign); err != nil {
			return err
		}
	}
	dir := filepath.Join(root, "var/lib/prelet")
	now := newClock(verb)
	store, err := generation.Open(
		context.Background(),
		generation.StoreConfig{
			Root:   root,
			Dir:    dir,
			BootID: bootID,
			Now:    now.Now,
			Mono:   now.micros,
		},
	)
	if err != nil {
		return err
	}
	defer store.Close()
	gate := activation.Gate{Dir: runDir, BootID: bootID}
	m := &activation.StateMachine{
		Node:     &node{idle: idle{gate.Path()}, clock: now},
		Store:    store,
		Gate:     gate,
		BootID:   bootID,
		StateDir: dir,
	}
	if _, err := m.Enter(context.Background(), activation.Entry{On: activation.OnFinish}); err != nil {
		return err
	}
	switch verb {
	case "prepare":
		return prepare(m, store, sc, root)
	case "step":
		return step(m, store, sc)
	case "recover":
		return resume(m, store)
	}
	return fmt.Errorf("unknown verb %q", verb)
}

const bootID = "boot-of-the-sweep"

func prepare(
	m *activation.StateMachine,
	store *generation.Store,
	sc scenario.Scenario,
	root string,
) error {
	for _, p := range sc.Earlier {
		if err := commit(m, store, p); err != nil {
			return err
		}
	}
	return scenario.Lay(root, sc.Edits)
}

func step(m *activation.StateMachine, store *generation.Store, sc scenario.Scenario) error {
	if sc.Next != nil {
		if err := commit(m, store, *sc.Next); err != nil {
			return err
		}
		return store.Collect(sc.Keep)
	}
	if cur, err := store.Current(); err != nil || cur != nil && cur.Restores == sc.Back {
		return errors.Join(err, resume(m, store)) // gone back already
	}
	_, err := m.Enter(context.Background(), activation.Entry{
		On:  activation.OnRollback,
		To:  sc.Back,
		Why: "requested",
	})
	return err
}

func commit(m *activation.StateMachine, store *generation.Store, p generation.Proposal) error {
	c, err := store.Compare(p)
	switch {
	case err != nil:
		return err
	case c.ChangesNothing(p):
		return judge(m, store)
	}
	out, err := m.Enter(context.Background(), activation.Entry{On: activation.OnChange, Change: &activation.Change{
		Proposal: p,
		Compared: c,
		Spec:     activation.Spec{Start: activation.Start{Rollback: true}},
	}})
	if err != nil {
		return err
	}
	return store.Good(out.Generation, nil)
}

// judge continues with the current generation and marks it good, as prelet-verify does.
func judge(m *activation.StateMachine, store *generation.Store) error {
	if err := resume(m, store); err != nil {
		return err
	}
	j, err := store.Journal()
	if err != nil || j == nil {
		return err
	}
	return store.Good(j.Gen, nil)
}

// resume opens the gate for the current generation, as the next run does.
func resume(m *activation.StateMachine, store *generation.Store) error {
	cur, err := store.Current()
	if err != nil || cur == nil {
		return err
	}
	_, err = m.Enter(context.Background(), activation.Entry{On: activation.OnResume})
	return err
}

// node is a node that no kubelet runs on: nothing is ever probed.
type node struct {
	idle
	*clock
	activation.Probe
}

func (*node) Foreign(int) string                       { return "" }
func (*node) OtherMachine(kubelet.NodeObject) string   { return "" }
func (*node) WhyNotJoined() string                     { return "no kubelet has joined" }
func (*node) Waits(string, map[string][]byte) bool     { return true }
func (*node) AskBinary(context.Context, string) string { return "" }
func (*node) Note(report.Event)                        {}
func (*node) Extend(time.Duration)                     {}
func (*node) Redact(text string) string                { return text }

// idle is a systemd whose kubelet was never started.
type idle struct{ gate string }

func (i idle) Look(_ context.Context, unit string) (activation.Unit, error) {
	var u activation.Unit
	u.Name, u.Load, u.Active, u.Sub = unit, "loaded", "inactive", "dead"
	u.EnvironmentFiles = append(u.EnvironmentFiles, struct {
		Path     string
		Optional bool
	}{Path: i.gate})
	return u, nil
}

func (idle) Mounts(context.Context, []string) ([]activation.Mount, error) { return nil, nil }
func (idle) MayWait(context.Context, string) (bool, error)                { return false, nil }
func (idle) Reload(context.Context) error                                 { return nil }

func (idle) Act(context.Context, string, string, time.Duration) (string, error) {
	return "queued", nil
}
func (idle) CreateTmpfiles(context.Context, []string, time.Duration) (string, error) {
	return "done", nil
}
func (idle) Stop(context.Context, string, time.Duration) (string, error) { return "done", nil }

// clock ticks by being asked, so that the same kill leaves the same bytes.
type clock struct {
	start time.Time
	asked int64
}

func newClock(verb string) *clock {
	day := map[string]int{"prepare": 1, "step": 2, "recover": 3}[verb]
	return &clock{start: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}
}

func (c *clock) micros() int64 { c.asked++; return c.asked * 1e6 }

func (c *clock) Monotonic() time.Duration { return time.Duration(c.micros()) * time.Microsecond }

func (c *clock) Now() time.Time { return c.start.Add(c.Monotonic()) }

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.asked += int64(d / time.Second)
	return context.Cause(ctx)
}

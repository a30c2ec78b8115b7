package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/report"
)

// A command by hand that changes a node runs in prelet-apply.service: it has the credentials, it is started again when
// it is killed, and it does not end with a session. What stands between the two are files of the run folder, which is
// root's: request-ID.json, taken as serving-ID.json, answered by reply-ID.json.
const (
	requestPrefix = "request-"
	servingPrefix = "serving-"
	replyPrefix   = "reply-"

	followTime = 20 * time.Minute // two watches of the longest sensible timeout
	followRuns = 4
)

type request struct {
	Args []string `json:"args"`
}

type reply struct {
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// viaApply hands a command to prelet-apply.service and follows it, or serves the requests of others where this is that
// unit. handled is false when the command is to run in this process: inside prelet's own units, without systemd, and
// with --config, because the unit cannot read a folder below /home or /tmp.
func (a *app) viaApply(ctx context.Context, h *host, config, args []string) (handled bool, err error) {
	switch {
	case a.served || !h.systemd:
		return false, nil
	case h.self == applyUnit:
		return a.serve(h)
	case h.self != "" || len(config) > 0:
		return false, nil
	}
	u, err := h.units.Look(ctx, applyUnit)
	if err != nil {
		return true, failure(fault.Systemd, "%s", err)
	}
	if u.Load != "loaded" {
		a.complain(applyUnit + " is not installed, so this works in this process: do not end it")
		return false, nil
	}
	return true, a.follow(ctx, h, request{args})
}

// follow leaves a request, starts the unit, and prints what it answers.
func (a *app) follow(ctx context.Context, h *host, r request) error {
	if err := h.ready(); err != nil {
		return err
	}
	id := rand.Text()
	b, err := json.Marshal(r)
	if err != nil {
		return failure(fault.Internal, "%s", err)
	}
	ask := filepath.Join(h.runDir, requestPrefix+id+".json")
	if err := apply.Remember(ask, b); err != nil {
		return failure(fault.CannotWrite, "%s; prelet changes a node as root only", err)
	}
	defer os.Remove(ask) // taken away already, unless nobody came for it
	answer := filepath.Join(h.runDir, replyPrefix+id+".json")
	defer os.Remove(answer)
	defer a.watching(h)()
	result := ""
	for range followRuns { // a start merges with one that runs already, which may have begun before our request
		if result, err = h.units.Start(ctx, applyUnit, followTime); err != nil {
			if ctx.Err() != nil {
				return failure(fault.Interrupted, "%s goes on; `prelet status --wait` tells how it ends", applyUnit)
			}
			return failure(fault.Systemd, "%s", err)
		}
		if b, err := os.ReadFile(answer); err == nil {
			var out reply
			if err := json.Unmarshal(b, &out); err != nil {
				return failure(fault.Internal, "%s: %s", answer, err)
			}
			_, _ = io.WriteString(a.stderr, out.Stderr)
			_, _ = io.WriteString(a.stdout, out.Stdout)
			a.printed = out.Stdout != ""
			return exit(out.Exit)
		}
		if result == "canceled" { // by a stop, which another start would cancel in its turn
			return failure(fault.Interrupted, "somebody stopped %s; `prelet status --wait` tells how it ends", applyUnit)
		}
	}
	return failure(fault.Systemd, "%s ended without an answer (its job: %s); journalctl -u %s says why", applyUnit, result, applyUnit)
}

// watching shows on a terminal what the run in the unit is at, until stop.
func (a *app) watching(h *host) (stop func()) {
	show := a.progress()
	if show == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		state := map[string]string{}
		for {
			select {
			case <-done:
				return
			case <-time.After(statusEvery):
			}
			s, err := report.Load(h.runDir)
			if err != nil || s.State != report.Running {
				continue
			}
			for _, x := range s.Stages {
				if state[x.Address] != x.State {
					state[x.Address] = x.State
					show(boot.Event{Stage: x.Address, State: x.State, Took: time.Duration(x.Millis) * time.Millisecond})
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// serve runs what was asked for, in order. handled is false when nobody asked: then the unit was started by itself, or
// to finish what a killed one left.
func (a *app) serve(h *host) (handled bool, err error) {
	for _, left := range waiting(h.runDir, servingPrefix) {
		// Whoever served it was killed. Its request is not done twice: the run that follows recovers.
		id := idOf(left, servingPrefix)
		answerTo(h, id, reply{Exit: fault.Interrupted.Exit(), Stderr: "prelet: prelet-apply.service was killed; " + h.afterKill(left) + "\n"})
		_ = os.Remove(left)
		return false, nil
	}
	worst := 0
	for _, name := range waiting(h.runDir, requestPrefix) {
		id := idOf(name, requestPrefix)
		serving := filepath.Join(h.runDir, servingPrefix+id+".json")
		if err := os.Rename(name, serving); err != nil {
			continue // whoever asked went away
		}
		out := a.serveOne(h, serving)
		answerTo(h, id, out)
		_ = os.Remove(serving)
		handled, worst = true, max(worst, out.Exit)
	}
	return handled, exit(worst)
}

// afterKill says what becomes of a request whose server was killed. What was committed is finished; a way back that was not is not
// begun again by itself.
func (h *host) afterKill(serving string) string {
	var r request
	b, err := os.ReadFile(serving)
	if err == nil && json.Unmarshal(b, &r) == nil && len(r.Args) > 0 && r.Args[0] == "rollback" {
		if store, err := generation.OpenReadOnly(h.storeOptions()); err == nil {
			defer store.Close()
			if j, err := store.Journal(); err == nil && j == nil {
				return "nothing shows that it went back: see prelet history, and give prelet rollback again if need be (what was chosen by hand is held until prelet rollback --release)"
			}
		}
	}
	return "it is started again and finishes what was begun (prelet status --wait)"
}

func (a *app) serveOne(h *host, name string) reply {
	var r request
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && (len(r.Args) == 0 || r.Args[0] != "run" && r.Args[0] != "rollback") {
		err = errors.New("it asks for something else than run or rollback")
	}
	if err != nil {
		return reply{Exit: fault.Usage.Exit(), Stderr: fmt.Sprintf("prelet: %s: %s\n", name, err)}
	}
	var stdout, stderr bytes.Buffer
	inner := &app{stdout: io.MultiWriter(a.stdout, &stdout), stderr: io.MultiWriter(a.stderr, &stderr), getenv: a.getenv, on: a.on, served: true}
	code := inner.main(r.Args)
	return reply{code, stdout.String(), stderr.String()}
}

func answerTo(h *host, id string, r reply) {
	b, err := json.Marshal(r)
	if err == nil {
		err = apply.Remember(filepath.Join(h.runDir, replyPrefix+id+".json"), b)
	}
	if err != nil { // whoever follows says that no answer came, and where to look
		_ = h.notify.Status("the answer to a request cannot be left: " + err.Error())
	}
}

// waiting are the files of one kind, oldest first.
func waiting(dir, prefix string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, prefix+"*.json"))
	age := map[string]time.Time{}
	for _, n := range names {
		if st, err := os.Stat(n); err == nil {
			age[n] = st.ModTime()
		}
	}
	slices.SortStableFunc(names, func(x, y string) int { return age[x].Compare(age[y]) })
	return names
}

func idOf(name, prefix string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), prefix), ".json")
}

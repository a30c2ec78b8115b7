package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/report"
)

// A command by hand that changes a node runs in prelet-apply.service: it has the credentials, it is restarted when it
// is killed, and it does not end with a session. The two exchange files in the run folder, which only root may write:
// request-ID.json, renamed to serving-ID.json while it runs, and reply-ID.json.
const (
	requestPrefix = "request-"
	servingPrefix = "serving-"
	replyPrefix   = "reply-"

	replyTime  = time.Minute      // in which a client reads its reply
	followTime = 20 * time.Minute // two watches of the longest sensible timeout
	followRuns = 4

	statusEvery = 200 * time.Millisecond
)

type request struct {
	Args []string `json:"args"`
	PID  int      `json:"pid,omitempty"` // of the process that waits for the reply
}

// isAbandoned reports whether a reply will not be read: its client has exited, and the reply is older than replyTime.
// The age counts because a client in another PID namespace looks as if it had exited. A client of another version
// does not send its PID; its reply is abandoned after followTime.
func isAbandoned(pid int, replied time.Time) bool {
	age := time.Since(replied)
	if pid > 0 {
		return age > replyTime && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	}

	return age > followTime
}

// Reply is the result and the output of a command that another process ran.
type Reply struct {
	Code   fault.Code `json:"code"` // "" where it succeeded
	Stdout string     `json:"stdout"`
	Stderr string     `json:"stderr"`
}

// replyFile is reply-ID.json. While prelet is upgraded, the process that waits and the unit may be of two versions. A
// process that knows no code reads Exit; a unit that knows none writes only Exit, and its failure has the code
// Internal.
type replyFile struct {
	Reply
	PID     int    `json:"pid,omitempty"`     // of the process that waits for it
	Failure string `json:"failure,omitempty"` // why the command was not run; then it has no output
	Exit    int    `json:"exit"`              // the exit status of Code
}

// refusal is the reply to a request that is not done.
func refusal(code fault.Code, format string, args ...any) replyFile {
	return replyFile{Reply: Reply{Code: code}, Failure: fmt.Sprintf(format, args...)}
}

// decodeReply returns the reply in a file, or why the command was not run.
func decodeReply(text []byte) (*Reply, error) {
	var r replyFile
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, failure(fault.Internal, "the reply of %s: %s", ApplyUnit, err)
	}
	if r.Code == "" && r.Exit != 0 {
		r.Code = fault.Internal
	}
	if r.Failure != "" {
		return nil, failure(r.Code, "%s", r.Failure)
	}

	return &r.Reply, nil
}

// delegate hands a command to prelet-apply.service and follows it, or serves the requests of others where this is that
// unit. The reply is nil when the command is to run in this process: inside prelet's own units, without systemd, and
// with --config, because the unit cannot read a folder below /home or /tmp.
func (e *Env) delegate(ctx context.Context, h *Host, config, args []string) (*Reply, error) {
	switch {
	case e.Serve == nil || !h.Systemd:
		return nil, nil
	case h.Self == ApplyUnit:
		return e.serveAll(h), nil
	case h.Self != "" || len(config) > 0:
		return nil, nil
	}
	u, err := h.Units.Look(ctx, ApplyUnit)
	if err != nil {
		return nil, failure(fault.Systemd, "%s", err)
	}
	if u.Load != "loaded" {
		e.Say(ApplyUnit + " is not installed, so this works in this process: do not end it")
		return nil, nil
	}
	return e.follow(ctx, h, request{Args: args, PID: os.Getpid()})
}

// follow writes a request, starts the unit and returns its reply.
func (e *Env) follow(ctx context.Context, h *Host, r request) (*Reply, error) {
	if err := h.createRunDir(); err != nil {
		return nil, err
	}
	id := rand.Text()
	b, err := json.Marshal(r)
	if err != nil {
		return nil, failure(fault.Internal, "%s", err)
	}
	ask := filepath.Join(h.RunDir, requestPrefix+id+".json")
	if err := commit.WriteIfChanged(ask, b); err != nil {
		return nil, failure(fault.CannotWrite, "%s; prelet changes a node as root only", err)
	}
	defer os.Remove(ask) // it exists only where no process took it
	answer := filepath.Join(h.RunDir, replyPrefix+id+".json")
	defer os.Remove(answer)
	defer e.showProgress(h)()
	result := ""
	// Systemd merges our start with a running one, which may have begun before the request was written.
	for range followRuns {
		result, err = h.Units.Start(ctx, ApplyUnit, followTime)
		if err != nil {
			if ctx.Err() != nil {
				return nil, failure(fault.Interrupted,
					"%s continues; `prelet status --wait` reports how it ends", ApplyUnit)
			}
			return nil, failure(fault.Systemd, "%s", err)
		}
		if b, err := nodefile.ReadFile(answer, nodefile.Max); err == nil {
			return decodeReply(b)
		}
		if result == "canceled" { // by a stop, which another start would cancel in its turn
			return nil, failure(fault.Interrupted,
				"%s was stopped; `prelet status --wait` reports how it ends", ApplyUnit)
		}
	}
	return nil, failure(
		fault.Systemd,
		"%s ended without an answer (its job: %s); see journalctl -u %s",
		ApplyUnit,
		result,
		ApplyUnit,
	)
}

// showProgress shows the stages of the run in the unit on a terminal, until stop.
func (e *Env) showProgress(h *Host) (stop func()) {
	show := e.Progress
	if show == nil {
		return func() {}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state := map[string]string{}
		for {
			select {
			case <-done:
				return
			case <-time.After(statusEvery):
			}
			s, err := h.loadReport()
			if err != nil || s.State != report.Running {
				continue
			}
			for _, x := range s.Stages {
				if state[x.Address] != x.State {
					state[x.Address] = x.State
					show(
						boot.Event{
							Stage: x.Address,
							State: x.State,
							Took:  time.Duration(x.Millis) * time.Millisecond,
						},
					)
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// serveAll serves all requests in order, and returns the reply with the highest exit status. It returns nil without a
// request: then the unit was started by hand, or to finish the work of a killed one.
func (e *Env) serveAll(h *Host) (done *Reply) {
	removeAbandoned(h)
	defer removeAbandoned(h)

	for _, left := range listRequests(h.RunDir, servingPrefix) {
		// The process that served it was killed. Its request is not done twice: the run that follows recovers.
		id := requestID(left, servingPrefix)
		killed := refusal(fault.Interrupted, "%s was killed; %s", ApplyUnit, describeAfterKill(h, left))
		killed.PID = readRequest(left).PID
		writeReply(h, id, killed)
		_ = os.Remove(left)
		return nil
	}
	for _, name := range listRequests(h.RunDir, requestPrefix) {
		id := requestID(name, requestPrefix)
		serving := filepath.Join(h.RunDir, servingPrefix+id+".json")
		if err := os.Rename(name, serving); err != nil {
			continue // the process that asked has ended
		}
		out := e.serveOne(serving)
		writeReply(h, id, out)
		_ = os.Remove(serving)
		if out.Failure != "" {
			e.Say(out.Failure)
		}
		if done == nil {
			done = &Reply{}
		}
		done.Code = higherCode(done.Code, out.Code)
	}
	return done
}

// describeAfterKill describes what follows for a request whose server was killed: a commit is finished, a rollback
// that was not committed is not repeated.
func describeAfterKill(h *Host, serving string) string {
	r := readRequest(serving)
	if len(r.Args) > 0 && r.Args[0] == "rollback" {
		store, err := generation.OpenReadOnly(h.storeOptions())
		if err == nil {
			defer store.Close()
			if j, err := store.Journal(); err == nil && j == nil {
				return "no record shows a rollback: see prelet history, " +
					"and give prelet rollback again if need be " +
					"(a generation that is pinned already stays until prelet rollback --release)"
			}
		}
	}
	return "it is started again and finishes what was begun (prelet status --wait)"
}

func (e *Env) serveOne(name string) replyFile {
	var r request
	b, err := nodefile.ReadFile(name, nodefile.Max)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	isAllowed := len(r.Args) > 0 && (r.Args[0] == "run" || r.Args[0] == "rollback")
	if err == nil && !isAllowed {
		err = errors.New("it asks for something else than run or rollback")
	}
	if err != nil {
		return refusal(fault.Usage, "%s: %s", name, err)
	}
	return replyFile{Reply: e.Serve(r.Args), PID: r.PID}
}

// readRequest returns a request, or an empty one if it cannot be read.
func readRequest(name string) (r request) {
	b, err := nodefile.ReadFile(name, nodefile.Max)
	if err != nil || json.Unmarshal(b, &r) != nil {
		return request{}
	}

	return r
}

// removeAbandoned removes replies whose requester was killed.
func removeAbandoned(h *Host) {
	for _, name := range listRequests(h.RunDir, replyPrefix) {
		var r replyFile

		b, err := nodefile.ReadFile(name, nodefile.Max)
		if err != nil || json.Unmarshal(b, &r) != nil {
			r.PID = 0
		}

		st, err := os.Stat(name)
		if err == nil && isAbandoned(r.PID, st.ModTime()) {
			_ = os.Remove(name)
		}
	}
}

func writeReply(h *Host, id string, r replyFile) {
	r.Exit = r.Code.Exit()
	b, err := json.Marshal(r)
	if err == nil {
		err = commit.WriteIfChanged(filepath.Join(h.RunDir, replyPrefix+id+".json"), b)
	}
	if err != nil { // the process that follows reports that no answer came
		_ = h.Notify.Status("the answer to a request cannot be left: " + err.Error())
	}
}

// listRequests returns the files of one kind, oldest first.
func listRequests(dir, prefix string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, prefix+"*.json"))
	age := map[string]time.Time{}
	for _, n := range names {
		if st, err := os.Stat(n); err == nil {
			age[n] = st.ModTime()
		}
	}
	slices.SortStableFunc(names, func(x, y string) int {
		return age[x].Compare(age[y])
	})
	return names
}

func requestID(name, prefix string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), prefix), ".json")
}

package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// A command by hand that changes a node runs in prelet-apply.service: it has the credentials and the drop-ins of the
// unit, it is started again when it is killed, and it does not end with a session. The command listens on a socket in
// the run folder, where only root may make one, and starts the unit. The unit connects, receives the command line and
// the descriptors for its output, and sends the code with which the command ended.
const (
	requestPrefix = "request-"
	maxRequest    = 128 << 10 // bytes of a command line

	followTime = 20 * time.Minute // two watches of the longest sensible timeout
	followRuns = 4
)

// Ended is how a command ended that another process ran for this one, or this one for others. All output is printed.
type Ended struct {
	Code fault.Code // "" where it succeeded
}

// Error implements error.
func (e Ended) Error() string { return string(e.Code) }

// delegate hands a command to prelet-apply.service and follows it, or serves the requests of others where this is that
// unit. It returns nil when the command is to run in this process: inside prelet's own units, without systemd, and with
// --config, because the unit cannot read a folder below /home or /tmp.
func (e *Env) delegate(ctx context.Context, h *Host, config, args []string) error {
	switch {
	case e.Serve == nil || !h.Systemd:
		return nil
	case h.Self == ApplyUnit:
		return e.serveAll(h)
	case h.Self != "" || len(config) > 0:
		return nil
	}
	u, err := h.Units.Look(ctx, ApplyUnit)
	if err != nil {
		return failure(fault.Systemd, "%s", err)
	}
	if u.Load != "loaded" {
		e.Say(ApplyUnit + " is not installed, so this works in this process: do not end it")
		return nil
	}
	return e.follow(ctx, h, args)
}

// follow offers a request, starts the unit and returns how it ended.
func (e *Env) follow(ctx context.Context, h *Host, args []string) error {
	if err := h.createRunDir(); err != nil {
		return err
	}
	folder, err := os.OpenFile(h.RunDir, unix.O_DIRECTORY, 0)
	if err != nil {
		return failure(fault.CannotWrite, "%s", err)
	}
	defer folder.Close()
	name := requestPrefix + rand.Text()[:8]
	socket, err := net.ListenUnix("unixpacket", socketIn(folder, name))
	if err == nil {
		defer socket.Close() // and removes the file
		err = os.Chmod(filepath.Join(h.RunDir, name), 0o600)
	}
	if err != nil {
		return failure(fault.CannotWrite, "a socket in %s: %s; prelet changes a node as root only",
			h.RunDir, err)
	}

	isTaken := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- e.handOver(socket, args, isTaken) }()

	interrupted := failure(fault.Interrupted, "%s continues; `prelet status --wait` reports how it ends", ApplyUnit)
	result := ""
	// Systemd merges our start with a running one, which may have begun before the request was offered.
	for range followRuns {
		result, err = h.Units.Start(ctx, ApplyUnit, followTime)
		if err != nil {
			if ctx.Err() != nil {
				return interrupted
			}
			return failure(fault.Systemd, "%s", err)
		}
		select {
		case <-isTaken:
			select {
			case err := <-ended:
				return err
			case <-ctx.Done():
				return interrupted
			}
		default:
		}
		if result == "canceled" { // by a stop, which another start would cancel in its turn
			return failure(fault.Interrupted,
				"%s was stopped; `prelet status --wait` reports how it ends", ApplyUnit)
		}
	}
	return failure(
		fault.Systemd,
		"%s ended without an answer (its job: %s); see journalctl -u %s",
		ApplyUnit,
		result,
		ApplyUnit,
	)
}

// socketIn returns the address of a socket in a folder. It goes over the folder's descriptor, as an address has at most
// 107 bytes.
func socketIn(folder *os.File, name string) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name), Net: "unixpacket"}
}

// handOver waits for the unit, hands it a command line with this process's output, and returns how the command ended.
// A unit that is started again after a kill must not do it twice, so the file is removed first.
func (e *Env) handOver(
	socket *net.UnixListener,
	args []string,
	isTaken chan<- struct{},
) error {
	unit, err := socket.AcceptUnix()
	if err != nil {
		return err
	}
	defer unit.Close()
	_ = socket.Close()
	close(isTaken)

	text, err := json.Marshal(args)
	if err == nil {
		_, _, err = unit.WriteMsgUnix(
			text,
			unix.UnixRights(int(e.Stdout.Fd()), int(e.Stderr.Fd())),
			nil,
		)
	}
	if err != nil {
		return failure(fault.Internal, "%s: %s", ApplyUnit, err)
	}

	code := make([]byte, maxRequest)
	n, _ := unit.Read(code)
	if n == 0 {
		return failure(fault.Interrupted, "%s was killed; it is started again and finishes what was begun (prelet "+
			"status --wait); a rollback that prelet history does not show is to be given again", ApplyUnit)
	}

	return Ended{Code: fault.Code(strings.TrimSpace(string(code[:n])))}
}

// serveAll serves all requests, and returns the code of the highest exit status. It returns nil without a
// request: then the unit was started by hand, or to finish the work of a killed one.
func (e *Env) serveAll(h *Host) error {
	var done *Ended
	for _, name := range listRequests(h.RunDir) {
		code, isServed := e.serveOne(name)
		_ = os.Remove(name)
		if isServed && done == nil {
			done = &Ended{}
		}
		if isServed {
			done.Code = fault.Higher(done.Code, code)
		}
	}
	if done == nil {
		return nil
	}

	return *done
}

// serveOne serves a request. It reports false if the process that asked has ended.
func (e *Env) serveOne(name string) (code fault.Code, isServed bool) {
	folder, err := os.OpenFile(filepath.Dir(name), unix.O_DIRECTORY, 0)
	if err != nil {
		return "", false
	}
	defer folder.Close()
	asker, err := net.DialUnix("unixpacket", nil, socketIn(folder, filepath.Base(name)))
	if err != nil {
		return "", false
	}
	defer asker.Close()

	args, output, err := receiveRequest(asker)
	for _, f := range output {
		defer f.Close()
	}
	if err != nil {
		e.Say(name + ": " + err.Error())
		code = fault.Usage
	} else {
		code = e.Serve(args, output[0], output[1])
	}
	_, _ = asker.Write([]byte(code + "\n")) // one that has ended reads it from the status

	return code, true
}

// receiveRequest receives a command line, and the descriptors for its output and its messages.
func receiveRequest(asker *net.UnixConn) (args []string, output []*os.File, err error) {
	text := make([]byte, maxRequest)
	rights := make([]byte, unix.CmsgSpace(4*4))
	n, size, _, _, err := asker.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		descriptors, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, output, err
		}
		for _, d := range descriptors {
			output = append(output, os.NewFile(uintptr(d), "output"))
		}
	}

	err = json.Unmarshal(text[:n], &args)
	isAllowed := len(args) > 0 && (args[0] == "run" || args[0] == "rollback")
	if err == nil && (!isAllowed || len(output) != 2) {
		err = errors.New("it asks for something else than run or rollback")
	}

	return args, output, err
}

// listRequests returns the sockets of requests.
func listRequests(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, requestPrefix+"*"))

	return names
}

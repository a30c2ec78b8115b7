// Package request hands a command line to another process of prelet. A command listens on a socket in the run folder,
// where only root may make one. The unit connects, receives the command line and the descriptors for its output, and
// sends the code with which the command ended. The package starts no unit.
package request

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
)

const (
	prefix  = "request-"
	maxLine = 128 << 10 // bytes of a command line
)

// Offer is a command line that waits for a process to take it.
type Offer struct {
	Taken <-chan struct{} // closed when a process has taken it
	Ended <-chan Reply    // how it ended there

	folder *os.File
	socket *net.UnixListener
	taken  chan struct{}
}

// Reply is how a command ended in the other process.
type Reply struct {
	Code fault.Code // "" where it succeeded
	Err  error      // the other process did not report it
}

// Make offers a command line in a run folder, with the files for its output. The caller closes the offer.
func Make(dir string, args []string, stdout, stderr *os.File) (*Offer, error) {
	return makeNamed(dir, prefix+rand.Text()[:8], args, stdout, stderr)
}

func makeNamed(dir, name string, args []string, stdout, stderr *os.File) (*Offer, error) {
	folder, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUnix("unixpacket", socketIn(folder, name))
	if err != nil {
		_ = folder.Close()
		return nil, err
	}

	taken := make(chan struct{})
	ended := make(chan Reply, 1)
	o := &Offer{Taken: taken, Ended: ended, folder: folder, socket: socket, taken: taken}
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		o.Close()
		return nil, err
	}
	go func() {
		code, err := o.handOver(args, stdout, stderr)
		ended <- Reply{code, err}
	}()

	return o, nil
}

// Close removes the file of an offer that no process has taken.
func (o *Offer) Close() {
	_ = o.socket.Close()
	_ = o.folder.Close()
}

// socketIn returns the address of a socket in a folder. It goes over the folder's descriptor, as an address has at most
// 107 bytes.
func socketIn(folder *os.File, name string) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name), Net: "unixpacket"}
}

// handOver waits for the unit, hands it the command line, and returns how the command ended. A unit that is started
// again after a kill must not do it twice, so the file is removed first.
func (o *Offer) handOver(args []string, stdout, stderr *os.File) (fault.Code, error) {
	unit, err := o.socket.AcceptUnix()
	if err != nil {
		return "", err
	}
	defer unit.Close()
	_ = o.socket.Close()
	close(o.taken)

	text, err := json.Marshal(args)
	if err == nil {
		_, _, err = unit.WriteMsgUnix(
			text,
			unix.UnixRights(int(stdout.Fd()), int(stderr.Fd())),
			nil,
		)
	}
	if err != nil {
		return "", fault.Internal.Errorf("%s: %s", activation.ApplyUnit, err)
	}

	code := make([]byte, maxLine)
	n, _ := unit.Read(code)
	if n == 0 {
		return "", fault.Interrupted.Errorf("%s was killed; it is started again and finishes what was begun (prelet "+
			"status --wait); a rollback that prelet history does not show is to be given again", activation.ApplyUnit)
	}

	return fault.Code(strings.TrimSpace(string(code[:n]))), nil
}

// A Command runs a command line with the output of the process that asked for it.
type Command = func(args []string, stdout, stderr *os.File) fault.Code

// ServeAll serves all requests in a run folder, and returns the code of the highest exit status. It reports false
// without a request: then the unit was started by hand, or to finish the work of a killed one. say gets why a request
// was refused.
func ServeAll(dir string, run Command, say func(line string)) (code fault.Code, isServed bool) {
	for _, name := range List(dir) {
		one, isOne := serveOne(name, run, say)
		_ = os.Remove(name)
		code = fault.Higher(code, one)
		isServed = isServed || isOne
	}

	return code, isServed
}

// serveOne serves a request. It reports false if the process that asked has ended.
func serveOne(name string, run Command, say func(line string)) (code fault.Code, isServed bool) {
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
		say(name + ": " + err.Error())
		code = fault.Usage
	} else {
		code = run(args, output[0], output[1])
	}
	_, _ = asker.Write([]byte(code + "\n")) // if it has ended, it reads the code from the status

	return code, true
}

// receiveRequest receives a command line, and the descriptors for its output and its messages.
func receiveRequest(asker *net.UnixConn) (args []string, output []*os.File, err error) {
	text := make([]byte, maxLine)
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

// List returns the sockets of requests.
func List(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))

	return names
}

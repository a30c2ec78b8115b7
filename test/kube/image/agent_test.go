package image

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// agent is a connection to QEMU's guest agent, which runs commands in the machine as root.
type agent struct {
	conn  net.Conn
	lines *bufio.Reader
}

// result of a command in the machine.
type result struct {
	exit     int
	out, err string
}

func (r result) String() string { return fmt.Sprintf("exit %d\n%s%s", r.exit, r.out, r.err) }

// dial connects to the socket of the agent's serial port, and checks that the agent answers.
func dial(socket string) (*agent, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}

	a := &agent{conn: conn, lines: bufio.NewReader(conn)}
	id := time.Now().UnixNano() >> 20 // a double of JSON has 53 bits
	if err := a.write("guest-sync", map[string]any{"id": id}, 5*time.Second); err != nil {
		return nil, errors.Join(err, conn.Close())
	}

	// Results of an earlier connection may come first.
	for {
		var got json.RawMessage
		if err := a.read(&got); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if string(got) == fmt.Sprint(id) {
			return a, nil
		}
	}
}

func (a *agent) write(command string, arguments any, timeout time.Duration) error {
	if err := a.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}

	line, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	_, err = a.conn.Write(append(line, '\n'))

	return err
}

func (a *agent) read(value any) error {
	line, err := a.lines.ReadBytes('\n')
	if err != nil {
		return err
	}

	var response struct {
		Return json.RawMessage
		Error  *struct{ Desc string }
	}
	if err := json.Unmarshal(line, &response); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	if response.Error != nil {
		return errors.New(response.Error.Desc)
	}

	return json.Unmarshal(response.Return, value)
}

func (a *agent) call(command string, arguments, value any) error {
	if err := a.write(command, arguments, 30*time.Second); err != nil {
		return err
	}

	return a.read(value)
}

// run runs a command with standard input to its end, for at most two minutes.
func (a *agent) run(stdin string, words ...string) (result, error) {
	var started struct{ PID int }
	err := a.call("guest-exec", map[string]any{
		"path":           words[0],
		"arg":            words[1:],
		"input-data":     base64.StdEncoding.EncodeToString([]byte(stdin)),
		"capture-output": true,
	}, &started)
	if err != nil {
		return result{}, fmt.Errorf("%q: %w", words, err)
	}

	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var status struct {
			Exited   bool
			Exitcode int
			Signal   int
			Out      []byte `json:"out-data"`
			Err      []byte `json:"err-data"`
		}
		if err := a.call("guest-exec-status", map[string]any{"pid": started.PID}, &status); err != nil {
			return result{}, fmt.Errorf("%q: %w", words, err)
		}
		if status.Exited {
			return result{status.Exitcode + status.Signal<<8, string(status.Out), string(status.Err)}, nil
		}
	}

	return result{}, fmt.Errorf("%q: %w after 2 minutes", words, io.ErrNoProgress)
}

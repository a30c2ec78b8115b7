package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Server is a running bench/serve or test/kube/cmd/serve: a cluster, in a process of its own so that its work is not
// measured.
type Server struct {
	URL        string `json:"url"`
	CA         string `json:"ca"` // PEM; bench/serve has none
	CAHash     string `json:"ca_hash"`
	Token      string `json:"token"`
	Kubeconfig string `json:"kubeconfig"` // of a node that has joined
	Version    string `json:"version"`    // of Kubernetes; bench/serve has none

	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// StartServer starts a server and reads its address.
func StartServer(ctx context.Context, command []string) (*Server, error) {
	s := &Server{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.lines = bufio.NewReader(stdout)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.read(s); err != nil {
		s.Stop()
		return nil, fmt.Errorf("%s did not print its address: %w", command[0], err)
	}

	return s, nil
}

// CountRequests returns the number of requests since the previous call.
func (s *Server) CountRequests() (float64, error) {
	if _, err := io.WriteString(s.stdin, "\n"); err != nil {
		return 0, err
	}
	var count struct {
		Requests float64 `json:"requests"`
	}
	err := s.read(&count)

	return count.Requests, err
}

func (s *Server) read(into any) error {
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		return err
	}

	return json.Unmarshal(line, into)
}

// Stop ends the server, which ends with its stdin, and waits for it.
func (s *Server) Stop() {
	_ = s.stdin.Close() // either it is open and ends the server, or the server has ended
	_ = s.cmd.Wait()    // the measurement is complete
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// cluster is a running bench/serve, which has built the machine too.
type cluster struct {
	URL        string `json:"url"`
	CAHash     string `json:"ca_hash"`
	Token      string `json:"token"`
	Kubeconfig string `json:"kubeconfig"`

	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func startCluster(ctx context.Context, o options, machine string) (*cluster, error) {
	c := &cluster{cmd: exec.CommandContext(
		ctx,
		filepath.Join(o.helpers, "serve"),
		"-kubelet-config",
		o.kubelet,
		"-delay",
		o.delay.String(),
		"-spec",
		o.spec,
		"-machine",
		machine,
	)}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := c.read(c); err != nil {
		c.stop()
		return nil, fmt.Errorf("bench/serve did not print its address: %w", err)
	}
	return c, nil
}

// countRequests returns the number of requests since the previous call.
func (c *cluster) countRequests() (float64, error) {
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		return 0, err
	}
	var count struct {
		Requests float64 `json:"requests"`
	}
	err := c.read(&count)
	return count.Requests, err
}

func (c *cluster) read(into any) error {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

// stop ends the server, which ends with its stdin, and waits for it.
func (c *cluster) stop() {
	_ = c.stdin.Close() // either it is open and ends the server, or the server has ended
	_ = c.cmd.Wait()    // the measurement is complete
}

// writeSite writes the site of a kubeadm worker, and the credential that it names.
func writeSite(base string, c *cluster) (site, credentials string, err error) {
	site, credentials = filepath.Join(base, "site.hcl"), filepath.Join(base, "credentials")
	if err := os.Mkdir(credentials, 0o700); err != nil {
		return "", "", err
	}
	tokenFile := filepath.Join(credentials, "bootstrap-token")
	if err := os.WriteFile(tokenFile, []byte(c.Token), 0o600); err != nil {
		return "", "", err
	}
	text := fmt.Sprintf(`cluster {
  servers        = [%q]
  ca_cert_hashes = [%q]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }

stage "label" "gpu" {
  when   = length(stage.detect-hw.node.gpus) > 0
  labels = { "accelerator" = slug(stage.detect-hw.node.gpus[0].model) }
}

stage "taint" "gpu" {
  when   = length(stage.detect-hw.node.gpus) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}

stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`, c.URL, c.CAHash)
	return site, credentials, os.WriteFile(site, []byte(text), 0o600)
}

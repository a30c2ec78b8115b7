package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// sample is one execution of one program, with all processes that it started and waited for.
type sample struct {
	WallMS   float64 `json:"wall_ms"`
	CPUMS    float64 `json:"cpu_ms"`  // user and system time
	RSSMiB   float64 `json:"rss_mib"` // largest resident set of one process; see ownRSS
	Requests float64 `json:"requests"`
	Written  float64 `json:"written"` // blocks of 512 bytes written to the file system
}

// program is one row of the table.
type program struct {
	name string
	// command returns the command line for a round, which owns a folder.
	command func(round string) []string
	// before prepares the round and is not measured. Nil: nothing to prepare.
	before func(ctx context.Context, round string) error
}

// measureBoots runs every program once per round, so that a slow moment of the machine hits all of them, and returns
// the samples by program name. The first round warms the page cache and is not counted.
//
// No round is removed before the end: ext4 without a journal walks over the inodes that were deleted in the last half
// minute, so a program that creates files would pay for the rounds before it.
func measureBoots(ctx context.Context, o options) (map[string][]sample, error) {
	base, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)

	machine := filepath.Join(base, "machine")

	cluster, err := startCluster(ctx, o, machine)
	if err != nil {
		return nil, err
	}
	defer cluster.stop()

	if os.Geteuid() == 0 {
		if err := layOver(machine); err != nil {
			return nil, err
		}
	}

	site, credentials, err := writeSite(base, cluster)
	if err != nil {
		return nil, err
	}
	environment := append(os.Environ(), "CREDENTIALS_DIRECTORY="+credentials)

	floorRun := func(round string) []string {
		return []string{
			filepath.Join(o.helpers, "floor"), "-server", cluster.URL, "-ca-hash", cluster.CAHash,
			"-token-file", filepath.Join(credentials, "bootstrap-token"),
			"-hardware", machine, "-out", filepath.Join(round, "floor"),
		}
	}
	preletRun := func(round string) []string {
		command := []string{
			o.prelet,
			"run",
			"--config",
			site,
			"--root",
			filepath.Join(round, "root"),
		}

		return append(command, hardwareFlag(machine)...)
	}
	// joinNode makes the node a joined one and runs prelet once, so that the next boot has nothing to do.
	joinNode := func(ctx context.Context, round string) error {
		path := filepath.Join(round, "root/etc/kubernetes/kubelet.conf")
		if err := os.WriteFile(path, []byte(cluster.Kubeconfig), 0o600); err != nil {
			return err
		}

		if _, _, err := measure(ctx, environment, nil, preletRun(round)); err != nil {
			return err
		}

		_, err := cluster.countRequests()
		return err
	}

	programs := []program{
		{name: floor, command: floorRun},
		{name: first, command: preletRun},
		{name: unjoined, command: preletRun},
		{name: again, command: preletRun, before: joinNode},
		{name: version, command: func(string) []string {
			return []string{o.prelet, "version"}
		}},
	}

	samples := map[string][]sample{}
	for i := range o.n + 1 {
		round, err := makeRound(base, i)
		if err != nil {
			return nil, err
		}

		for _, p := range programs {
			s, err := measureProgram(ctx, p, round, environment, cluster)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				samples[p.name] = append(samples[p.name], s)
			}
		}
	}

	return samples, nil
}

// measureProgram prepares and runs one program in one round.
func measureProgram(
	ctx context.Context, p program, round string, environment []string, c *cluster,
) (sample, error) {
	if p.before != nil {
		if err := p.before(ctx, round); err != nil {
			return sample{}, fmt.Errorf("before %s: %w", p.name, err)
		}
	}

	s, _, err := measure(ctx, environment, nil, p.command(round))
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", p.name, err)
	}

	s.Requests, err = c.countRequests()

	return s, err
}

// measure runs a command, as credential's user unless that is nil, and also returns its standard output. The error
// contains the command's output.
func measure(
	ctx context.Context, environment []string, credential *syscall.Credential, command []string,
) (sample, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = environment
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}

	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		line := strings.Join(command, " ")
		return sample{}, nil, fmt.Errorf("%s: %w\n%s%s", line, err, &stdout, &stderr)
	}

	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return sample{}, nil, errors.New("this system does not report the resource usage of a process")
	}

	return sample{
		WallMS:  milliseconds(wall),
		CPUMS:   milliseconds(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()),
		RSSMiB:  float64(usage.Maxrss) / 1024,
		Written: float64(usage.Oublock),
	}, stdout.Bytes(), nil
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}

// ownRSS returns the largest resident set of this process in MiB. Linux passes it on to a child between fork and
// exec, so no child appears smaller. That is why the server is not in this process.
func ownRSS() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}

	return float64(usage.Maxrss) / 1024
}

// makeRound makes the folder of one round: an empty one for the floor, and a root as the package leaves it.
func makeRound(base string, i int) (string, error) {
	round := filepath.Join(base, fmt.Sprintf("round-%d", i))
	folders := []string{
		"floor", "root/etc/kubernetes/pki", "root/etc/default",
		"root/var/lib/kubelet", "root/var/lib/prelet", "root/run/prelet",
	}

	for _, dir := range folders {
		if err := os.MkdirAll(filepath.Join(round, dir), 0o755); err != nil {
			return "", err
		}
	}

	return round, nil
}

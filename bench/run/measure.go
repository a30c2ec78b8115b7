package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// sample is one execution of one program.
type sample struct {
	WallMS   float64 `json:"wall_ms"`
	CPUMS    float64 `json:"cpu_ms"`  // user and system
	RSSMiB   float64 `json:"rss_mib"` // largest resident set; see ownRSS
	Requests float64 `json:"requests"`
	Written  float64 `json:"written"` // blocks of 512 bytes that went to the file system
}

// program is one line of the table.
type program struct {
	name   string
	args   func(round string) []string                   // the command, for a round that owns a folder
	before func(ctx context.Context, round string) error // what it needs and is not measured; nil: nothing
}

// measureAll runs every program in every round, and returns the samples of those that count, by program. No round is
// removed before the end: ext4 without a journal passes over the inodes of files that were deleted in the last half minute
// one by one, so that a program that creates files would pay for the rounds before it.
func measureAll(ctx context.Context, o options) (map[string][]sample, error) {
	base, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	prelet, floorProgram := filepath.Join(base, "prelet"), filepath.Join(base, "floor")
	if err := errors.Join(install(o.prelet, prelet), install(filepath.Join(o.helpers, "floor"), floorProgram)); err != nil {
		return nil, err
	}
	machine := filepath.Join(base, "machine")
	cluster, err := startCluster(ctx, o, machine)
	if err != nil {
		return nil, err
	}
	defer cluster.stop()
	site, credentials, err := writeSite(base, cluster)
	if err != nil {
		return nil, err
	}

	preletRun := func(round string) []string {
		return []string{prelet, "run", "--config", site, "--root", filepath.Join(round, "root"), "--hardware", machine}
	}
	programs := []program{
		{name: floor, args: func(round string) []string {
			return []string{floorProgram, "-server", cluster.URL, "-ca-hash", cluster.CAHash,
				"-token-file", filepath.Join(credentials, "bootstrap-token"), "-hardware", machine, "-out", filepath.Join(round, "floor")}
		}},
		{name: first, args: preletRun},
		{name: unjoined, args: preletRun},
		// The kubelet has joined with what the first run wrote, and a run has seen that: the next boot has nothing to do.
		{name: again, args: preletRun, before: func(ctx context.Context, round string) error {
			if err := os.WriteFile(filepath.Join(round, "root/etc/kubernetes/kubelet.conf"), []byte(cluster.Kubeconfig), 0o600); err != nil {
				return err
			}
			_, err := measure(ctx, preletRun(round), credentials)
			return err
		}},
		{name: version, args: func(string) []string { return []string{prelet, "version"} }},
	}

	samples := map[string][]sample{}
	for i := range o.n + 1 {
		round, err := makeRound(base, i)
		if err != nil {
			return nil, err
		}
		for _, p := range programs {
			if p.before != nil {
				if err := p.before(ctx, round); err != nil {
					return nil, fmt.Errorf("before %s: %w", p.name, err)
				}
				if _, err := cluster.asked(); err != nil {
					return nil, err
				}
			}
			s, err := measure(ctx, p.args(round), credentials)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if s.Requests, err = cluster.asked(); err != nil {
				return nil, err
			}
			if i > 0 { // the round before warms what a second boot would find warm: the file cache
				samples[p.name] = append(samples[p.name], s)
			}
		}
	}
	return samples, nil
}

// install writes a program as dpkg does, in pieces of 32 KiB, which the page cache keeps together. The linker writes through a
// mapping, which leaves single pages in the cache: each start maps them one by one, and a run takes a tenth more CPU time than
// on a node. Larger pieces than dpkg's save no more of it, and are mapped in whole: 2 MiB more of resident memory.
func install(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// Not by the kernel's own copying, which may share the pages of the original.
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, dpkgPiece))
	return err
}

const dpkgPiece = 32 << 10 // bytes; seen with strace, dpkg 1.21.22

// measure runs one command to its end.
func measure(ctx context.Context, command []string, credentials string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+credentials)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	at := time.Now()
	err := cmd.Run()
	wall := time.Since(at)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, said.String())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return sample{}, fmt.Errorf("this system does not say what a process used")
	}
	return sample{
		WallMS:  wall.Seconds() * 1e3,
		CPUMS:   (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() * 1e3,
		RSSMiB:  float64(usage.Maxrss) / 1024,
		Written: float64(usage.Oublock),
	}, nil
}

// ownRSS is the largest resident set of this process in MiB. Linux hands it on to a child between fork and exec, so no
// child seems smaller; that is why the server is not in this process.
func ownRSS() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Maxrss) / 1024
}

// makeRound makes the folder of one round: an empty one for the floor, and a root as a package leaves it.
func makeRound(base string, i int) (string, error) {
	round := filepath.Join(base, fmt.Sprintf("round-%d", i))
	for _, dir := range []string{"floor", "root/etc/kubernetes/pki", "root/etc/default", "root/var/lib/kubelet", "root/var/lib/prelet", "root/run/prelet"} {
		if err := os.MkdirAll(filepath.Join(round, dir), 0o755); err != nil {
			return "", err
		}
	}
	return round, nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prelet/prelet/bench/measure"
)

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
func measureBoots(ctx context.Context, o options) (map[string][]measure.Sample, error) {
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
	defer cluster.Stop()

	if os.Geteuid() == 0 {
		if err := measure.LayOver(machine); err != nil {
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

		if _, _, err := (measure.Command{Args: preletRun(round), Env: environment}).Run(ctx); err != nil {
			return err
		}

		_, err := cluster.CountRequests()
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

	samples := map[string][]measure.Sample{}
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
	ctx context.Context, p program, round string, environment []string, c *measure.Server,
) (measure.Sample, error) {
	if p.before != nil {
		if err := p.before(ctx, round); err != nil {
			return measure.Sample{}, fmt.Errorf("before %s: %w", p.name, err)
		}
	}

	s, _, err := measure.Command{Args: p.command(round), Env: environment}.Run(ctx)
	if err != nil {
		return measure.Sample{}, fmt.Errorf("%s: %w", p.name, err)
	}

	s.Requests, err = c.CountRequests()

	return s, err
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

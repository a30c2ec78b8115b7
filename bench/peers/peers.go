package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/prelet/prelet/bench/measure"
)

// row is one program of the table.
type row struct {
	Name    string           `json:"name"`
	Version string           `json:"version"`
	Disk    int64            `json:"disk_bytes"` // the program and what it needs in addition to a minimal Debian
	Samples []measure.Sample `json:"samples"`
}

// measurePeers runs each program once per round, each on a node of its own.
func (b *bench) measurePeers(ctx context.Context) ([]row, error) {
	all := programs()
	rows := make([]row, len(all))
	for i, p := range all {
		var err error
		rows[i].Name = p.name
		if rows[i].Version, rows[i].Disk, err = b.describe(ctx, p.name); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}

	for round := range b.n + 1 {
		for i, p := range all {
			s, err := b.measureProgram(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 {
				rows[i].Samples = append(rows[i].Samples, s)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round, b.n)
	}

	return rows, nil
}

// measureProgram prepares a node, measures the program on it, and checks what it wrote.
func (b *bench) measureProgram(ctx context.Context, p program) (measure.Sample, error) {
	n, err := b.newNode()
	if err != nil {
		return measure.Sample{}, err
	}
	commands, err := p.prepare(ctx, b, n)
	if err != nil {
		return measure.Sample{}, fmt.Errorf("prepare: %w", err)
	}
	if _, err := b.countRequests(); err != nil {
		return measure.Sample{}, err
	}
	before, err := p.statFiles(n)
	if err != nil {
		return measure.Sample{}, err
	}
	syscall.Sync() // what was prepared must not be written by an fsync of the program

	var sum measure.Sample
	var printed []byte
	for _, c := range commands {
		s, out, err := c.Run(ctx)
		if err != nil {
			return sum, err
		}
		sum.WallMS += s.WallMS
		sum.CPUMS += s.CPUMS
		sum.RSSMiB = max(sum.RSSMiB, s.RSSMiB)
		sum.Written += s.Written
		printed = append(append(printed, out.Stdout...), out.Stderr...)
	}
	if sum.Requests, err = b.countRequests(); err != nil {
		return sum, err
	}
	if !bytes.Contains(printed, []byte(p.output)) {
		return sum, fmt.Errorf("got the output\n%s\nwant %q in it", printed, p.output)
	}
	if err := b.checkFiles(p, n); err != nil {
		return sum, err
	}
	after, err := p.statFiles(n)
	if err != nil {
		return sum, err
	}
	if !slices.Equal(before, after) {
		return sum, fmt.Errorf("files changed: got %+v, want %+v as before", after, before)
	}

	return sum, n.unmount()
}

// fileState changes when a file is written or replaced.
type fileState struct {
	name     string
	inode    uint64
	modified syscall.Timespec
	changed  syscall.Timespec
}

// statFiles returns the state of the files that the program must not write, none for other programs.
func (p program) statFiles(n *node) ([]fileState, error) {
	if !p.keeps {
		return nil, nil
	}

	var all []fileState
	for _, name := range p.files {
		var s syscall.Stat_t
		if err := syscall.Stat(filepath.Join(n.root, name), &s); err != nil {
			return nil, fmt.Errorf("stat %s: %w", name, err)
		}
		all = append(all, fileState{name, s.Ino, s.Mtim, s.Ctim})
	}

	return all, nil
}

// countRequests counts those to the cluster and to the metadata service since the previous call.
func (b *bench) countRequests() (float64, error) {
	n, err := b.server.CountRequests()

	return n + float64(b.metadata.requests.Swap(0)), err
}

// checkFiles returns an error unless the program did the work that it is measured with.
func (b *bench) checkFiles(p program, n *node) error {
	for _, name := range p.files {
		got, err := os.ReadFile(filepath.Join(n.root, name))
		if err != nil {
			return err
		}
		if len(got) == 0 {
			return fmt.Errorf("got an empty file %s, want text in it", name)
		}
		if !p.same {
			continue
		}
		want, err := os.ReadFile(filepath.Join(b.base, "first", name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s: got\n%s\nwant prelet's\n%s", name, got, want)
		}
	}

	if p.name == firstName { // the files that others are given
		first := filepath.Join(b.base, "first")
		_ = os.Remove(first) // of the round before
		return os.Symlink(filepath.Base(n.root), first)
	}

	return nil
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

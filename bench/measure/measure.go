// Package measure runs programs and measures their time and memory. It also makes a recorded machine visible to them,
// starts the cluster that they talk to, and reports what other programs did meanwhile. It must not decide what is
// measured: that is in the commands below bench/.
package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sample is one execution of one program, with all processes that it started and waited for.
type Sample struct {
	WallMS   float64 `json:"wall_ms"`
	CPUMS    float64 `json:"cpu_ms"`  // user and system time
	RSSMiB   float64 `json:"rss_mib"` // largest resident set of one process; see OwnRSS
	Requests float64 `json:"requests"`
	Written  float64 `json:"written"` // blocks of 512 bytes written to the file system
}

// Command is a program to measure.
type Command struct {
	Args []string
	Env  []string
	Root string              // the folder that is / for the program; "": no other
	User *syscall.Credential // nil: the user of this process
}

// timeout is far more than any program takes.
const timeout = 10 * time.Minute

// Output is what a program printed.
type Output struct{ Stdout, Stderr []byte }

// Run measures one execution, without requests. The error contains the command's output.
func (c Command) Run(ctx context.Context) (Sample, Output, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = c.Env
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.User, Chroot: c.Root}
	if c.Root != "" {
		cmd.Dir = "/"
	}

	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		line := strings.Join(c.Args, " ")
		return Sample{}, Output{}, fmt.Errorf("%s: %w\n%s%s", line, err, &stdout, &stderr)
	}

	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return Sample{}, Output{}, errors.New("this system does not report the resource usage of a process")
	}

	return Sample{
		WallMS:  milliseconds(wall),
		CPUMS:   milliseconds(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()),
		RSSMiB:  float64(usage.Maxrss) / 1024,
		Written: float64(usage.Oublock),
	}, Output{stdout.Bytes(), stderr.Bytes()}, nil
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}

// OwnRSS returns the largest resident set of this process in MiB. Linux passes it on to a child between fork and
// exec, so no child appears smaller. That is why a server must not be in the measuring process.
func OwnRSS() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}

	return float64(usage.Maxrss) / 1024
}

// MedianOf returns the median of each figure.
func MedianOf(samples []Sample) Sample {
	of := func(figure func(Sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = figure(s)
		}

		return Median(values)
	}

	return Sample{
		WallMS:   of(func(s Sample) float64 { return s.WallMS }),
		CPUMS:    of(func(s Sample) float64 { return s.CPUMS }),
		RSSMiB:   of(func(s Sample) float64 { return s.RSSMiB }),
		Requests: of(func(s Sample) float64 { return s.Requests }),
		Written:  of(func(s Sample) float64 { return s.Written }),
	}
}

// Median returns the middle value, the mean of the middle two for an even number of values, and 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}

	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}

	return (sorted[half-1] + sorted[half]) / 2
}

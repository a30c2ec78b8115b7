// Command detect measures what vendors' detectors add to a boot: `prelet detect` with none, with one that has no matching
// device, with one and with four, in turns, so that a noisy minute hits all alike. It says what others took of the machine
// meanwhile. It starts prelet and prelet-detect, and writes only below -dir, which it empties again. As root it measures as
// nobody: the users that detectors run as are made by packages.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const nobody = 65534

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n := flag.Int("n", 15, "`ROUNDS` that count; one more goes before them")
	prelet := flag.String("prelet", "bin/prelet", "the `PROGRAM` to measure; prelet-detect is beside it")
	vendor := flag.String("vendor", "bin/bench/vendor", "the detector")
	dir := flag.String("dir", "", "`FOLDER` to work in; \"\" is that for temporary files")
	flag.Parse()
	if err := run(ctx, *n, *prelet, *vendor, *dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// scenario is a site with some detectors.
type scenario struct {
	name, site string
	running    int     // detectors that have something to do
	aim        float64 // milliseconds more than without any
	runs       []sample
	more       []sample // than without any, in the same turn
}

// turns is how often a round asks where no detector runs: that takes some milliseconds and has a bound of one, which few runs
// cannot tell from a busy moment.
const turns = 8

// sample is one run, in milliseconds.
type sample struct {
	wall float64
	cpu  float64 // user and system time of prelet and of all that it started
}

func wall(s sample) float64 { return s.wall }
func cpu(s sample) float64  { return s.cpu }

func run(ctx context.Context, n int, prelet, vendor, dir string, out io.Writer) error {
	root, err := os.MkdirTemp(dir, "detect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	b := bench{root: root, prelet: filepath.Join(root, "bin/prelet")}
	if err := b.install(ctx, prelet, vendor); err != nil {
		return err
	}
	all := []*scenario{{name: "no detector"}, {name: "one, without a matching device", site: "detector \"absent\" {}\n", aim: 1},
		{name: "one", running: 1, site: "detector \"one\" {}\n", aim: 40}, {name: "four", running: 4, site: "detector \"one\" {}\ndetector \"two\" {}\ndetector \"three\" {}\ndetector \"four\" {}\n", aim: 60}}
	for i, s := range all {
		if err := b.write(fmt.Sprintf("site%d/site.hcl", i), s.site+"stage \"detect-hw\" \"node\" {}\n"); err != nil {
			return err
		}
	}
	before, err := now()
	if err != nil {
		return err
	}
	for round := range n + 1 {
		for turn := range turns {
			var none sample
			for i, s := range all {
				if turn > 0 && s.running > 0 {
					continue
				}
				took, err := b.detect(ctx, fmt.Sprintf("%s/site%d", root, i), s.running, i == 1)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				if i == 0 {
					none = took
				}
				if round > 0 {
					s.runs = append(s.runs, took)
					s.more = append(s.more, sample{wall: took.wall - none.wall, cpu: took.cpu - none.cpu})
				}
			}
		}
	}
	after, err := now()
	if err != nil {
		return err
	}
	size, err := os.Stat(vendor)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("What detectors of %.1f MB add to `prelet detect`, ms; medians of %d in turns, and of the differences\n%s\n", float64(size.Size())/1e6, n, after.since(before))
	return report(out, head, all)
}

type bench struct{ root, prelet string }

func (b bench) write(path, text string) error {
	path = filepath.Join(b.root, path)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// install puts prelet, the detector under five names, and their locks into the folder, which then is nobody's.
func (b bench) install(ctx context.Context, prelet, vendor string) error {
	const programs, locks = "usr/lib/prelet/detectors/", "usr/lib/prelet/detectors.lock.d/"
	from := map[string]string{"bin/prelet": prelet, "bin/prelet-detect": filepath.Join(filepath.Dir(prelet), "prelet-detect")}
	names := []string{"one", "two", "three", "four", "absent"}
	for _, n := range names {
		from[programs+n] = vendor
	}
	for to, p := range from {
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		to = filepath.Join(b.root, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o755)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(b.root, locks), 0o755); err != nil {
		return err
	}
	if err := b.own(); err != nil {
		return err
	}
	args := []string{"detectors", "lock", "--root", b.root}
	for _, n := range names {
		args = append(args, filepath.Join(b.root, programs, n))
	}
	if _, _, err := b.start(ctx, args...); err != nil {
		return err
	}
	path := filepath.Join(b.root, locks, "absent.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed := bytes.Replace(text, []byte(`"always": true`), []byte(`"pci_ids": ["ffff:fffe"]`), 1)
	if bytes.Equal(text, changed) {
		return fmt.Errorf("%s does not say that it matches always", path)
	}
	return os.WriteFile(path, changed, 0o644)
}

func (b bench) own() error {
	if os.Geteuid() != 0 {
		return os.Chmod(b.root, 0o755)
	}
	return errors.Join(os.Chmod(b.root, 0o755), filepath.WalkDir(b.root, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, nobody, nobody))
	}))
}

// start runs prelet, and returns what it printed and the CPU time that it and its children took.
func (b bench) start(ctx context.Context, args ...string) ([]byte, time.Duration, error) {
	c := exec.CommandContext(ctx, b.prelet, args...)
	c.Env = []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=4"} // as the units have it
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		return nil, 0, fmt.Errorf("prelet %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out.Bytes(), c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}

// detect is one run, and looks that the detectors did what is measured.
func (b bench) detect(ctx context.Context, site string, want int, skipped bool) (one sample, err error) {
	began := time.Now()
	out, cpu, err := b.start(ctx, "detect", "-o", "json", "--root", b.root, "--config", site)
	one = sample{wall: milliseconds(time.Since(began)), cpu: milliseconds(cpu)}
	if err != nil {
		return one, err
	}
	var said struct {
		Facts struct {
			Detectors map[string]struct{ State string }
		}
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return one, err
	}
	state := "ok"
	if skipped {
		state = "skipped"
	}
	for name, d := range said.Facts.Detectors {
		if d.State != state {
			return one, fmt.Errorf("detector %s is %s", name, d.State)
		}
	}
	if skipped {
		want = 1
	}
	if len(said.Facts.Detectors) != want {
		return one, fmt.Errorf("%d detectors were asked, want %d", len(said.Facts.Detectors), want)
	}
	return one, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func report(out io.Writer, head string, all []*scenario) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%-32s %8s %8s %8s %8s %8s %8s\n", head, "", "wall", "least", "adds", "bound", "", "CPU adds")
	for _, s := range all {
		fmt.Fprintf(&b, "%-32s %8.1f %8.1f", s.name, median(s.runs, wall), least(s.runs, wall))
		if s.aim > 0 {
			verdict := "met"
			if median(s.more, wall) > s.aim {
				verdict = "MISSED"
			}
			fmt.Fprintf(&b, " %8.1f %8.0f %8s %8.1f", median(s.more, wall), s.aim, verdict, median(s.more, cpu))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func of(l []sample, f func(sample) float64) []float64 {
	var out []float64
	for _, x := range l {
		out = append(out, f(x))
	}
	slices.Sort(out)
	return out
}

func least(l []sample, f func(sample) float64) float64 { return of(l, f)[0] }

func median(l []sample, f func(sample) float64) float64 {
	s := of(l, f)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Command detect measures what vendors' detectors add to a boot: `prelet detect` with none, with one that has no matching
// device, with one and with four, in turns. It starts prelet and prelet-detect, and writes only below -dir, which it empties
// again. As root it measures as nobody: the users that detectors run as are made by packages.
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
	aim        float64 // milliseconds more than without any
	took       []float64
}

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
		{name: "one", site: "detector \"one\" {}\n", aim: 40}, {name: "four", site: "detector \"one\" {}\ndetector \"two\" {}\ndetector \"three\" {}\ndetector \"four\" {}\n", aim: 60}}
	for i, s := range all {
		if err := b.write(fmt.Sprintf("site%d/site.hcl", i), s.site+"stage \"detect-hw\" \"node\" {}\n"); err != nil {
			return err
		}
	}
	for round := range n + 1 {
		for i, s := range all {
			took, err := b.detect(ctx, fmt.Sprintf("%s/site%d", root, i), strings.Count(s.site, "{}"), i == 1)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if round > 0 {
				s.took = append(s.took, took)
			}
		}
	}
	return report(out, all)
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
	if _, err := b.start(ctx, args...); err != nil {
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

func (b bench) start(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, b.prelet, args...)
	c.Env = []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=4"} // as the units have it
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("prelet %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out.Bytes(), nil
}

// detect is one run, in milliseconds, and looks that the detectors did what is measured.
func (b bench) detect(ctx context.Context, site string, want int, skipped bool) (float64, error) {
	began := time.Now()
	out, err := b.start(ctx, "detect", "-o", "json", "--root", b.root, "--config", site)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	var said struct {
		Facts struct {
			Detectors map[string]struct{ State string }
		}
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return 0, err
	}
	state := "ok"
	if skipped {
		state = "skipped"
	}
	for name, d := range said.Facts.Detectors {
		if want--; d.State != state {
			return 0, fmt.Errorf("detector %s is %s", name, d.State)
		}
	}
	if want > 0 && len(said.Facts.Detectors) == 0 {
		return 0, errors.New("no detector was asked")
	}
	return float64(took.Microseconds()) / 1000, nil
}

func report(out io.Writer, all []*scenario) error {
	var b strings.Builder
	fmt.Fprintf(&b, "What detectors add to `prelet detect`, ms of wall; medians of %d in turns, and of the differences\n\n%-32s %8s %8s %8s %8s %8s\n", len(all[0].took), "", "wall", "least", "adds", "aim", "")
	for _, s := range all {
		fmt.Fprintf(&b, "%-32s %8.1f %8.1f", s.name, median(s.took), slices.Min(s.took))
		if s.aim > 0 {
			var more []float64
			for i, t := range s.took {
				more = append(more, t-all[0].took[i])
			}
			verdict := "met"
			if median(more) > s.aim {
				verdict = "MISSED"
			}
			fmt.Fprintf(&b, " %8.1f %8.0f %8s", median(more), s.aim, verdict)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func median(l []float64) float64 {
	s := slices.Sorted(slices.Values(l))
	return s[len(s)/2]
}

// Command storm boots many nodes at once, as far as a cluster sees it: each asks for the CA and for its configuration by prelet's own
// code (live, boot, the site's stages), as itself, with its own token or its own certificate, from a root folder of its own, and plans.
// Nothing is written but these folders, and no kubelet is started.
//
//	storm -boots FILE [-dir FOLDER] [-together N]
//
// FILE is JSON: {"site": HCL, "boots": [{"name", "token", "kubeconfig"}]}. What came of it is one JSON document
// on stdout; progress is a line on stderr for each tenth of the boots that are done ("done N"), which a test can wait for.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

// storm is what a test wants.
type storm struct {
	Site  string `json:"site"`
	Boots []node `json:"boots"`
}

// node is one of them: with a token it joins, with a kubeconfig it has joined.
type node struct {
	Name       string `json:"name"`
	Token      string `json:"token,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// outcome is one boot.
type outcome struct {
	seconds float64
	failure string
	retries []retry
}

// retry is one with the time when it was decided on.
type retry struct {
	live.Retry
	at time.Time
}

func run() error {
	file := flag.String("boots", "", "`FILE` that says who boots")
	together := flag.Int("together", 0, "at most `N` boots at the same time; 0: all")
	dir := flag.String("dir", "", "`FOLDER` for the roots; a temporary one unless given")
	flag.Parse()
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var s storm
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if *dir == "" {
		made, err := os.MkdirTemp("", "storm")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		*dir = made
	}
	loaded, diags := site.Parse([]world.SiteFile{{Name: "site.hcl", Text: s.Site}}, site.Options{Stages: builtin.Stages(), Version: "0.1.0"})
	if diags.HasErrors() {
		return diags
	}
	for i, n := range s.Boots { // before the clock runs
		if err := n.prepare(root(*dir, i)); err != nil {
			return err
		}
	}
	done := make(chan outcome)
	turns := make(chan struct{}, len(s.Boots))
	if *together > 0 {
		turns = make(chan struct{}, *together)
	}
	began := time.Now()
	for i, n := range s.Boots {
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			done <- n.boot(loaded, root(*dir, i))
		}()
	}
	var all []outcome
	for range s.Boots {
		all = append(all, <-done)
		if len(all)%max(1, len(s.Boots)/10) == 0 {
			fmt.Fprintf(os.Stderr, "done %d\n", len(all))
		}
	}
	return json.NewEncoder(os.Stdout).Encode(summary(all, time.Since(began)))
}

func root(dir string, i int) string { return filepath.Join(dir, fmt.Sprint(i)) }

// prepare makes the node's root.
func (n node) prepare(root string) error {
	files := map[string]string{"etc/machine-id": fmt.Sprintf("%032x\n", n.Name)}
	if n.Kubeconfig != "" {
		files["etc/kubernetes/kubelet.conf"] = n.Kubeconfig
	}
	for p, text := range files {
		at := filepath.Join(root, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// boot is what `prelet plan` does, without a process of its own.
func (n node) boot(s *site.Site, root string) (out outcome) {
	var mu sync.Mutex
	began := time.Now()
	l := live.New(live.Options{Root: root, Site: s, Credentials: token(n.Token), Redactor: value.NewRedactor(),
		OnRetry: func(r live.Retry) {
			mu.Lock()
			defer mu.Unlock()
			out.retries = append(out.retries, retry{r, time.Now()})
		}})
	defer l.Close()
	p := boot.Run(context.Background(), s, boot.Options{Source: l, Now: time.Now})
	mu.Lock()
	defer mu.Unlock()
	out.seconds = time.Since(began).Seconds()
	if p.Diagnostics.HasErrors() || !p.Complete {
		out.failure = "not complete"
		if len(p.Diagnostics) > 0 {
			out.failure = p.Diagnostics[0].Summary + ": " + p.Diagnostics[0].Detail
		}
	}
	return out
}

// token is the node's only credential.
type token string

// Read implements live.Credentials.
func (t token) Read(name string) ([]byte, error) {
	if t == "" || name != "bootstrap-token" {
		return nil, fs.ErrNotExist
	}
	return []byte(t), nil
}

// result is what became of all of them.
type result struct {
	Boots    int            `json:"boots"`
	Failed   int            `json:"failed"`
	Failures []string       `json:"failures,omitempty"` // a few
	Seconds  float64        `json:"seconds"`            // until the last was done
	P50      float64        `json:"p50_s"`
	P90      float64        `json:"p90_s"`
	Max      float64        `json:"max_s"`
	Retried  int            `json:"retried"`      // boots that had to ask again
	Retries  int            `json:"retries"`      // how often
	Most     int            `json:"most_retries"` // by one boot
	Causes   map[string]int `json:"causes"`       // of retries
	// Early are attempts that were to come before the server wanted them (Retry-After).
	Early int `json:"early"`
	// Together is the largest number of retries that were planned for the same 10 ms; Herd is what it would be without chance.
	Together int `json:"together"`
	Herd     int `json:"herd"`
}

func summary(all []outcome, took time.Duration) result {
	r := result{Boots: len(all), Seconds: round(took.Seconds()), Causes: map[string]int{}}
	var seconds []float64
	slots, herds := map[int64]int{}, map[int64]int{}
	for _, o := range all {
		seconds = append(seconds, o.seconds)
		if o.failure != "" {
			r.Failed++
			if len(r.Failures) < 5 && !slices.Contains(r.Failures, o.failure) {
				r.Failures = append(r.Failures, o.failure)
			}
		}
		if len(o.retries) > 0 {
			r.Retried++
		}
		r.Retries += len(o.retries)
		r.Most = max(r.Most, len(o.retries))
		for _, x := range o.retries {
			r.Causes[cause(x.Why)]++
			if x.Wait < x.Asked {
				r.Early++
			}
			slots[x.at.Add(x.Wait).UnixMilli()/10]++
			herds[x.at.Add(x.Least).UnixMilli()/10]++
		}
	}
	for _, n := range slots {
		r.Together = max(r.Together, n)
	}
	for _, n := range herds {
		r.Herd = max(r.Herd, n)
	}
	slices.Sort(seconds)
	at := func(q float64) float64 {
		if len(seconds) == 0 {
			return 0
		}
		return round(seconds[min(len(seconds)-1, int(q*float64(len(seconds))))])
	}
	r.P50, r.P90, r.Max = at(0.5), at(0.9), at(1)
	return r
}

// cause is a reason without what differs from boot to boot.
func cause(why string) string {
	for _, c := range []string{"connection refused", "no connection within", "no whole answer", "HTTP 429", "not ready yet", "HTTP 401", "HTTP 403", "HTTP 500", "HTTP 503", "no signature", "broken pipe", "connection reset", "before a whole answer"} {
		if strings.Contains(why, c) {
			return c
		}
	}
	return why
}

func round(f float64) float64 { return math.Round(f*100) / 100 }

// Command storm boots many nodes at once, as far as a cluster sees it: each asks for the CA and for its configuration
// by prelet's own code (internal/machine/probe, internal/plan/evaluate, the site's stages), as itself, with its own
// token or its own certificate, from a root folder of its own, and plans. Nothing is written but these folders, and no
// kubelet is started.
//
//	storm -boots FILE -dir FOLDER -join PRELET
//	storm -boots FILE -dir FOLDER [-together N]
//
// FILE is JSON: {"site": HCL, "boots": [{"name", "token", "kubeconfig"}]}. With -join it makes the roots, and gives
// those with a kubeconfig the past of a node that has joined, by the program itself: it runs with the token, as on a
// first boot, then the kubelet's kubeconfig is there, and it runs once more. Without, all of them boot; joined nodes
// boot without a token. The result is one JSON document on stdout; progress is a line on stderr for each tenth of the
// boots that are done ("done N"), which a test can wait for.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages/builtin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

type storm struct {
	Site  string `json:"site"`
	Boots []node `json:"boots"`
}

func run() error {
	file := flag.String("boots", "", "`FILE` that says who boots")
	together := flag.Int("together", 0, "at most `N` boots at the same time; 0: all")
	dir := flag.String("dir", "", "`FOLDER` for the roots")
	join := flag.String("join", "", "make the roots, with `PRELET`, and boot none of them")
	flag.Parse()
	if *file == "" || *dir == "" {
		return errors.New("-boots and -dir are needed")
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var s storm
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if *join != "" {
		return s.join(*dir, *join)
	}
	loaded, diags := lang.Parse(
		[]tape.SiteFile{{Name: "site.hcl", Text: s.Site}},
		lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"},
	)
	if diags.HasErrors() {
		return diags
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

// node is one of the nodes: with a kubeconfig it has joined before, with its token; otherwise it joins now.
type node struct {
	Name       string `json:"name"`
	Token      string `json:"token"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// join makes all roots.
func (s storm) join(dir, prelet string) error {
	config := filepath.Join(dir, "site.hcl")
	if err := write(config, s.Site); err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(4)
	for i, n := range s.Boots {
		all.Go(func() error { return n.prepare(root(dir, i), prelet, config) })
	}

	return all.Wait()
}

// prepare creates the node's root: that of a fresh machine, or of a joined node.
func (n node) prepare(root, prelet, config string) error {
	err := errors.Join(
		write(filepath.Join(root, "etc/machine-id"), fmt.Sprintf("%032x\n", n.Name)),
		write(filepath.Join(root, "etc/hostname"), n.Name+"\n"),
	)
	if err != nil {
		return err
	}
	for _, dir := range []string{"etc/kubernetes/pki", "var/lib/kubelet", "var/lib/prelet"} { // as packages make them
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if n.Kubeconfig == "" {
		return nil
	}
	if err := write(filepath.Join(root, "credentials/bootstrap-token"), n.Token); err != nil {
		return err
	}
	boot := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, prelet, "run", "--config", config, "--root", root)
		cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+filepath.Join(root, "credentials"))
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s, before the storm: %w\n%s", n.Name, err, said)
		}
		return nil
	}
	if err := boot(); err != nil {
		return err
	}
	if err := write(filepath.Join(root, "etc/kubernetes/kubelet.conf"), n.Kubeconfig); err != nil {
		return err
	}
	return boot() // which sees that it has joined, and calls the generation good
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}

	return os.WriteFile(file, []byte(text), 0o600)
}

type outcome struct {
	began, ended time.Time
	failure      string
	retries      []retry
}

// retry is one with the time when it was decided on.
type retry struct {
	probe.Retry
	at time.Time
}

// boot plans like `prelet plan`, in this process, and without the last good answers: this boot must get its own.
func (n node) boot(s *lang.Site, root string) (out outcome) {
	var mu sync.Mutex
	out.began = time.Now()
	defer func() { out.ended = time.Now() }()
	state := filepath.Join(root, "var/lib/prelet")
	store, err := generation.OpenReadOnly(generation.StoreConfig{Root: root, Dir: state})
	if err != nil {
		out.failure = err.Error()
		return out
	}
	defer func() { _ = store.Close() }() // it was only read
	credentials := token(n.Token)
	if n.Kubeconfig != "" {
		credentials = "" // gone, as tokens are after a day
	}
	l := probe.New(
		probe.Sources{
			Root:        root,
			Site:        s,
			Credentials: credentials,
			Redactor:    secret.NewRedactor(),
			Store:       store,
			StateDir:    state,
			OnRetry: func(r probe.Retry) {
				mu.Lock()
				defer mu.Unlock()
				out.retries = append(out.retries, retry{r, time.Now()})
			},
		},
	)
	defer l.Close()
	options := evaluate.RunInput{Source: l, Now: time.Now}
	p := evaluate.Run(context.Background(), s, options)
	mu.Lock()
	defer mu.Unlock()
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

// Read implements probe.Credentials.
func (t token) Read(name string) ([]byte, error) {
	if t == "" || name != "bootstrap-token" {
		return nil, fs.ErrNotExist
	}
	return []byte(t), nil
}

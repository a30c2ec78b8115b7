// Package program is the kubelet's binary on an image: which file it is, its version, what its --help lists, and which
// certificates it refuses when it starts. It starts that binary, for five seconds at most and never below another root,
// and reads what apply keeps of its output.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/world"
)

// timeout bounds one question to the binary.
const timeout = 5 * time.Second

// Version is the kubelet's, by what is kept, or else by the binary where it may be started; "": nobody tells. A nil
// Binary is an image without a kubelet.
func (b *Binary) Version(ctx context.Context, mayStart bool) string {
	switch {
	case b == nil:
		return ""
	case b.kept != nil:
		return b.kept.Version
	case !mayStart:
		return ""
	}

	return b.askVersion(ctx)
}

// Accepts is what the binary's --help lists, by what is kept, or else by the binary where it may be started. A nil
// Binary is an image without a kubelet.
func (b *Binary) Accepts(ctx context.Context, mayStart bool) (*world.AcceptsAns, error) {
	switch {
	case b == nil:
		return nil, fmt.Errorf("there is no kubelet in %s", strings.Join(dirs(), ", "))
	case b.kept != nil && b.kept.Accepts != nil:
		return b.kept.Accepts, nil
	case !mayStart:
		return nil, errors.New("the kubelet of another root is not started here")
	}

	return b.askAccepts(ctx)
}

// askVersion asks the binary; "": it does not tell.
func (b *Binary) askVersion(ctx context.Context) string {
	out, err := run(ctx, b.file, "--version")
	v := strings.TrimSpace(strings.TrimPrefix(out, "Kubernetes "))
	if err != nil || !strings.HasPrefix(v, "v") || len(v) > 64 {
		return ""
	}
	return v
}

// askAccepts asks the binary.
func (b *Binary) askAccepts(ctx context.Context) (*world.AcceptsAns, error) {
	out, err := run(ctx, b.file, "--help")
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", b.Path(), err)
	}
	h, err := kubelet.ParseHelp(out)
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", b.Path(), err)
	}
	return &world.AcceptsAns{Flags: h.Flags, Deprecated: h.Deprecated, Alpha: h.Alpha, Beta: h.Beta}, nil
}

// Examined is what a kubelet's binary was asked at leisure.
type Examined struct {
	Path    string // "": there is none
	Version string // "": it does not tell
	Keep    []byte // to be kept; nil for nothing
}

// Examine asks the binary, whatever was kept of it. A binary below another root is not started: then only what is
// kept is returned.
func Examine(ctx context.Context, root, cache string) Examined {
	b := Find(root, cache)
	switch {
	case b == nil:
		return Examined{}
	case root == "":
		return b.examine(ctx)
	case b.kept == nil:
		return Examined{Path: b.Path()}
	}

	return Examined{Path: b.Path(), Version: b.kept.Version}
}

func (b *Binary) examine(ctx context.Context) Examined {
	out := Examined{Path: b.Path(), Version: b.askVersion(ctx)}
	accepts, _ := b.askAccepts(ctx) // without it the tables tell

	if c, ok := b.Keep(out.Version, accepts); ok && out.Version != "" {
		out.Keep, _ = c.Marshal() // else the next boot asks again
	}

	return out
}

// maxHelp bounds what is read of a help.
const maxHelp = 1 << 20

// run starts a program that prints something and ends.
func run(ctx context.Context, p, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p, arg)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = time.Second
	out := limited{most: maxHelp}
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", err
	}
	return out.b.String(), nil
}

// limited keeps the first bytes that are written to it, and takes the rest.
type limited struct {
	b    bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.most-l.b.Len())])
	return len(p), nil
}

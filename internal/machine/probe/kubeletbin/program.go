// Package kubeletbin finds the kubelet's binary on an image and reads its version and its --help, from a cache that
// apply writes or by starting it within the deadline of the run. It also checks certificates as that binary does.
// DryRun starts the binary with the files of a plan, in a private folder that it removes, and ConfigDump containerd. A
// binary below another root is confined.
package kubeletbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/plugins/sandbox"
)

// timeout is the time limit of one start of the binary without a deadline.
const timeout = 15 * time.Second

// limit returns the time limit of one start: half of the time to the deadline, so that the run can go on without an
// answer. A cold disk or a loaded machine can take far longer than a healthy one for a binary of this size.
func limit(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) / 2
	}

	return timeout
}

// Version returns the kubelet's version from the cache, or from the binary if it may be started; "" if it is unknown.
// The error is why a binary that was started did not print it. A nil Binary is an image without a kubelet.
func (b *Binary) Version(ctx context.Context, mayStart bool) (string, error) {
	switch {
	case b == nil:
		return "", nil
	case b.kept != nil:
		return b.kept.Version, nil
	case !mayStart:
		return "", nil
	}

	return b.askVersion(ctx)
}

// Accepts returns the flags and feature gates of --help, from the cache, or from the binary if it may be started. A nil
// Binary is an image without a kubelet.
func (b *Binary) Accepts(ctx context.Context, mayStart bool) (*tape.AcceptsAns, error) {
	switch {
	case b == nil:
		return nil, fmt.Errorf("no kubelet in %s, and none where its unit starts it", strings.Join(dirs(), ", "))
	case b.kept != nil && b.kept.Accepts != nil:
		return b.kept.Accepts, nil
	case !mayStart:
		return nil, errors.New("the kubelet of another machine is not started here")
	}

	return b.askAccepts(ctx)
}

// ErrNoVersion is the error of a program that starts, as a kubelet that was built without a version.
var ErrNoVersion = errors.New("--version does not print a version")

// looksLikeVersion matches versions, also of vendors: v1.36.3+rke2r1.
var looksLikeVersion = texts.LazyRegexp(`^v[0-9][0-9A-Za-z.+~_-]{0,62}$`)

// askVersion starts the binary.
func (b *Binary) askVersion(ctx context.Context) (string, error) {
	out, err := b.run(ctx, "--version")
	v := strings.TrimSpace(strings.TrimPrefix(out, "Kubernetes "))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s --version: %w", b.Path(), err)
	case !looksLikeVersion().MatchString(v):
		return "", fmt.Errorf("%s %w", b.Path(), ErrNoVersion)
	}

	return v, nil
}

// askAccepts starts the binary and parses its help.
func (b *Binary) askAccepts(ctx context.Context) (*tape.AcceptsAns, error) {
	out, err := b.run(ctx, "--help")
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", b.Path(), err)
	}
	help, err := kubelet.ParseHelp(out)
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", b.Path(), err)
	}

	return help, nil
}

// CacheFile is the name of the cache in prelet's folder: the output of the binary. A boot uses it while the binary is
// the same file.
const CacheFile = "kubelet.json"

// Examined is the result of Examine.
type Examined struct {
	Binary  *Binary
	Path    string // "": no binary
	Version string // "": unknown
	Keep    []byte // the new cache; nil for none
	Unread  error  // why a place where there may be one could not be looked at; nil: each was, or one was found
}

// Examine starts the binary even if the cache is valid, and below another root for its version only, if it is not in
// the cache. command is that of Find.
func Examine(ctx context.Context, root, cache string, command []string) Examined {
	b, unread := find(root, cache, "kubelet", command)
	switch {
	case b == nil:
		return Examined{Unread: unread}
	case root == "":
		return b.examine(ctx)
	}
	version, _ := b.Version(ctx, MayStart(root)) // it may be of another architecture

	return Examined{Binary: b, Path: b.Path(), Version: version}
}

func (b *Binary) examine(ctx context.Context) Examined {
	version, _ := b.askVersion(ctx)
	out := Examined{Binary: b, Path: b.Path(), Version: version}
	accepts, _ := b.askAccepts(ctx) // without it the tables of known decide

	if c, ok := b.Keep(out.Version, accepts); ok && out.Version != "" {
		out.Keep, _ = c.Marshal() // otherwise the next boot starts the binary
	}

	return out
}

// maxHelp is the largest accepted output in bytes.
const maxHelp = 1 << 20

// MayStart reports whether the kubelet below a root may be started here: another root's is, if its writes can be
// restricted.
func MayStart(root string) bool {
	if root == "" {
		return true
	}
	_, err := sandbox.LandlockABI()

	return err == nil
}

// run starts the binary and returns its output.
func (b *Binary) run(ctx context.Context, arg string) (string, error) {
	most := limit(ctx)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.file, arg)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = time.Second
	out, errors := limited{most: maxHelp}, secret.Tail{Most: maxLastLine}
	cmd.Stdout = &out
	cmd.Stderr = &errors
	start := (*exec.Cmd).Run
	if b.isConfined {
		start = func(c *exec.Cmd) error { return sandbox.RunReadOnly(c, "") }
	}
	err := start(cmd)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("no answer within %s", most.Round(time.Millisecond))
	case err != nil:
		return "", addLastLine(err, errors.Text(), isHidden)
	}
	return out.b.String(), nil
}

// maxLastLine is how many bytes of the end of a program's errors are kept.
const maxLastLine = 1000

// addLastLine adds the last line that a program has written to its error, and the setting of prelet's units that hides
// a folder which the line names.
func addLastLine(err error, written string, isHidden func(folder string) bool) error {
	lines := strings.FieldsFunc(written, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return err
	}
	last := texts.Escape(strings.TrimSpace(lines[len(lines)-1]))
	for _, folder := range []string{"/home", "/root", "/run/user"} {
		if strings.Contains(last, folder+"/") && isHidden(folder) {
			return fmt.Errorf("%w: %s (ProtectHome= of prelet.service hides %s from it: put the kubelet elsewhere, or "+
				"write ProtectHome=read-only into drop-ins of prelet.service and prelet-apply.service)",
				err, last, folder)
		}
	}

	return fmt.Errorf("%w: %s", err, last)
}

// isHidden reports whether systemd hides a folder from this process: it has put a folder without a mode over it.
func isHidden(folder string) bool {
	info, err := nodefile.Stat(folder)

	return err == nil && info.Mode().Perm() == 0
}

// limited keeps the first bytes that are written to it, and discards the rest.
type limited struct {
	b    bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	free := l.most - l.b.Len()
	l.b.Write(p[:min(len(p), free)])

	return len(p), nil
}

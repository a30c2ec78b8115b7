// Package probe looks at a running kubelet: its health, its flags and files, its configuration, its node object and its
// log; and at the socket of the container runtime. It reads the node and asks the kubelet and the cluster. Only
// PatchLabels writes, to the cluster.
package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe/cluster"
	"github.com/prelet/prelet/internal/probe/joined"
)

// Probe answers what can be seen of a running kubelet. It implements activate.Probe: an error says what is wrong, and
// one that is an Unclear says that it cannot be told.
type Probe struct {
	Root string           // files and /proc stand below it; "" is /
	Now  func() time.Time // certificates are judged by it
	// Credentials are those of this process; nil: none.
	Credentials Credentials
}

// Credentials are the secrets that this process was given.
type Credentials interface {
	Read(name string) ([]byte, error)
}

// node is the node whose kubelet is looked at.
func (p Probe) node() joined.Node { return joined.Node{Root: nodefile.Root(p.Root), Now: p.Now} }

// Unclear is an error of what cannot be told, which nobody is to be blamed for.
type Unclear struct{ Err error }

func (u *Unclear) Error() string { return u.Err.Error() }

// Unwrap gives the cause.
func (u *Unclear) Unwrap() error { return u.Err }

// Unknown is what activate asks.
func (u *Unclear) Unknown() bool { return true }

func unclear(format string, args ...any) error { return &Unclear{fmt.Errorf(format, args...)} }

const (
	healthzTimeout = 5 * time.Second
	askTimeout     = 5 * time.Second
)

func (p Probe) path(name string) string { return filepath.Join("/", p.Root, name) }

// Healthz asks the kubelet. Anything but 200 within five seconds is not well: the kubelet is on this very machine.
func (p Probe) Healthz(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthzTimeout)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: (&net.Dialer{}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // an answer that breaks off is not well either
		return fmt.Errorf("%s answered %s: %s", url, resp.Status, strings.Join(strings.Fields(string(b)), " "))
	}
	return nil
}

// Kubeconfig is nil when the node has joined. While it has not, the cluster is asked whether it is there at all, with
// what the kubelet itself joins with.
func (p Probe) Kubeconfig(ctx context.Context, path string) error {
	id := p.node().Identity()
	if id.Denied != nil {
		return unclear("whether the node has joined: %s. %s", id.Denied.Why, id.Denied.Next)
	}
	has, why := id.Joined()
	if has {
		return nil
	}
	text, fail := p.node().Root.TrustedText(joined.BootstrapConf)
	if fail != nil && fail.Code == fault.ClusterUntrusted {
		return unclear("the node has not joined: %s, and whether the cluster answers: %s. %s", why, fail.Why, fail.Next)
	}
	if fail != nil {
		return fmt.Errorf("the node has not joined: %s, and %s cannot be read either", why, joined.BootstrapConf)
	}
	k, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		return fmt.Errorf("the node has not joined: %s; %s %w", why, joined.BootstrapConf, err)
	}
	if len(k.Cluster.CertificateAuthorityData) == 0 {
		return fmt.Errorf("the node has not joined: %s", why)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err = cluster.FetchTrust(ctx, cluster.TrustRequest{
		Endpoint: cluster.Endpoint{Servers: []string{k.Cluster.Server}}, CAPEM: k.Cluster.CertificateAuthorityData,
	}, cluster.Options{Now: p.Now})
	var f *fault.Fault
	switch {
	case errors.As(err, &f) && f.Code == fault.ClusterUnreachable:
		return unclear("the node has not joined (%s), and the cluster does not answer: %s. %s", why, f.Reason(), f.Next)
	case errors.As(err, &f):
		return fmt.Errorf("the node has not joined (%s): %s. %s", why, f.Reason(), f.Next)
	case err != nil:
		return fmt.Errorf("the node has not joined (%s): %w", why, err)
	}
	return fmt.Errorf("the node has not joined, though the cluster answers: %s (journalctl -u kubelet says why; often the token has expired)", why)
}

// Flags is nil when the words are on the command line of the process, each of them as often as planned.
func (p Probe) Flags(_ context.Context, pid uint32, flags []string) error {
	name := fmt.Sprintf("/proc/%d/cmdline", pid)
	b, err := os.ReadFile(p.path(name))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("process %d is gone", pid)
		}
		return unclear("the command line of process %d cannot be read: %w", pid, err)
	}
	have := map[string]int{}
	for _, w := range strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00") {
		have[w]++
	}
	for _, w := range flags {
		if have[w]--; have[w] < 0 {
			return fmt.Errorf("the kubelet (process %d) runs without %s: does its unit read the file with the flags? systemctl cat kubelet shows its EnvironmentFile= and ExecStart=", pid, w)
		}
	}
	return nil
}

// Files is nil when each has the content that was planned.
func (p Probe) Files(_ context.Context, want map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		got, err := p.sum(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is gone", path)
		case err != nil:
			return unclear("%s cannot be read: %w", path, err)
		case got != want[path]:
			return fmt.Errorf("%s is not as prelet wrote it: somebody changed it", path)
		}
	}
	return nil
}

// ChangedAgo is how long ago the newest of these files was changed, by the time of its inode, which a copy or a rename
// does not keep; false if there is none, one cannot be read, or the clock was set back since.
func (p Probe) ChangedAgo(paths []string) (time.Duration, bool) {
	var newest time.Time
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(p.path(path), &st) != nil {
			return 0, false
		}
		if at := time.Unix(st.Ctim.Unix()); at.After(newest) {
			newest = at
		}
	}

	ago := time.Since(newest)

	return ago, len(paths) > 0 && ago >= 0
}

func (p Probe) sum(path string) (string, error) {
	look, err := nodefile.Find(p.path(path), nodefile.FollowAll)
	if err != nil {
		return "", err
	}
	defer look.Close()

	f, err := look.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, generation.MaxContent+1)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Log is what the unit's processes have written to the journal since then.
func (p Probe) Log(ctx context.Context, unit string, since time.Time) ([]string, error) {
	if p.Root != "" {
		return nil, nil // another machine's
	}
	return systemd.Log(ctx, unit, since)
}

// Package kubeletstate inspects a running kubelet: its health, its flags and files, its configuration, its node object
// and its log; and the socket of the container runtime. internal/machine/activation calls it to verify a generation. It
// must not change this machine; Event and Patch write to the cluster.
package kubeletstate

import (
	"context"
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
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/plugins/contract"
)

// Probe inspects a running kubelet. It implements activation.Probe: an error is a failed check, except that an Unclear
// means that nothing could be found out.
type Probe struct {
	Root string           // the folder of the node's files and /proc; "" is /
	Now  func() time.Time // the time at which certificates must be valid
	// BootID is that of this boot, without dashes. In a container, that of /proc is the host's.
	BootID string
	// Credentials are those of this process; nil: none.
	Credentials Credentials
}

// Credentials reads the secrets of this process.
type Credentials interface {
	Read(name string) ([]byte, error)
}

func (p Probe) node() joined.Reader {
	return joined.Reader{Root: nodefile.Root(p.Root), Now: p.Now}
}

// Unclear is the error of a check that could not be made. It is not a failure of the kubelet.
type Unclear struct{ Err error }

func (u *Unclear) Error() string {
	return u.Err.Error()
}

// Unwrap returns the cause.
func (u *Unclear) Unwrap() error { return u.Err }

// Unknown distinguishes this error for internal/machine/activation.
func (u *Unclear) Unknown() bool { return true }

func newUnclear(format string, args ...any) error {
	return &Unclear{fmt.Errorf(format, args...)}
}

// requestTimeout limits each request to the kubelet and to the cluster.
const requestTimeout = 5 * time.Second

func (p Probe) path(name string) string {
	return filepath.Join("/", p.Root, name)
}

// Healthz requests the kubelet's health. Any response except 200 within five seconds is a failure, because the
// kubelet is on the same machine.
func (p Probe) Healthz(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	transport := &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        (&net.Dialer{}).DialContext,
	}
	resp, err := (&http.Client{Transport: transport, CheckRedirect: cluster.RefuseRedirect}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // a partial body is good enough

	body := strings.Join(strings.Fields(contract.Shorten(string(b), 511)), " ")

	return fmt.Errorf("%s answered %s: %s", url, resp.Status, body)
}

// Kubeconfig returns nil if the node has joined. Otherwise it checks whether the cluster is reachable, with the
// kubeconfig that the kubelet joins with, and returns why the node has not joined. name is the Node's; "" unknown.
func (p Probe) Kubeconfig(ctx context.Context, name string) error {
	id := p.node().Identity()
	if id.Denied != nil {
		return newUnclear("whether the node has joined: %s. %s", id.Denied.Why, id.Denied.Next)
	}
	hasJoined, why := id.Joined()
	if hasJoined {
		return nil
	}

	text, f := p.node().Root.TrustedText(joined.BootstrapConf)
	if f != nil && f.Code == fault.ClusterUntrusted {
		return newUnclear(
			"the node has not joined: %s, and whether the cluster answers: %s. %s",
			why,
			f.Why,
			f.Next,
		)
	}
	if f != nil {
		return fmt.Errorf(
			"the node has not joined: %s, and %s cannot be read either",
			why,
			joined.BootstrapConf,
		)
	}
	k, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		return fmt.Errorf("the node has not joined: %s; %s %w", why, joined.BootstrapConf, err)
	}
	if len(k.Cluster.CertificateAuthorityData) == 0 {
		return fmt.Errorf("the node has not joined: %s", why)
	}

	return p.checkCluster(ctx, k, name, why)
}

// Expired returns that the kubelet's client certificate has expired, with the time of the clock; "" if it has not.
func (p Probe) Expired() string {
	expired := p.node().Identity().Expired
	if expired == "" {
		return ""
	}

	return fmt.Sprintf(
		"%s (the clock is at %s)",
		expired,
		p.node().Now().UTC().Format(time.RFC3339),
	)
}

// checkCluster returns why the node has not joined, and whether its cluster is reachable.
func (p Probe) checkCluster(ctx context.Context, k cluster.Kubeconfig, name, why string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := cluster.TrustRequest{
		Endpoint: cluster.Endpoint{Servers: []string{k.Cluster.Server}},
		CAPEM:    k.Cluster.CertificateAuthorityData,
	}
	_, err := cluster.FetchTrust(ctx, request, cluster.ClientConfig{Now: p.Now})

	var f *fault.Fault
	switch {
	case errors.As(err, &f) && f.Code == fault.ClusterUnreachable:
		return newUnclear(
			"the node has not joined (%s), and the cluster does not answer: %s. %s",
			why,
			f.Reason(),
			f.Next,
		)
	case errors.As(err, &f):
		return fmt.Errorf("the node has not joined (%s): %s. %s", why, f.Reason(), f.Next)
	case err != nil:
		return fmt.Errorf("the node has not joined (%s): %w", why, err)
	}

	return fmt.Errorf(
		"the node has not joined (%s), though the cluster answers: %s", why, p.describeJoin(ctx, k, name),
	)
}

// Approvable matches the error of Kubeconfig for a request that waits for approval, in a longer text.
var Approvable = texts.LazyRegexp(`the node has not joined \([^\n]*?\), though the cluster answers: request \S+ has ` +
	`waited for approval [^\n]*?kubectl certificate approve [\w.-]+`)

// describeJoin returns the state of the kubelet's request for a certificate, as the cluster reports it to the token
// with which the kubelet joins, and the next step.
func (p Probe) describeJoin(ctx context.Context, k cluster.Kubeconfig, name string) string {
	const all = "kubectl get csr --field-selector spec.signerName=" + ClientSigner
	next := "journalctl -u kubelet shows why"
	if _, err := nodefile.Lstat(p.path(pendingKey)); err == nil {
		next = "the kubelet has requested a certificate, and waits until its request is approved and signed: " +
			all + " shows it, kubectl certificate approve NAME approves it, and journalctl -u kubelet has more"
	}
	if name == "" || k.User.Token == "" {
		return next
	}

	c, err := newNodeClient(p.node(), k)
	if err != nil {
		return next
	}
	defer c.CloseIdleConnections()
	c.token = k.User.Token
	resp, err := c.send(ctx, http.MethodGet, RequestsPath(ClientSigner), "", nil)
	switch {
	case err != nil:
		return next
	case resp.code == http.StatusUnauthorized:
		return "the cluster does not accept the token in " + joined.BootstrapConf +
			": it has expired or was deleted; " +
			"kubeadm token create makes another one"
	case resp.code != http.StatusOK: // as 403: not each cluster lets a joining node list them
		return next
	}

	own, _, err := ParseRequests(resp.body, ClientSigner, name)
	if err != nil || len(own) == 0 {
		return next
	}

	return p.describeRequest(own[0], "")
}

// describeRequest returns the action that a request for a certificate of the kubelet requires. approver ends the
// sentence about a missing approval: it names the program that approves such requests.
func (p Probe) describeRequest(r CertificateRequest, approver string) string {
	switch r.State {
	case "signed":
		return "request " + r.Name + " is signed, and the kubelet has not fetched it: journalctl -u kubelet shows why"
	case "approved":
		return "request " + r.Name + " is approved, and not signed: the controller csrsigning of " +
			"kube-controller-manager signs it (--cluster-signing-cert-file); its log has the reason"
	case "denied", "failed":
		return fmt.Sprintf("request %s is %s (%s): correct the reason, and restart the kubelet, so that it makes "+
			"another one", r.Name, r.State, r.Why)
	}

	now := p.Now()

	return fmt.Sprintf("request %s has waited for approval for %s%s (as of %s; prelet verify looks again). Run: "+
		"kubectl certificate approve %s",
		r.Name, now.Sub(r.Created).Round(time.Second), approver, now.UTC().Format(time.RFC3339), r.Name)
}

// pendingKey is the key of a certificate that the kubelet has requested and does not have yet. Source:
// pkg/kubelet/certificate/bootstrap (tmpPrivateKeyFile).
const pendingKey = "/var/lib/kubelet/pki/kubelet-client.key.tmp"

// Flags returns nil if each word is on the command line of the process as often as planned.
func (p Probe) Flags(_ context.Context, pid uint32, flags []string) error {
	b, err := os.ReadFile(p.path(fmt.Sprintf("/proc/%d/cmdline", pid)))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("process %d is gone", pid)
	}
	if err != nil {
		return newUnclear("the command line of process %d cannot be read: %w", pid, err)
	}

	words := map[string]int{}
	for _, w := range strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00") {
		words[w]++
	}
	for _, flag := range flags {
		words[flag]--
		if words[flag] < 0 {
			return fmt.Errorf(
				"the kubelet (process %d) runs without %s: does its unit read the file with the flags? "+
					"systemctl cat kubelet shows its EnvironmentFile= and ExecStart=",
				pid,
				flag,
			)
		}
	}

	return nil
}

// Files returns nil if each file has the planned content. want contains SHA-256 checksums by path.
func (p Probe) Files(_ context.Context, want map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		content, err := nodefile.ReadFile(p.path(path), nodefile.MaxContent)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is gone", path)
		case err != nil && !errors.Is(err, nodefile.ErrTooLarge):
			return newUnclear("%s cannot be read: %w", path, err)
		case err != nil || nodefile.Checksum(content) != want[path]: // also a file that is larger than prelet writes
			return fmt.Errorf("%s is not as prelet wrote it: another program changed it", path)
		}
	}

	return nil
}

// ChangedAgo returns how long ago the newest of these files was changed, by the time of its inode, which a copy or a
// rename does not preserve. It is false without files, if a file cannot be read or does not answer, or if the
// clock was set back since.
func (p Probe) ChangedAgo(paths []string) (time.Duration, bool) {
	var newest time.Time
	for _, path := range paths {
		about, err := nodefile.Stat(p.path(path))
		if err != nil {
			return 0, false
		}
		st, _ := about.Sys().(*syscall.Stat_t)
		if changed := time.Unix(st.Ctim.Unix()); changed.After(newest) {
			newest = changed
		}
	}
	ago := time.Since(newest)

	return ago, len(paths) > 0 && ago >= 0
}

// Log returns the lines that the unit's processes have written to the journal since a time.
func (p Probe) Log(ctx context.Context, unit string, since time.Duration) ([]string, error) {
	if p.Root != "" {
		return nil, nil // the journal belongs to another machine
	}

	return systemd.Log(ctx, unit, p.BootID, since)
}

// StartLog returns the first lines that a process of the unit has written to the journal.
func (p Probe) StartLog(ctx context.Context, unit string, pid uint32) ([]string, error) {
	if p.Root != "" {
		return nil, nil // the journal belongs to another machine
	}

	return systemd.StartLog(ctx, unit, pid)
}

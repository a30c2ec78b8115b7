package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/cluster"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/joined"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/systemd"
	"github.com/prelet/prelet/internal/world"
)

// trustCall is one exchange that several questions wait for.
type trustCall struct {
	done   chan struct{}
	answer world.Answer
}

// trust is asked once for each way of access: the questions "trust" and "object" share the exchange and its
// connection.
func (l *Live) trust(ctx context.Context, a world.Access) world.Answer {
	b, _ := json.Marshal(a)
	l.mu.Lock()
	c, ok := l.trusts[string(b)]
	if !ok {
		c = &trustCall{done: make(chan struct{})}
		l.trusts[string(b)] = c
	}
	l.mu.Unlock()
	if !ok {
		func() {
			defer close(c.done)
			c.answer = world.Failure(fault.ClusterUnusable, "the exchange was given up", "")
			c.answer = l.exchange(ctx, a)
		}()
	}
	select {
	case <-c.done:
		return c.answer
	case <-ctx.Done():
		return world.Failure(fault.ClusterUnreachable, "the deadline passed while the cluster's CA was awaited", "")
	}
}

func (l *Live) exchange(ctx context.Context, a world.Access) world.Answer {
	if l.o.Objects != "" {
		if f := l.offlineToken(ctx, a); f != nil {
			return world.Answer{Fault: f}
		}
		return l.offlineTrust(a)
	}
	if ca, ok := l.knownCA(a); ok {
		return world.Trust.Answer(ca)
	}
	req := cluster.TrustRequest{Endpoint: endpoint(a), CACertHashes: a.CACertHashes, TokenTrust: a.TrustToken}
	if a.CAFile != "" {
		text, f := l.root().Text(a.CAFile)
		if f != nil {
			return world.Failure(fault.ClusterUntrusted, f.Why, "ca_file of the cluster block names it; put the cluster's CA there")
		}
		req.CAPEM = []byte(text)
	}
	if a.DiscoveryFile != "" {
		text, f := l.discovery(ctx, a.DiscoveryFile)
		if f != nil {
			return world.Answer{Fault: f}
		}
		req.DiscoveryFile = text
	}
	if a.Token != "" && (a.TrustToken || !l.node().Joined) { // cluster-info has no signatures of expired tokens
		req.Token = l.token(a.Token)
	}
	ctx, cancel := l.bounded(ctx, a)
	defer cancel()
	t, err := l.client.FetchTrust(ctx, req)
	if err != nil {
		return clusterFailure(err)
	}
	return world.Trust.Answer(world.TrustAns{PEM: t.PEM, Hash: t.Hash, Servers: t.Servers, VerifiedBy: t.VerifiedBy})
}

// knownCA is the CA that a joined node's last good generation verified, as long as the site's pins cover it: when
// they do not, the cluster's CA was changed, and the pins decide.
func (l *Live) knownCA(a world.Access) (world.TrustAns, bool) {
	if len(a.CACertHashes) == 0 && !a.TrustToken || l.o.Store == nil || !l.node().Joined {
		return world.TrustAns{}, false
	}

	for _, e := range world.ReadTrust(l.o.Store, l.past) {
		if e.Kind != world.KindTrust || e.Answer.Fault != nil {
			continue
		}
		var t world.TrustAns
		if json.Unmarshal(e.Answer.Value, &t) != nil || t.PEM == "" {
			continue
		}
		if len(a.CACertHashes) > 0 && cluster.Covers([]byte(t.PEM), a.CACertHashes) != nil {
			continue
		}
		req, err := world.Trust.Request(e.Question)
		if err != nil || strings.Join(req.Servers, " ") != strings.Join(a.Servers, " ") {
			continue
		}
		return t, true
	}
	return world.TrustAns{}, false
}

// Hurry bounds each exchange with the cluster, whatever the site's retry says: for a node that has an answer of its
// last good generation to fall back on, and must not wait for minutes at each boot while the apiserver is away. Call
// it before the first question.
func (l *Live) Hurry(d time.Duration) { l.patience = d }

func (l *Live) bounded(ctx context.Context, a world.Access) (context.Context, context.CancelFunc) {
	d := time.Duration(a.RetryMillis) * time.Millisecond
	if l.patience > 0 && (d <= 0 || d > l.patience) {
		d = l.patience
	}
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

func endpoint(a world.Access) cluster.Endpoint {
	return cluster.Endpoint{Servers: a.Servers, ProxyURL: a.ProxyURL}
}

// token reads a token's credential. That it is not there has an exit status of its own.
func (l *Live) token(name string) cluster.Token {
	return func(context.Context) (string, error) {
		b, err := l.Secret(name)
		if err != nil {
			f := systemd.CredentialFault(name, err)
			f.Code = fault.CredentialMissing
			return "", f
		}
		return string(b), nil
	}
}

func (l *Live) object(ctx context.Context, r world.ObjectReq) world.Answer {
	if l.o.Objects != "" {
		if f := l.offlineToken(ctx, r.Access); f != nil {
			return world.Answer{Fault: f}
		}
		return l.offlineObject(r)
	}
	t := l.trust(ctx, r.Access)
	if t.Fault != nil {
		return t
	}
	var ca world.TrustAns
	if err := json.Unmarshal(t.Value, &ca); err != nil {
		return world.Failure(fault.ClusterUnusable, err.Error(), "")
	}
	req := cluster.ObjectRequest{Endpoint: endpoint(r.Access), CAPEM: []byte(ca.PEM), Namespace: r.Namespace, Name: r.Name, Optional: r.Optional}
	if len(req.Servers) == 0 {
		req.Servers = ca.Servers
	}
	conf := joined.Conf
	if !l.node().Joined {
		conf = ""
		if r.Token == "" { // an image may bring what its kubelet joins with, such as a credential plugin
			conf, req.KubeconfigName = joined.BootstrapConf, "the bootstrap kubeconfig"
		}
	}
	if conf != "" {
		text, f := l.root().Text(conf)
		if f != nil && conf == joined.BootstrapConf {
			return world.Failure(fault.CredentialMissing, "the cluster block names no token, and "+f.Why,
				"Write token = credential(\"bootstrap-token\") there, or let the image bring "+joined.BootstrapConf)
		}
		req.Kubeconfig, req.KubeconfigDir = []byte(text), filepath.Dir(l.root().Path(conf))
	}
	if r.Token != "" {
		req.Token = l.token(r.Token)
	}
	ctx, cancel := l.bounded(ctx, r.Access)
	defer cancel()
	o, err := l.client.FetchConfigMap(ctx, req)
	if err != nil {
		return clusterFailure(err)
	}
	return world.Object.Answer(world.ObjectAns{ResourceVersion: o.ResourceVersion, Data: o.Data})
}

// clusterFailure is an error of internal/cluster as an answer.
func clusterFailure(err error) world.Answer {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return world.Failure(fault.ClusterUnusable, err.Error(), "")
	}

	return world.Answer{Fault: f}
}

// offlineToken refuses a token that the cluster would not be asked with either. Whether there is one does not matter: a laptop has none.
func (l *Live) offlineToken(ctx context.Context, a world.Access) *fault.Fault {
	if a.Token == "" || l.node().Joined {
		return nil
	}
	if err := cluster.CheckToken(ctx, l.token(a.Token)); err != nil {
		return clusterFailure(err).Fault
	}
	return nil
}

// offlineTrust takes the CA from ca.crt in the folder of objects. Pins of the site must cover it.
func (l *Live) offlineTrust(a world.Access) world.Answer {
	path := filepath.Join(l.o.Objects, "ca.crt")
	b, err := os.ReadFile(path)
	if err != nil {
		return world.Failure(fault.Absent, path+": "+nodefile.Reason(err), "With --objects, the cluster's CA is ca.crt in that folder")
	}
	hashes, err := cluster.CAHashes(b)
	if err != nil || len(hashes) == 0 {
		return world.Failure(fault.ClusterUnusable, path+" holds no certificate", "")
	}
	by := "ca_file"
	if len(a.CACertHashes) > 0 {
		by = "ca_cert_hashes"
		if err := cluster.Covers(b, a.CACertHashes); err != nil {
			return world.Failure(fault.ClusterUntrusted, path+": "+err.Error(),
				"With --objects, ca.crt in that folder is the CA: put the one there that the site pins, or its pin into ca_cert_hashes")
		}
	}
	return world.Trust.Answer(world.TrustAns{PEM: string(b), Hash: hashes[0], Servers: a.Servers, VerifiedBy: by})
}

// offlineObject reads NAMESPACE/NAME.yaml (or .json): a ConfigMap as kubectl prints it.
func (l *Live) offlineObject(r world.ObjectReq) world.Answer {
	var tried []string
	for _, ext := range []string{".yaml", ".json"} {
		path := filepath.Join(l.o.Objects, r.Namespace, r.Name+ext)
		b, err := os.ReadFile(path)
		if err != nil {
			tried = append(tried, path)
			continue
		}
		var cm struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Namespace, Name string
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
			Data map[string]string `json:"data"`
		}
		if err := yaml.Unmarshal(b, &cm); err != nil || cm.Kind != "ConfigMap" {
			return world.Failure(fault.ClusterUnusable, path+" is no ConfigMap",
				"Write it as `kubectl get configmap -o yaml` prints it")
		}
		if found, want := cmp.Or(cm.Metadata.Namespace, r.Namespace)+"/"+cmp.Or(cm.Metadata.Name, r.Name), r.Namespace+"/"+r.Name; found != want {
			return world.Failure(fault.ClusterUnusable, fmt.Sprintf("%s holds the ConfigMap %s, and %s is wanted", path, found, want),
				"With --objects, a ConfigMap lies in NAMESPACE/NAME.yaml, by its metadata: move it, or put the one there that the site asks for")
		}
		return world.Object.Answer(world.ObjectAns{ResourceVersion: cm.Metadata.ResourceVersion, Data: cm.Data})
	}
	return world.Failure(fault.Absent, "there is no "+strings.Join(tried, " or "),
		"With --objects, each ConfigMap is a file NAMESPACE/NAME.yaml in that folder")
}

// discovery reads a discovery file, local or over https.
func (l *Live) discovery(ctx context.Context, where string) (string, *fault.Fault) {
	if strings.HasPrefix(where, "https://") {
		return l.fetchDiscovery(ctx, where)
	}
	text, f := l.root().Text(where)
	if f != nil {
		f.Code, f.Next = fault.ClusterUntrusted, "discovery_file of the cluster block names it"
	}
	return text, f
}

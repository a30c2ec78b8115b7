package live

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe/cluster"
	"github.com/prelet/prelet/internal/probe/joined"
	"github.com/prelet/prelet/internal/world"
)

// trustCall is one exchange with a cluster that several questions wait for.
type trustCall struct {
	done   chan struct{}
	answer world.Answer
}

// answerTrust returns the identity of the cluster. There is one exchange for each way of access: the questions "trust"
// and "object" share it and its connection.
func (l *Live) answerTrust(ctx context.Context, a world.Access) world.Answer {
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
			c.answer = world.Failure(fault.ClusterUnusable, "the exchange was given up", "") // if fetchTrust panics
			c.answer = l.fetchTrust(ctx, a)
		}()
	}

	select {
	case <-c.done:
		return c.answer
	case <-ctx.Done():
		return world.Failure(fault.ClusterUnreachable, "the deadline passed while the cluster's CA was awaited", "")
	}
}

// fetchTrust returns the identity of the cluster: from the folder that replaces a cluster, from the last good
// generation, or from the cluster.
func (l *Live) fetchTrust(ctx context.Context, a world.Access) world.Answer {
	if l.o.Objects != "" {
		if f := l.checkToken(ctx, a); f != nil {
			return world.Answer{Fault: f}
		}
		return trustOf(l.o.Objects, a)
	}
	if ca, ok := l.knownCA(a); ok {
		return world.Trust.Answer(ca)
	}

	req := cluster.TrustRequest{Endpoint: endpoint(a), CACertHashes: a.CACertHashes, TokenTrust: a.TrustToken}
	if a.CAFile != "" {
		text, f := l.readAnchor(a.CAFile, "ca_file of the cluster block names it; put the cluster's CA there")
		if f != nil {
			return world.Answer{Fault: f}
		}
		req.CAPEM = []byte(text)
	}
	if a.DiscoveryFile != "" {
		text, f := l.readDiscoveryFile(ctx, a.DiscoveryFile)
		if f != nil {
			return world.Answer{Fault: f}
		}
		req.DiscoveryFile = text
	}
	// cluster-info has no signatures of expired tokens, which a joined node may have.
	if a.Token != "" && (a.TrustToken || !l.membership().Joined) {
		req.Token = l.token(a.Token)
	}

	ctx, cancel := l.limit(ctx, a)
	defer cancel()
	t, err := l.client.FetchTrust(ctx, req)
	return trustAnswer(t, err)
}

// Objects returns a source that answers from a folder in place of a cluster, and asks nothing of this machine. What the
// folder does not have is absent.
func Objects(folder string) world.Source {
	return world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
		if q.Kind == world.KindTrust {
			return answer(q, world.Trust, func(r world.TrustReq) world.Answer { return trustOf(folder, r.Access) })
		}
		return answer(q, world.Object, func(r world.ObjectReq) world.Answer { return objectOf(folder, r) })
	})
}

func trustOf(folder string, a world.Access) world.Answer {
	t, err := cluster.Folder(folder).ReadTrust(a.Servers, a.CACertHashes)
	return trustAnswer(t, err)
}

func objectOf(folder string, r world.ObjectReq) world.Answer {
	o, err := cluster.Folder(folder).ReadConfigMap(r.Namespace, r.Name)
	return objectAnswer(o, err)
}

// trustAnswer returns a result of the cluster package as an answer.
func trustAnswer(t cluster.Trust, err error) world.Answer {
	if err != nil {
		return clusterFailure(err)
	}
	return world.Trust.Answer(world.TrustAns{PEM: t.PEM, Hash: t.Hash, Servers: t.Servers, VerifiedBy: t.VerifiedBy})
}

// knownCA returns the CA that the last good generation of a joined node verified. The pins of the site must cover it:
// otherwise the CA of the cluster was changed, and the pins decide.
func (l *Live) knownCA(a world.Access) (world.TrustAns, bool) {
	if len(a.CACertHashes) == 0 && !a.TrustToken || l.o.Store == nil || !l.membership().Joined {
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

// readDiscoveryFile reads a discovery file, from the node or over https.
func (l *Live) readDiscoveryFile(ctx context.Context, where string) (string, *fault.Fault) {
	if strings.HasPrefix(where, "https://") {
		return cluster.FetchDiscoveryFile(ctx, where, l.o.Now)
	}
	return l.readAnchor(where, "discovery_file of the cluster block names it")
}

// readAnchor reads a file that says which cluster is trusted. Next is the next step where it cannot be read.
func (l *Live) readAnchor(path, next string) (string, *fault.Fault) {
	text, f := l.root().TrustedText(path)
	if f != nil && f.Code != fault.ClusterUntrusted {
		f.Code, f.Next = fault.ClusterUntrusted, next
	}
	return text, f
}

// answerObject returns a ConfigMap, from the folder that replaces a cluster or from the cluster.
func (l *Live) answerObject(ctx context.Context, r world.ObjectReq) world.Answer {
	if l.o.Objects != "" {
		if f := l.checkToken(ctx, r.Access); f != nil {
			return world.Answer{Fault: f}
		}
		return objectOf(l.o.Objects, r)
	}

	t := l.answerTrust(ctx, r.Access)
	if t.Fault != nil {
		return t
	}
	var ca world.TrustAns
	if err := json.Unmarshal(t.Value, &ca); err != nil {
		return world.Failure(fault.ClusterUnusable, err.Error(), "")
	}

	req := cluster.ObjectRequest{
		Endpoint: endpoint(r.Access), CAPEM: []byte(ca.PEM), Namespace: r.Namespace, Name: r.Name, Optional: r.Optional,
	}
	if len(req.Servers) == 0 {
		req.Servers = ca.Servers
	}
	if f := l.addCredentials(&req, r.Token); f != nil {
		return world.Answer{Fault: f}
	}

	ctx, cancel := l.limit(ctx, r.Access)
	defer cancel()
	o, err := l.client.FetchConfigMap(ctx, req)
	return objectAnswer(o, err)
}

// objectAnswer returns a result of the cluster package as an answer.
func objectAnswer(o cluster.Object, err error) world.Answer {
	if err != nil {
		return clusterFailure(err)
	}
	return world.Object.Answer(world.ObjectAns{ResourceVersion: o.ResourceVersion, Data: o.Data, Binary: o.Binary})
}

// addCredentials sets what a request identifies itself with: kubelet.conf on a joined node, and the token, if the site
// names one. Without both, it is the bootstrap kubeconfig of the image, which may start a credential plugin.
func (l *Live) addCredentials(req *cluster.ObjectRequest, token string) *fault.Fault {
	conf := ""
	switch isJoined := l.membership().Joined; {
	case isJoined && l.loose != nil:
		return l.loose
	case isJoined:
		conf = joined.Conf
	case token == "":
		conf, req.KubeconfigName = joined.BootstrapConf, "the bootstrap kubeconfig"
	}

	if conf != "" {
		text, f := l.root().TrustedText(conf)
		if f != nil && f.Code == fault.ClusterUntrusted {
			return f
		}
		if f != nil && conf == joined.BootstrapConf {
			return &fault.Fault{
				Code: fault.CredentialMissing, Why: "the cluster block names no token, and " + f.Why,
				Next: "Write token = credential(\"bootstrap-token\") there, or let the image bring " + joined.BootstrapConf,
			}
		}
		req.Kubeconfig, req.KubeconfigDir = []byte(text), filepath.Dir(l.root().Path(conf))
	}
	if token != "" {
		req.Token = l.token(token)
	}
	return nil
}

// Hurry limits each exchange with the cluster to d if the site's retry is longer. It is for a node that can fall back
// on its last good generation: it must not wait for minutes at each boot while the apiserver is unreachable. Call it
// before the first question.
func (l *Live) Hurry(d time.Duration) { l.patience = d }

// limit returns a context that ends with the site's retry, or with the limit of Hurry.
func (l *Live) limit(ctx context.Context, a world.Access) (context.Context, context.CancelFunc) {
	d := time.Duration(a.RetryMillis) * time.Millisecond
	if l.patience > 0 && (d <= 0 || d > l.patience) {
		d = l.patience
	}
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// endpoint returns where the cluster is.
func endpoint(a world.Access) cluster.Endpoint {
	return cluster.Endpoint{Servers: a.Servers, ProxyURL: a.ProxyURL}
}

// token returns a reader of the credential that has a token. An error of that reader has the code CredentialMissing,
// and with it an exit status of its own.
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

// checkToken returns why a token could not be sent to a cluster, if there is a folder instead of a cluster. A missing
// token is no error then: a laptop has none.
func (l *Live) checkToken(ctx context.Context, a world.Access) *fault.Fault {
	if a.Token == "" || l.membership().Joined {
		return nil
	}
	if err := cluster.CheckToken(ctx, l.token(a.Token)); err != nil {
		return clusterFailure(err).Fault
	}
	return nil
}

// clusterFailure returns an error of the cluster package as an answer.
func clusterFailure(err error) world.Answer {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return world.Failure(fault.ClusterUnusable, err.Error(), "")
	}
	return world.Answer{Fault: f}
}

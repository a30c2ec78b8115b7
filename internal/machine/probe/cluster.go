package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// Plugin is a program that writes credentials to its stdout.
type Plugin = cluster.Plugin

// answerTrust returns the identity of the cluster. It is determined once for each way of access, by the first caller
// and with its context, so that the questions "trust" and "object" share the result and the connection. Other callers
// wait for it until their own deadline.
func (l *Live) answerTrust(ctx context.Context, r tape.TrustReq) tape.Answer {
	return l.trusts.Ask(ctx, tape.Trust.Question(r))
}

// fetchTrust returns the identity of the cluster: from the folder that replaces a cluster, from the last good
// generation, or from the cluster. A pin that the last good generation has no CA for asks the cluster.
func (l *Live) fetchTrust(ctx context.Context, r tape.TrustReq) tape.Answer {
	a := r.Access
	if l.o.Objects != "" {
		if f := l.checkToken(ctx, a); f != nil {
			return tape.Answer{Fault: f}
		}

		return l.addExpired(l.compareCAFile(a, readTrust(l.o.Objects, a)))
	}

	known := l.findKnownCA(a)
	if known != nil && len(known.ca.Unmatched) == 0 {
		return l.addExpired(tape.Trust.Answer(known.ca))
	}

	asked := l.nameObjects(l.askTrust(ctx, a))
	if known == nil {
		return l.addExpired(asked)
	}

	return l.addExpired(known.completeBy(asked))
}

// addExpired adds to an answer which of its CAs have expired by the clock of this machine.
func (l *Live) addExpired(a tape.Answer) tape.Answer {
	var t tape.TrustAns
	if a.Fault != nil || json.Unmarshal(a.Value, &t) != nil {
		return a
	}

	expired, hasValid := cluster.DescribeExpired(t.PEM, l.o.Now())
	t.Expired = expired
	t.NoneValid = !hasValid
	a.Value = tape.Trust.Answer(t).Value

	return a
}

// askTrust returns the identity of the cluster as the cluster proves it.
func (l *Live) askTrust(ctx context.Context, a tape.Access) tape.Answer {
	req := cluster.TrustRequest{
		Endpoint:     makeEndpoint(a),
		CACertHashes: a.CACertHashes,
		TokenTrust:   a.TrustToken,
	}
	if a.CAFile != "" {
		text, f := l.readAnchor(a.CAFile, "ca_file of the cluster block names it; put the cluster's CA there")
		if f != nil {
			return tape.Answer{Fault: f}
		}

		if f := checkAnchor(a.CAFile, text, texts.KindCertificate); f != nil {
			return tape.Answer{Fault: f}
		}
		req.CAPEM = []byte(text)
	}

	if a.DiscoveryFile != "" {
		text, f := l.readDiscoveryFile(ctx, a.DiscoveryFile)
		if f != nil {
			return tape.Answer{Fault: f}
		}

		if f := checkAnchor(a.DiscoveryFile, text, texts.KindKubeconfig); f != nil {
			return tape.Answer{Fault: f}
		}
		req.DiscoveryFile = text
	}

	// The token of a joined node may have expired, and then cluster-info has no signature by it.
	if a.Token != "" && (a.TrustToken || !l.membership().Joined) {
		req.Token = l.newTokenReader(a.Token)
	}

	ctx, cancel := l.limit(ctx, a)
	defer cancel()

	trust, err := l.client.FetchTrust(ctx, req)

	return makeAnswer(tape.Trust, trust, err)
}

// Objects returns a source that answers from a folder instead of a cluster, and does not read this machine.
// Objects that the folder does not contain are absent.
func Objects(folder string) tape.Source {
	return tape.Adapters{
		tape.Trust.Adapt(func(_ context.Context, r tape.TrustReq) tape.Answer {
			return readTrust(folder, r.Access)
		}),
		tape.Object.Adapt(func(_ context.Context, r tape.ObjectReq) tape.Answer {
			return readObject(folder, r)
		}),
	}
}

func readTrust(folder string, a tape.Access) tape.Answer {
	trust, err := cluster.Folder(folder).ReadTrust(a)

	return makeAnswer(tape.Trust, trust, err)
}

// compareCAFile compares the CA of the folder that replaces the cluster with that of a ca_file, which verifies it if
// they are the same. A plan does not need the ca_file: a laptop has none.
func (l *Live) compareCAFile(a tape.Access, given tape.Answer) tape.Answer {
	var t tape.TrustAns
	if a.CAFile == "" || json.Unmarshal(given.Value, &t) != nil || !t.Assumed {
		return given
	}

	text, _, f := l.root().InspectText(a.CAFile)
	if f != nil {
		return given
	}

	own, err := cluster.GivenTrust(a.CAFile, []byte(text), a, "")
	if err != nil {
		return makeAnswer(tape.Trust, own, err)
	}
	switch {
	case !cluster.ShareCA(own.PEM, t.PEM):
		return tape.Failure(
			fault.ClusterUntrusted,
			fmt.Sprintf("%s has the CA %s, and ca.crt of --objects %s", a.CAFile, own.Hash, t.Hash),
			"Replace ca.crt in that folder with the CA of the cluster that the node joins, or correct the ca_file",
		)
	case cluster.HaveSameCAs(own.PEM, t.PEM):
		t.Assumed = false
		given.Value = tape.Trust.Answer(t).Value
	}

	return given // assumed, where one has more CAs than the other, as while a CA is replaced
}

func readObject(folder string, r tape.ObjectReq) tape.Answer {
	object, err := cluster.Folder(folder).ReadConfigMap(r.Namespace, r.Name)

	return makeAnswer(tape.Object, object, err)
}

// HaveSameCAs reports whether two bundles have the same certificates, in any order.
func HaveSameCAs(a, b string) bool { return cluster.HaveSameCAs(a, b) }

// makeAnswer turns what package cluster returned into an answer.
func makeAnswer[Req, Ans any](topic tape.Topic[Req, Ans], v Ans, err error) tape.Answer {
	if err != nil {
		return tape.Answer{Fault: toFault(err)}
	}

	return topic.Answer(v)
}

// knownCA is the CA that the last good generation of a joined node verified for the same servers.
type knownCA struct {
	ca         tape.TrustAns // Unmatched: the pins that the cluster must be asked for
	generation int
}

// completeBy returns the cluster's answer to the pins that a known CA does not have. The known CA stays if the cluster
// did not answer, and its bytes stay if it answered with the same CAs.
func (k knownCA) completeBy(asked tape.Answer) tape.Answer {
	ca := k.ca
	ca.Unmatched = nil

	if asked.Fault != nil {
		kept := tape.Trust.Answer(ca)
		kept.Stale = k.generation
		kept.Because = asked.Name() + ": " + strings.TrimSuffix(asked.Why(), ".")

		return kept
	}

	var now tape.TrustAns
	if json.Unmarshal(asked.Value, &now) != nil || !cluster.HaveSameCAs(ca.PEM, now.PEM) {
		return asked
	}

	now.PEM = ca.PEM
	now.Hash = ca.Hash

	return tape.Trust.Answer(now)
}

// findKnownCA returns the CA that the last good generation of a joined node verified for the same servers; nil if there
// is none. If the site no longer pins one of its CAs, the cluster must be asked, and it returns nil, too.
func (l *Live) findKnownCA(a tape.Access) *knownCA {
	hasAnchor := len(a.CACertHashes) > 0 || a.TrustToken
	if !hasAnchor || l.o.Store == nil || !l.membership().Joined {
		return nil
	}

	past := l.past()
	if past == nil {
		return nil
	}

	for _, e := range past.Recording.Entries {
		if e.Kind != tape.KindTrust || e.Answer.Fault != nil {
			continue
		}

		var t tape.TrustAns
		if json.Unmarshal(e.Answer.Value, &t) != nil || t.PEM == "" {
			continue
		}

		chosen, err := cluster.Choose([]byte(t.PEM), a.CACertHashes)
		if len(a.CACertHashes) > 0 && (err != nil || len(chosen.LeftOut) > 0) {
			continue
		}

		req, err := tape.Trust.Request(e.Question)
		if err == nil && slices.Equal(req.Servers, a.Servers) {
			t.LeftOut = nil
			t.Unmatched = chosen.Unmatched

			return &knownCA{ca: t, generation: past.Generation}
		}
	}

	return nil
}

// readDiscoveryFile reads a discovery file, from the node or over https.
func (l *Live) readDiscoveryFile(ctx context.Context, where string) (string, *fault.Fault) {
	if strings.HasPrefix(where, "https://") {
		return cluster.FetchDiscoveryFile(ctx, where, l.o.Now)
	}

	return l.readAnchor(where, "discovery_file of the cluster block names it")
}

// readAnchor reads a file that determines the trusted cluster. next is the next step if it cannot be read.
func (l *Live) readAnchor(path, next string) (string, *fault.Fault) {
	text, f := l.root().TrustedText(path)
	if f != nil && f.Code != fault.ClusterUntrusted {
		f.Code = fault.ClusterUntrusted
		f.Next = next
	}

	return text, f
}

// checkAnchor refuses a file that is known to be of another kind: a mistake of the site, and not of the cluster.
func checkAnchor(path, text, want string) *fault.Fault {
	kind := texts.KindOf([]byte(text))
	if kind == "" || kind == want {
		return nil
	}

	next := "Put this cluster's CA there, which is /etc/kubernetes/pki/ca.crt on a control-plane node"
	switch kind {
	case texts.KindKubeconfig:
		next = fmt.Sprintf("Write discovery_file = %q", path)
	case texts.KindCertificate:
		next = fmt.Sprintf("Write ca_file = %q", path)
	}

	why := fmt.Sprintf("%s is %s, and %s is needed", path, kind, want)

	return &fault.Fault{Code: fault.WrongType, Why: why, Next: next}
}

// answerObject returns a ConfigMap, from the folder that replaces a cluster or from the cluster.
func (l *Live) answerObject(ctx context.Context, r tape.ObjectReq) tape.Answer {
	if l.o.Objects != "" {
		if f := l.checkToken(ctx, r.Access); f != nil {
			return tape.Answer{Fault: f}
		}

		return readObject(l.o.Objects, r)
	}

	req, f := l.newRequest(ctx, r.Access)
	if f != nil {
		return tape.Answer{Fault: f}
	}

	req.Namespace = r.Namespace
	req.Name = r.Name
	req.Optional = r.Optional

	if f := l.addCredentials(&req, r.Token); f != nil {
		return tape.Answer{Fault: f}
	}

	ctx, cancel := l.limit(ctx, r.Access)
	defer cancel()

	object, err := l.client.FetchConfigMap(ctx, req)

	return l.nameObjects(makeAnswer(tape.Object, object, err))
}

// nameObjects adds to the failure of a cluster, for the hardware of another machine, the flag that replaces the
// cluster: a laptop may have no way to the cluster.
func (l *Live) nameObjects(a tape.Answer) tape.Answer {
	switch a.Code() {
	case fault.ClusterUnreachable, fault.ClusterUnusable, fault.ClusterUntrusted, fault.Absent:
	default:
		return a
	}
	if l.o.Hardware == "" {
		return a
	}

	named := *a.Fault
	next := "For a plan that is not of this node, --objects FOLDER replaces the cluster, as a .prelet.hcl does"
	if named.Next != "" {
		next = named.Next + ". " + next
	}
	named.Next = next
	a.Fault = &named

	return a
}

// newRequest returns a request with the servers and the verified CA of the cluster.
func (l *Live) newRequest(
	ctx context.Context, a tape.Access,
) (cluster.ObjectRequest, *fault.Fault) {
	trust := l.answerTrust(ctx, tape.TrustReq{Access: a})
	if trust.Fault != nil {
		return cluster.ObjectRequest{}, trust.Fault
	}

	var ca tape.TrustAns
	if err := json.Unmarshal(trust.Value, &ca); err != nil {
		return cluster.ObjectRequest{}, toFault(err)
	}

	req := cluster.ObjectRequest{Endpoint: makeEndpoint(a), CAPEM: []byte(ca.PEM)}
	if len(req.Servers) == 0 {
		req.Servers = ca.Servers
	}

	return req, nil
}

// addCredentials sets the credentials of a request: kubelet.conf on a joined node, and the token, if the site
// names one. If there is neither, it sets the bootstrap kubeconfig of the image, which may start a credential
// plugin.
func (l *Live) addCredentials(req *cluster.ObjectRequest, token string) *fault.Fault {
	if token != "" {
		req.Token = l.newTokenReader(token)
	}

	conf := ""

	switch isJoined := l.membership().Joined; {
	case isJoined && l.identity.loose != nil:
		return l.identity.loose
	case isJoined:
		conf = joined.Conf
	case token == "":
		conf = joined.BootstrapConf
	default:
		return nil
	}

	return l.addKubeconfig(req, conf)
}

// addKubeconfig sets kubelet.conf, or the bootstrap kubeconfig of the image.
func (l *Live) addKubeconfig(req *cluster.ObjectRequest, conf string) *fault.Fault {
	if conf == joined.BootstrapConf {
		req.KubeconfigName = "the bootstrap kubeconfig"
	}

	text, f := l.root().TrustedText(conf)

	switch {
	case f != nil && f.Code == fault.ClusterUntrusted:
		return f
	case f != nil && conf == joined.BootstrapConf:
		return &fault.Fault{
			Code: fault.CredentialMissing,
			Why:  "the cluster block names no token, and " + f.Why,
			Next: "Write token = credential(\"bootstrap-token\") there, or add " +
				joined.BootstrapConf + " to the image",
		}
	}

	req.Kubeconfig = []byte(text)
	if isBelow := l.root() != "" && conf == joined.Conf; isBelow {
		req.Kubeconfig, f = cluster.EmbedPair(req.Kubeconfig, func(file string) (string, *fault.Fault) {
			return l.root().TrustedText(joined.ResolvePath(file))
		})
		if f != nil {
			return f
		}
	}
	req.KubeconfigDir = filepath.Dir(l.root().Path(conf))

	return nil
}

// Hurry limits each exchange with the cluster to d, if the site's retry is longer. It is for a node with a
// last good generation to fall back on, whose boots must not wait for minutes while the apiserver is unreachable. Call
// it before the first question to the cluster.
func (l *Live) Hurry(d time.Duration) {
	l.patience = d
}

// limit returns a context that ends with the site's retry, or with the limit of Hurry.
func (l *Live) limit(ctx context.Context, a tape.Access) (context.Context, context.CancelFunc) {
	d := time.Duration(a.RetryMillis) * time.Millisecond
	if l.patience > 0 && (d <= 0 || d > l.patience) {
		d = l.patience
	}

	if d <= 0 {
		return context.WithCancel(ctx)
	}

	return context.WithTimeout(ctx, d)
}

func makeEndpoint(a tape.Access) cluster.Endpoint {
	return cluster.Endpoint{Servers: a.Servers, ProxyURL: a.ProxyURL}
}

// newTokenReader returns a reader of the credential that contains a token. Its errors have the code CredentialMissing,
// which has its own exit status.
func (l *Live) newTokenReader(name string) cluster.Token {
	return func(context.Context) (string, error) {
		b, err := l.Secret(name)
		if err != nil {
			f := systemd.CredentialFault(name, err)
			f.Code = fault.CredentialMissing
			switch k := l.membership(); {
			case k.Damaged != nil:
				f.Why += "; the node has to join again, because " + k.Damaged.Why +
					": " + k.Damaged.Next("a run with a token sets that aside")
			case k.Identity != nil && !k.Joined: // a node that had joined
				f.Why += "; the node has to join again, because " + k.JoinedWhy
			}

			return "", f
		}

		return string(b), nil
	}
}

// checkToken returns an error for a malformed token, if a folder replaces the cluster. A missing token is accepted,
// because a laptop has none.
func (l *Live) checkToken(ctx context.Context, a tape.Access) *fault.Fault {
	if a.Token == "" || l.membership().Joined {
		return nil
	}

	if err := cluster.CheckToken(ctx, l.newTokenReader(a.Token)); err != nil {
		return toFault(err)
	}

	return nil
}

// toFault returns the fault of an error of package cluster.
func toFault(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}

	return &fault.Fault{Code: fault.ClusterUnusable, Why: err.Error()}
}

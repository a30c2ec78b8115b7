package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// The values of Trust.VerifiedBy.
const (
	ByPins          = "ca_cert_hashes"
	ByCAFile        = "ca_file"
	ByDiscoveryFile = "discovery_file"
	ByToken         = "token"
)

// TrustRequest names a cluster and how to identify it: exactly one of CACertHashes, CAPEM, DiscoveryFile and
// TokenTrust. CACertHashes may also be set in addition to one of the others; then only its CAs with a pin are trusted.
type TrustRequest struct {
	Endpoint
	// CACertHashes are pins as ParsePin accepts them.
	CACertHashes []string
	// CAPEM is the cluster's CA bundle, the content of a ca_file.
	CAPEM []byte
	// DiscoveryFile is the text of a kubeconfig that contains the CA. Its server is used only if Servers is empty.
	DiscoveryFile string
	// TokenTrust trusts the signature of cluster-info by the token. The signature is symmetric: every holder of the
	// token can make it.
	TokenTrust bool
	// Token is the key of the signature. FetchTrust does not send it. It may be nil, unless TokenTrust is set.
	// With pins and without a token the signature is not verified, as on a joined node, whose token has expired.
	Token Token
}

// Trust is a cluster's verified identity. VerifiedBy is ByPins, ByCAFile, ByDiscoveryFile or ByToken, Servers are the
// configured ones, never those in a response, and nothing is known about Expired and NoneValid.
type Trust = tape.TrustAns

// The objects of FetchTrust, for messages.
const (
	clusterInfo       = "configmap kube-public/cluster-info"
	serverCertificate = "the API server's certificate"
)

// FetchTrust determines the cluster's CA and verifies that a server has a certificate signed by it.
//
// If the site contains the CA (CAPEM, DiscoveryFile), that takes one anonymous request. With pins or a token it
// fetches cluster-info without verification, checks pins and signature, verifies that connection's chain against
// the CA in cluster-info, and fetches it again over a connection that is verified in its handshake; both texts
// must be equal. The second connection is kept for later requests.
func (c *Client) FetchTrust(ctx context.Context, req TrustRequest) (Trust, error) {
	refused := func(err error) (Trust, error) {
		return Trust{}, refuse("trust", "Correct the cluster block of the site", "%v", err)
	}

	if err := req.check(); err != nil {
		return refused(err)
	}

	pins, err := parsePins(req.CACertHashes)
	if err != nil {
		return refused(err)
	}

	if len(req.CAPEM) > 0 || req.DiscoveryFile != "" {
		return c.verifyGivenCA(ctx, req, pins)
	}

	servers, err := parseServers(req.Servers)
	if err != nil {
		return refused(err)
	}

	d := discovery{
		client: c,
		proxy:  req.ProxyURL,
		pins:   pins,
		token:  req.Token,
		first:  map[target]infoDoc{},
	}
	by := ByPins
	if len(pins) == 0 {
		by = ByToken
	}

	var chosen choice

	attempt := func(ctx context.Context, t target) (f *failure) {
		chosen, f = d.fetch(ctx, t)
		return f
	}
	if err := c.searchServers(ctx, req.Endpoint, servers, clusterInfo, attempt); err != nil {
		return Trust{}, err
	}

	return newTrust(chosen, servers, by), nil
}

func (c *Client) searchServers(
	ctx context.Context, e Endpoint, servers []string, object string, attempt attemptFunc,
) error {
	s := search{
		client:  c,
		hosts:   servers,
		proxied: e.ProxyURL != "",
		object:  object,
		attempt: attempt,
	}

	return s.run(ctx)
}

func (req TrustRequest) check() error {
	given := 0
	for _, isGiven := range []bool{
		len(req.CAPEM) > 0,
		req.DiscoveryFile != "",
		req.TokenTrust,
	} {
		if isGiven {
			given++
		}
	}

	switch {
	case given > 1:
		return errors.New(`more than one of ca_file, discovery_file and trust = "token" is given`)
	case given == 0 && len(req.CACertHashes) == 0:
		return errors.New(`none of ca_cert_hashes, ca_file, discovery_file and trust = "token" is given`)
	case req.TokenTrust && req.Token == nil:
		return errors.New(`trust = "token" without a token`)
	case req.ProxyURL != "":
		_, err := ParseProxy(req.ProxyURL)
		return err
	}

	return nil
}

func newTrust(chosen choice, hosts []string, by string) Trust {
	t := Trust{
		PEM:        encodeBundle(chosen.certs),
		Hash:       hashCert(chosen.certs[0]),
		VerifiedBy: by,
		Unmatched:  chosen.unmatched,
	}
	for _, host := range hosts {
		t.Servers = append(t.Servers, target{host: host}.url())
	}
	for _, c := range chosen.leftOut {
		t.LeftOut = append(t.LeftOut, fmt.Sprintf(
			"%q with key %s",
			quote(c.Subject.String()),
			hashCert(c),
		))
	}

	return t
}

// verifyGivenCA verifies a server with the CA in the site. Any response is enough, because its connection was
// verified.
func (c *Client) verifyGivenCA(
	ctx context.Context,
	req TrustRequest,
	pins pinSet,
) (Trust, error) {
	by, object, list := ByCAFile, "ca_file", req.Servers
	certs, err := parseBundle(req.CAPEM)

	if len(req.CAPEM) == 0 {
		by, object = ByDiscoveryFile, "discovery_file"

		var server string
		certs, server, err = parseDiscovery(req.DiscoveryFile)
		if len(list) == 0 {
			list = []string{server}
		}
	}

	if err != nil {
		return Trust{}, refuse(object, needCA, "%v", err)
	}

	chosen, err := pins.choose(certs)
	if err != nil {
		return Trust{}, failUntrusted(hintCA, "%v", err).withCause(err).toFault(object)
	}

	servers, err := parseServers(list)
	if err != nil {
		return Trust{}, refuse(object, "Correct `servers` in the cluster block", "%v", err)
	}

	config := newConfig([]byte(encodeBundle(chosen.certs)), req.ProxyURL)

	attempt := func(ctx context.Context, t target) *failure {
		_, f := c.get(ctx, t, config, "/readyz")
		return f
	}
	if err := c.searchServers(ctx, req.Endpoint, servers, serverCertificate, attempt); err != nil {
		return Trust{}, err
	}

	return newTrust(chosen, servers, by), nil
}

const infoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// discovery fetches cluster-info and verifies it.
type discovery struct {
	client *Client
	proxy  string
	pins   pinSet
	token  Token

	// first contains the verified results of the first fetch, so that a retry repeats only the second.
	first map[target]infoDoc
}

// fetch returns the CAs of cluster-info, after a server with a certificate of theirs has confirmed it.
func (d *discovery) fetch(ctx context.Context, t target) (choice, *failure) {
	first, f := d.fetchFirst(ctx, t)
	if f != nil {
		return choice{}, f
	}

	verified := newConfig([]byte(encodeBundle(first.chosen.certs)), d.proxy)

	r, f := d.client.getReady(ctx, t, verified, infoPath)
	if f != nil && f.Code == fault.ClusterUntrusted && f.class == classFinal {
		f.Next = "The connection before, to the same address, was to the cluster: two clusters, or API servers with " +
			"certificates of two CAs, are behind it, or it is intercepted; look at the load balancer"
	}
	if f != nil {
		return choice{}, f
	}

	second, f := decodeClusterInfo(r)
	if f != nil {
		return choice{}, f
	}

	if first.kubeconfig != second.kubeconfig {
		return choice{}, failUntrusted(
			"If the cluster's CA is being changed right now, run again; otherwise the connection is intercepted",
			"the second fetch, over verified TLS, differs from the first",
		)
	}

	return first.chosen, nil
}

// fetchFirst fetches cluster-info over an unverified connection and verifies it. The request is anonymous, and guard
// refuses to send a credential here.
func (d *discovery) fetchFirst(ctx context.Context, t target) (infoDoc, *failure) {
	if first, ok := d.first[t]; ok {
		return first, nil
	}

	r, f := d.client.getReady(ctx, t, newConfig(nil, d.proxy), infoPath)
	if f != nil {
		return infoDoc{}, f
	}

	first, f := d.verify(ctx, t, r)
	if f != nil {
		return infoDoc{}, f
	}

	d.first[t] = first

	return first, nil
}

// verify checks cluster-info against pins and signature, and its connection against the CAs in it.
func (d *discovery) verify(ctx context.Context, t target, r *reply) (infoDoc, *failure) {
	info, f := parseClusterInfo(r)
	if f != nil {
		return infoDoc{}, f
	}

	if len(d.pins) == 0 {
		if f := d.checkSignature(ctx, info); f != nil {
			return infoDoc{}, f
		}

		info.chosen = choice{certs: info.certs}

		return info, d.verifyChain(t, r.tls.PeerCertificates, info.certs)
	}

	var err error
	if info.chosen, err = d.pins.choose(info.certs); err != nil {
		return infoDoc{}, failUntrusted(
			"Compare with the hash that `kubeadm token create --print-join-command` prints on a control-plane node; "+
				"after a change of the CA, add its pin to ca_cert_hashes",
			"%v",
			err,
		).withCause(err)
	}

	sortCerts(info.chosen.certs)

	if f := d.verifyChain(t, r.tls.PeerCertificates, info.chosen.certs); f != nil {
		return infoDoc{}, f
	}

	// A missing signature is waited for, so it is checked last: only with a server of this cluster.
	if d.token != nil {
		return info, d.checkSignature(ctx, info)
	}

	return info, nil
}

// verifyChain verifies a chain and the server's name, as crypto/tls does in a handshake. In its handshake the
// peer has proved already that it has the key of its certificate.
func (d *discovery) verifyChain(t target, peers, cas []*x509.Certificate) *failure {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, ca := range cas {
		roots.AddCert(ca)
	}

	for _, p := range peers[1:] {
		intermediates.AddCert(p)
	}

	name, _, _ := net.SplitHostPort(t.host)
	now := d.client.opts.Now()

	_, err := peers[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		DNSName:       name,
		CurrentTime:   now,
	})
	if err != nil {
		return classifyChain(err, now)
	}

	return nil
}

func (d *discovery) checkSignature(ctx context.Context, info infoDoc) *failure {
	t, f := readToken(ctx, d.token)
	if f != nil {
		return f
	}

	signature, exists := info.signatures[t.id]
	if !exists {
		return fail(fault.ClusterDenied, classRetry,
			"The token is unknown there, expired, or not for signing; make one with "+
				"`kubeadm token create` and put it into the credential that `token` names",
			"cluster-info has no signature for the token %q", t.id)
	}

	if err := verifyJWS(signature, info.kubeconfig, t.id, t.secret); err != nil {
		return failUntrusted(
			"Either the secret half of the token is wrong, or the connection is intercepted",
			"cluster-info: %v",
			err,
		).withCause(err)
	}

	return nil
}

package cluster

import (
	"context"
	"crypto/x509"
	"net"
	"net/url"

	"github.com/prelet/prelet/internal/fault"
)

// What a Trust was verified by.
const (
	ByPins          = "ca_cert_hashes"
	ByCAFile        = "ca_file"
	ByDiscoveryFile = "discovery_file"
	ByToken         = "token"
)

// TrustRequest names a cluster and what it is identified by: exactly one of CACertHashes, CAPEM, DiscoveryFile and
// TokenTrust. CACertHashes may also be set in addition to another one; then every CA must have a pin, too.
type TrustRequest struct {
	Endpoint
	// CACertHashes are pins as ParsePin takes them.
	CACertHashes []string
	// CAPEM is the cluster's CA bundle, the content of a ca_file.
	CAPEM []byte
	// DiscoveryFile is the text of a kubeconfig that contains the CA. Its server is used only if Servers is empty.
	DiscoveryFile string
	// TokenTrust trusts whoever signed cluster-info with the token. The signature is symmetric: every holder of the
	// token can make it.
	TokenTrust bool
	// Token is the key of the signature. FetchTrust does not send it. It may be nil, unless TokenTrust is set; with
	// pins alone the signature is then not verified, which is right for a node that has joined: expired tokens have
	// none.
	Token Token
}

// Trust is a cluster's verified identity.
type Trust struct {
	PEM        string   // the CA bundle, certificates only
	Hash       string   // the pin of its first certificate
	Hashes     []string // the pins of all of them
	Servers    []string // https URLs: the configured ones, whatever an answer named
	VerifiedBy string   // ByPins, ByCAFile, ByDiscoveryFile or ByToken
}

// What is read, for messages.
const (
	clusterInfo       = "configmap kube-public/cluster-info"
	serverCertificate = "the API server's certificate"
)

// FetchTrust establishes which CA is the cluster's and verifies that a server holds a certificate by it.
//
// With a CA at hand (CAPEM, DiscoveryFile) that takes one anonymous request. With pins or a token it fetches
// cluster-info without verification, checks pins and signature, verifies that connection's chain against the CA in
// cluster-info, and fetches it again over a connection that is verified in its handshake; both texts must be equal.
// The second connection is kept for the reads that follow.
func (c *Client) FetchTrust(ctx context.Context, req TrustRequest) (Trust, error) {
	const hint = "Correct the cluster block of the site"
	given := 0
	for _, is := range []bool{len(req.CAPEM) > 0, req.DiscoveryFile != "", req.TokenTrust} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return Trust{}, invalid("trust", hint, `more than one of ca_file, discovery_file and trust = "token" is given`)
	case given == 0 && len(req.CACertHashes) == 0:
		return Trust{}, invalid("trust", hint,
			`none of ca_cert_hashes, ca_file, discovery_file and trust = "token" is given`)
	case req.TokenTrust && req.Token == nil:
		return Trust{}, invalid("trust", hint, `trust = "token" without a token`)
	}
	pins, err := parsePins(req.CACertHashes)
	if err != nil {
		return Trust{}, invalid("trust", hint, "%v", err)
	}
	if req.ProxyURL != "" {
		if _, err := ParseProxy(req.ProxyURL); err != nil {
			return Trust{}, invalid("trust", hint, "%v", err)
		}
	}
	if len(req.CAPEM) > 0 || req.DiscoveryFile != "" {
		return c.trustGiven(ctx, req, pins)
	}
	servers, err := parseServers(req.Servers)
	if err != nil {
		return Trust{}, invalid("trust", hint, "%v", err)
	}
	d := discovery{client: c, proxy: req.ProxyURL, pins: pins, token: req.Token, first: map[target]infoDoc{}}
	by := ByPins
	if len(pins) == 0 {
		by = ByToken
	}

	var certs []*x509.Certificate
	attempt := func(ctx context.Context, t target) (f *failure) {
		certs, f = d.fetch(ctx, t)
		return f
	}
	s := search{client: c, servers: servers, proxied: req.ProxyURL != "", object: clusterInfo, attempt: attempt}
	if err := s.try(ctx); err != nil {
		return Trust{}, err
	}
	return newTrust(certs, servers, by), nil
}

func newTrust(certs []*x509.Certificate, servers []*url.URL, by string) Trust {
	all := hashes(certs)
	return Trust{PEM: encodeBundle(certs), Hash: all[0], Hashes: all, Servers: serverStrings(servers), VerifiedBy: by}
}

// trustGiven verifies a server by a CA that the site holds. Whatever the server answers, its certificate was verified.
func (c *Client) trustGiven(ctx context.Context, req TrustRequest, pins pinSet) (Trust, error) {
	var certs []*x509.Certificate
	var err error
	by, object, list := ByCAFile, "ca_file", req.Servers
	if len(req.CAPEM) > 0 {
		certs, err = parseBundle(req.CAPEM)
	} else {
		var server string
		by, object = ByDiscoveryFile, "discovery_file"
		certs, server, err = parseDiscovery(req.DiscoveryFile)
		if len(list) == 0 {
			list = []string{server}
		}
	}
	if err != nil {
		return Trust{}, invalid(object,
			"Give this cluster's CA, as /etc/kubernetes/pki/ca.crt of a control-plane node has it", "%v", err)
	}
	if len(pins) > 0 {
		if err := pins.covers(certs); err != nil {
			return Trust{}, fail(fault.ClusterUntrusted, final, hintCA, "%v", err).because(err).about(object)
		}
	}
	servers, err := parseServers(list)
	if err != nil {
		return Trust{}, invalid(object, "Correct `servers` in the cluster block", "%v", err)
	}
	config := newConfig([]byte(encodeBundle(certs)), req.ProxyURL)
	attempt := func(ctx context.Context, t target) *failure {
		_, f := c.get(ctx, t, config, "/readyz")
		return f
	}
	s := search{client: c, servers: servers, proxied: req.ProxyURL != "", object: serverCertificate, attempt: attempt}
	if err := s.try(ctx); err != nil {
		return Trust{}, err
	}
	return newTrust(certs, servers, by), nil
}

const infoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// discovery fetches cluster-info and verifies it.
type discovery struct {
	client *Client
	proxy  string
	pins   pinSet
	token  Token

	first map[target]infoDoc // verified, and not fetched a second time yet: only what failed is repeated
}

// fetch returns the CAs of cluster-info, which a server of theirs has confirmed.
func (d *discovery) fetch(ctx context.Context, t target) ([]*x509.Certificate, *failure) {
	c := d.client
	first, known := d.first[t]
	if !known {
		// Not verified: an anonymous request for public data. The guard refuses any credential here.
		r, f := c.getReady(ctx, t, newConfig(nil, d.proxy), infoPath)
		if f != nil {
			return nil, f
		}
		if first, f = d.verify(ctx, t, r); f != nil {
			return nil, f
		}
		d.first[t] = first
	}

	r, f := c.getReady(ctx, t, newConfig([]byte(encodeBundle(first.certs)), d.proxy), infoPath)
	if f != nil {
		return nil, f
	}
	second, f := readClusterInfo(r)
	if f != nil {
		return nil, f
	}
	if first.kubeconfig != second.kubeconfig {
		return nil, fail(fault.ClusterUntrusted, final,
			"If the cluster's CA is being changed right now, run again; else somebody stands between",
			"the second fetch, over verified TLS, differs from the first")
	}
	return first.certs, nil
}

// verify checks cluster-info against pins and signature, and the connection that it came over against the CAs in it.
func (d *discovery) verify(ctx context.Context, t target, r *reply) (infoDoc, *failure) {
	info, f := parseClusterInfo(r)
	if f != nil {
		return infoDoc{}, f
	}
	if len(d.pins) > 0 {
		if err := d.pins.covers(info.certs); err != nil {
			return infoDoc{}, fail(fault.ClusterUntrusted, final,
				"Compare with the hash that `kubeadm token create --print-join-command` prints on a control-plane node; "+
					"after a change of the CA, add its pin to ca_cert_hashes", "%v", err).because(err)
		}
	} else if f := d.checkSignature(ctx, info); f != nil {
		return infoDoc{}, f
	}
	if f := d.verifyChain(t, r.tls.PeerCertificates, info.certs); f != nil {
		return infoDoc{}, f
	}
	if len(d.pins) > 0 && d.token != nil { // after the chain, so that a late signature is waited for only where it is ours
		if f := d.checkSignature(ctx, info); f != nil {
			return infoDoc{}, f
		}
	}
	return info, nil
}

// verifyChain does what crypto/tls does in a handshake: the peer has already shown that it holds the leaf's key, now
// its chain and its name are verified.
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
		Roots: roots, Intermediates: intermediates, DNSName: name, CurrentTime: now,
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
	signature, ok := info.signatures[t.id]
	if !ok {
		return fail(fault.ClusterDenied, again, "The token is unknown there, expired, or not for signing; make one with "+
			"`kubeadm token create` and put it into the credential that `token` names",
			"cluster-info has no signature for the token %q", t.id)
	}
	if err := verifyJWS(signature, info.kubeconfig, t.id, t.secret); err != nil {
		return fail(fault.ClusterUntrusted, final, "Either the secret half of the token is wrong, or somebody stands between",
			"cluster-info: %v", err).because(err)
	}
	return nil
}

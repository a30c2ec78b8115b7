package cluster

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"net/url"
	"time"
)

// What a Trust was verified by.
const (
	ByPins          = "ca_cert_hashes"
	ByCAFile        = "ca_file"
	ByDiscoveryFile = "discovery_file"
	ByToken         = "token"
)

// TrustRequest says which cluster is meant, and by what one knows that it is the one. Exactly one anchor is given:
// CACertHashes, CAPEM, DiscoveryFile or TokenTrust. CACertHashes may also stand beside another one; then every CA must
// have a pin, too.
type TrustRequest struct {
	Endpoint
	// CACertHashes are pins as ParsePin takes them.
	CACertHashes []string
	// CAPEM is the cluster's CA bundle, as a ca_file holds it.
	CAPEM []byte
	// DiscoveryFile is the text of a kubeconfig that holds the CA. Its server is used only if Servers is empty.
	DiscoveryFile string
	// TokenTrust trusts whoever signed cluster-info with the token. The signature is symmetric: every holder of the
	// token can make it.
	TokenTrust bool
	// Token is the key of the signature and never leaves this process here. It may be nil, unless TokenTrust is set;
	// with pins alone the signature is then not looked at, which is right for a node that has joined: the signatures of
	// expired tokens are gone.
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

const clusterInfo = "configmap kube-public/cluster-info"

// FetchTrust establishes which CA is the cluster's and shows that a server holds a certificate by it.
//
// With a CA at hand (CAPEM, DiscoveryFile) that is one handshake and no request. With pins or a token it reads
// cluster-info anonymously over a line in quarantine, checks pins and signature, verifies the chain of that very line
// against the CA that cluster-info holds, and reads it again over the line that is now verified; both texts must be
// equal. The line is kept for the reads that follow.
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
		return Trust{}, invalid("trust", hint, "more than one of ca_file, discovery_file and trust = \"token\" is given")
	case given == 0 && len(req.CACertHashes) == 0:
		return Trust{}, invalid("trust", hint, "none of ca_cert_hashes, ca_file, discovery_file and trust = \"token\" is given")
	case req.TokenTrust && req.Token == nil:
		return Trust{}, invalid("trust", hint, "trust = \"token\" without a token")
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
	d := discovery{client: c, proxy: req.ProxyURL, pins: pins, token: req.Token, by: ByPins}
	defer func() {
		if d.held != nil {
			d.held.close()
		}
	}()
	if len(pins) == 0 {
		d.by = ByToken
	}
	var certs []*x509.Certificate
	err = c.try(ctx, servers, clusterInfo, func(ctx context.Context, server *url.URL, dial time.Duration) (f *failure) {
		certs, f = d.attempt(ctx, server, dial)
		return f
	})
	if err != nil {
		return Trust{}, err
	}
	return newTrust(certs, servers, d.by), nil
}

func newTrust(certs []*x509.Certificate, servers []*url.URL, by string) Trust {
	all := hashes(certs)
	return Trust{PEM: encodeBundle(certs), Hash: all[0], Hashes: all, Servers: serverStrings(servers), VerifiedBy: by}
}

// trustGiven shakes hands with a server by a CA that the site holds.
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
		return Trust{}, invalid(object, "Give this cluster's CA, as /etc/kubernetes/pki/ca.crt of a control-plane node has it", "%v", err)
	}
	if len(pins) > 0 {
		if err := pins.covers(certs); err != nil {
			return Trust{}, &Error{Kind: Untrusted, Object: object, Detail: err.Error(), Hint: hintCA, Err: err}
		}
	}
	servers, err := parseServers(list)
	if err != nil {
		return Trust{}, invalid(object, "Correct `servers` in the cluster block", "%v", err)
	}
	a := newAnchor(certs)
	err = c.try(ctx, servers, "the API server's certificate", func(ctx context.Context, server *url.URL, dial time.Duration) *failure {
		key := lineKey{server: server.Host, proxy: req.ProxyURL, anchor: a.id}
		l, err := c.open(ctx, server, key, a.config(), dial)
		if err != nil {
			return classifyLine(err, c.opts.Now())
		}
		c.keep(l)
		return nil
	})
	if err != nil {
		return Trust{}, err
	}
	return newTrust(certs, servers, by), nil
}

// anchor is a CA bundle that something vouches for.
type anchor struct {
	id   string
	pool *x509.CertPool
}

func newAnchor(certs []*x509.Certificate) anchor {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	sum := sha256.Sum256([]byte(encodeBundle(certs)))
	return anchor{id: hex.EncodeToString(sum[:]), pool: pool}
}

func (a anchor) config() *tls.Config {
	return &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
}

// verify does to a line in quarantine what crypto/tls does in a handshake: the peer has already shown that it holds
// the leaf's key, now its chain and name are checked. The line is out of quarantine afterwards, and all that it ever
// delivered came from the server that the chain names.
func (a anchor) verify(l *line, now time.Time) error {
	peers := l.conn.ConnectionState().PeerCertificates
	rest := x509.NewCertPool()
	for _, p := range peers[1:] {
		rest.AddCert(p)
	}
	_, err := peers[0].Verify(x509.VerifyOptions{Roots: a.pool, Intermediates: rest, DNSName: l.server.Hostname(), CurrentTime: now})
	if err != nil {
		return err
	}
	l.key.anchor = a.id
	return nil
}

// discovery is one exchange over cluster-info.
type discovery struct {
	client *Client
	proxy  string
	pins   pinSet
	token  Token
	by     string

	// What an attempt leaves to the next at the same server, so that only what failed is asked for again.
	held   *line    // in quarantine, after a whole answer
	first  *infoDoc // verified, and not yet fetched a second time
	from   string   // which server's that is
	anchor anchor   // and the CA in it
}

func (d *discovery) attempt(ctx context.Context, server *url.URL, dial time.Duration) ([]*x509.Certificate, *failure) {
	if d.first == nil || d.from != server.Host {
		if f := d.introduce(ctx, server, dial); f != nil {
			return nil, f
		}
	}
	a := d.anchor
	key := lineKey{server: server.Host, proxy: d.proxy, anchor: a.id}
	r, f := d.client.ask(ctx, server, key, a.config(), dial, func(ctx context.Context, l *line) (*reply, error) {
		return l.roundTrip(ctx, clusterInfoRequest(ctx, server))
	})
	if f != nil {
		return nil, f
	}
	second, f := readClusterInfo(r)
	if f != nil {
		return nil, f
	}
	if d.first.kubeconfig != second.kubeconfig {
		return nil, fail(Untrusted, final, "If the cluster's CA is being changed right now, run again; else somebody stands between",
			"the second fetch, over verified TLS, differs from the first")
	}
	return d.first.certs, nil
}

// opener is Client.open or Client.reopen.
type opener func(ctx context.Context, server *url.URL, key lineKey, config *tls.Config, within time.Duration) (*line, error)

// quarantine is a line that nobody has verified: the one that is held, or a new one.
func (d *discovery) quarantine(ctx context.Context, server *url.URL, dial time.Duration, open opener) (*line, error) {
	l := d.held
	d.held = nil
	if l != nil && l.key.server == server.Host {
		return l, nil
	}
	if l != nil {
		l.close()
	}
	// InsecureSkipVerify is what quarantine means: an anonymous request for public data, on a line that carries nothing
	// else until anchor.verify.
	return open(ctx, server, lineKey{server: server.Host, proxy: d.proxy}, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, dial)
}

// introduce fetches cluster-info anonymously, verifies it, and then the line that it came over.
func (d *discovery) introduce(ctx context.Context, server *url.URL, dial time.Duration) *failure {
	c := d.client
	var l *line
	var r *reply
	for open := c.open; ; open = c.reopen {
		var err error
		if l, err = d.quarantine(ctx, server, dial, open); err != nil {
			return classifyLine(err, c.opts.Now())
		}
		began := time.Now()
		r, err = c.settle(ctx, l, server, func() (*reply, error) { return l.roundTrip(ctx, clusterInfoRequest(ctx, server)) })
		if err == nil {
			break
		}
		l.close()
		if err != errStale {
			c.lost(server, began, err)
			return classifyLine(err, c.opts.Now())
		}
	}
	verified := false
	defer func() {
		switch {
		case verified:
			c.keep(l)
		case l.reusable:
			d.held = l
		default:
			l.close()
		}
	}()
	first, f := parseClusterInfo(r)
	if f != nil {
		return f
	}
	if len(d.pins) > 0 {
		if err := d.pins.covers(first.certs); err != nil {
			return fail(Untrusted, final, "Compare with the hash that `kubeadm token create --print-join-command` prints on a control-plane node; after a change of the CA, add its pin to ca_cert_hashes",
				"%v", err).because(err)
		}
	} else if f := d.checkSignature(ctx, first); f != nil {
		return f
	}
	a := newAnchor(first.certs)
	if err := a.verify(l, c.opts.Now()); err != nil {
		return classifyChain(err, c.opts.Now())
	}
	if len(d.pins) > 0 && d.token != nil { // after the chain, so that a hurried signer is waited for only where it is ours
		if f := d.checkSignature(ctx, first); f != nil {
			l.key.anchor = "" // nobody vouches for this text yet
			return f
		}
	}
	d.first, d.from, d.anchor, verified = &first, server.Host, a, true
	return nil
}

func (d *discovery) checkSignature(ctx context.Context, info infoDoc) *failure {
	t, f := readToken(ctx, d.token)
	if f != nil {
		return f
	}
	signature, ok := info.signatures[t.id]
	if !ok {
		return fail(Denied, answer, "The token is unknown there, expired, or not for signing; make one with `kubeadm token create` and put it into the credential that `token` names",
			"cluster-info has no signature for the token %q", t.id)
	}
	if err := verifyJWS(signature, info.kubeconfig, t.id, t.secret); err != nil {
		return fail(Untrusted, final, "Either the secret half of the token is wrong, or somebody stands between", "cluster-info: %v", err).because(err)
	}
	return nil
}

func clusterInfoRequest(ctx context.Context, server *url.URL) *http.Request {
	return newRequest(ctx, server, "kube-public", "cluster-info")
}

// ask sends a request over a kept line, or a new one that is verified in its handshake.
func (c *Client) ask(ctx context.Context, server *url.URL, key lineKey, config *tls.Config, dial time.Duration, send func(context.Context, *line) (*reply, error)) (*reply, *failure) {
	l, open := c.take(key), c.open
	for {
		if l == nil {
			var err error
			if l, err = open(ctx, server, key, config, dial); err != nil {
				return nil, classifyLine(err, c.opts.Now())
			}
		}
		began := time.Now()
		r, err := c.settle(ctx, l, server, func() (*reply, error) { return send(ctx, l) })
		if err == nil {
			c.keep(l)
			return r, nil
		}
		l.close()
		if err != errStale {
			c.lost(server, began, err)
			return nil, classifyLine(err, c.opts.Now())
		}
		l, open = nil, c.reopen
	}
}

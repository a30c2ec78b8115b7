package cluster

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// joined is the identity that a node's kubeconfig gives.
type joined struct {
	credential
	server string
}

// kubeconfigCredential makes a credential of a joined node's kubeconfig: its client certificate (data, or files that
// rotate), token, token file or exec plugin. It does as client-go does, which would read the file for 2 MB of program and
// 1.4 ms of every start; the tests compare the two. The connection, its limits and its CA are ours.
func (c *Client) kubeconfigCredential(req ObjectRequest) (joined, error) {
	none, who := joined{}, req.who()
	cl, user, err := parseNodeConfig(req.Kubeconfig, req.KubeconfigDir)
	if err != nil {
		return none, fmt.Errorf("%s %w", who, err)
	}
	if len(req.Servers) == 0 {
		if _, err := ParseServer(cl.Server); err != nil {
			return none, fmt.Errorf("%s: %w", who, err)
		}
	}
	ca := req.CAPEM
	switch {
	case len(ca) > 0:
	case cl.Insecure:
		return none, errors.New(who + " says insecure-skip-tls-verify, which is refused")
	case len(cl.CAData) > 0:
		ca = cl.CAData
	case cl.CAFile != "":
		if ca, err = readCredentialFile(cl.CAFile); err != nil {
			return none, fmt.Errorf("%s names a CA: %w", who, err)
		}
	default:
		return none, errors.New(who + " holds no CA, and none is given")
	}
	certs, err := parseBundle(ca)
	if err != nil {
		return none, err
	}
	a := newAnchor(certs)
	config := a.config()
	if len(req.Servers) == 0 {
		config.ServerName = cl.TLSServerName
	}
	proxy := req.ProxyURL
	if len(req.Servers) == 0 && proxy == "" {
		proxy = cl.ProxyURL
	}
	plugin, err := c.identify(config, user, who, pluginCluster{Server: cl.Server, TLSServerName: config.ServerName, CAData: ca, ProxyURL: cl.ProxyURL,
		DisableCompression: cl.DisableCompression, Config: cl.extension(execExtension)})
	if err != nil {
		return none, fmt.Errorf("%s: %w", who, err)
	}
	sum := sha256.Sum256(req.Kubeconfig)
	return joined{server: cl.Server, credential: credential{
		key: lineKey{proxy: proxy, anchor: a.id, client: hex.EncodeToString(sum[:])}, config: config, who: who, plugin: plugin,
		send: func(ctx context.Context, l *line, r *http.Request) (*reply, error) {
			token, err := user.bearer()
			if plugin != nil {
				var got pluginCredential
				got, err = plugin.get(ctx)
				token = got.token
			}
			if err != nil {
				l.reusable = false
				return nil, sendFailure{noCredential(who, err)}
			}
			var secrets []string
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
				secrets = append(secrets, token)
			}
			re, err := withheldReply(l.roundTrip(ctx, r))(secrets)
			if err == nil && re.status == http.StatusUnauthorized && plugin != nil {
				plugin.forget() // what it gave is not accepted: the next try asks it again, on a line of its own
				l.reusable = false
			}
			return re, err
		},
	}}, nil
}

// identify puts a user's certificate into the handshake. The plugin is nil unless the certificate and the token come from one,
// which is, as with client-go, where the user has neither itself.
func (c *Client) identify(config *tls.Config, user nodeUser, who string, about pluginCluster) (*plugin, error) {
	switch {
	case len(user.CertData) > 0 && len(user.KeyData) > 0:
		cert, err := tls.X509KeyPair(user.CertData, user.KeyData)
		if err != nil { // no detail: it may quote the key
			return nil, errors.New("its client certificate and key do not belong together, or cannot be read")
		}
		config.Certificates = []tls.Certificate{cert}
	case user.hasCertificate():
		if _, err := user.keyPair(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // anew each time: the kubelet rotates the file
			cert, err := user.keyPair()
			if err != nil {
				return nil, sendFailure{noCredential(who, err)}
			}
			return cert, nil
		}
	}
	if _, err := user.bearer(); err != nil {
		return nil, err
	}
	if user.Exec == nil || user.hasCertificate() || user.Token != "" || user.TokenFile != "" {
		return nil, nil
	}
	p, err := newPlugin(*user.Exec, about, c.opts.Now)
	if err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		got, err := p.get(info.Context())
		if err != nil {
			return nil, sendFailure{noCredential(who, err)}
		}
		if got.cert == nil {
			return &tls.Certificate{}, nil // "I have none", as crypto/tls wants it said
		}
		return got.cert, nil
	}
	return p, nil
}

// noCredential is a plugin or a file that does not answer. It may yet, unless there is no such program.
func noCredential(who string, err error) *failure {
	f := fail(Denied, answer, "Run the credential plugin that the kubeconfig names by hand, or look at the files that it names",
		"%s gives no credential: %s", who, quote(err.Error())).because(err)
	if errors.Is(err, errNoPlugin) {
		f.class = final
	}
	return f
}

// bearer is the user's token, "" if it has none. The file counts before the text, and is read each time, because it
// rotates; a text beside it stands in when it cannot be read.
func (u nodeUser) bearer() (string, error) {
	token, where := u.Token, "its token"
	if u.TokenFile != "" {
		b, err := readCredentialFile(u.TokenFile)
		switch {
		case err == nil:
			token, where = strings.TrimSpace(string(b)), u.TokenFile
			if token == "" {
				return "", fmt.Errorf("%s is empty", where)
			}
		case token == "":
			return "", err
		}
	}
	if !isToken(token) {
		return "", fmt.Errorf("%s holds a character that no token has", where)
	}
	return token, nil
}

// isToken says whether a text can stand in a header.
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

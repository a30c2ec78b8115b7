package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
)

// joined is the identity that a node's kubeconfig gives.
type joined struct {
	credential
	server string
}

// kubeconfigCredential lets client-go read the kubeconfig of a joined node: its client certificate (data or files that
// rotate), token file or exec plugin. The connection, its limits and its CA stay ours.
func (c *Client) kubeconfigCredential(req ObjectRequest) (joined, error) {
	none := joined{}
	if len(req.Kubeconfig) > maxKubeconfig {
		return none, errors.New("the node's kubeconfig is too large")
	}
	doc, err := clientcmd.Load(req.Kubeconfig)
	if err != nil { // the parser's message may quote a key
		return none, errors.New("the node's kubeconfig cannot be parsed")
	}
	if req.KubeconfigDir != "" {
		for _, u := range doc.AuthInfos {
			u.LocationOfOrigin = filepath.Join(req.KubeconfigDir, "kubeconfig")
		}
		for _, cl := range doc.Clusters {
			cl.LocationOfOrigin = filepath.Join(req.KubeconfigDir, "kubeconfig")
		}
		if err := clientcmd.ResolveLocalPaths(doc); err != nil {
			return none, errors.New("the node's kubeconfig: relative paths cannot be resolved")
		}
	}
	rc, err := clientcmd.NewDefaultClientConfig(*doc, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil { // names and paths, no values
		return none, fmt.Errorf("the node's kubeconfig: %s", quote(err.Error()))
	}
	if len(req.Servers) == 0 {
		if _, err := ParseServer(rc.Host); err != nil {
			return none, fmt.Errorf("the node's kubeconfig: %w", err)
		}
	}
	if rc.Insecure && len(req.CAPEM) == 0 {
		return none, errors.New("the node's kubeconfig says insecure-skip-tls-verify, which is refused")
	}
	proxy := req.ProxyURL
	if k := doc.Contexts[doc.CurrentContext]; k != nil && len(req.Servers) == 0 && proxy == "" {
		if cl := doc.Clusters[k.Cluster]; cl != nil {
			proxy = cl.ProxyURL
		}
	}
	server := rc.Host
	rc.Insecure = false
	if len(req.CAPEM) > 0 {
		rc.CAFile, rc.CAData = "", req.CAPEM
	}
	if len(req.Servers) > 0 {
		rc.ServerName = ""
	}
	rc.UserAgent = c.opts.UserAgent
	tc, err := rc.TransportConfig()
	if err != nil {
		return none, errors.New("the node's kubeconfig: its user's credentials cannot be used")
	}
	if !tc.HasCA() {
		return none, errors.New("the node's kubeconfig holds no CA, and none is given")
	}
	config, err := transport.TLSConfigFor(tc) // reads the files that it names
	if err != nil {
		return none, errors.New("the node's kubeconfig: its certificates or keys cannot be read")
	}
	certs, err := parseBundle(tc.TLS.CAData)
	if err != nil {
		return none, err
	}
	a := newAnchor(certs)
	config.RootCAs = a.pool
	if get := config.GetClientCertificate; get != nil {
		config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := get(info)
			if err != nil {
				err = sendFailure{noCredential(err)}
			}
			return cert, err
		}
	}
	sum := sha256.Sum256(req.Kubeconfig)
	return joined{server: server, credential: credential{
		key: lineKey{proxy: proxy, anchor: a.id, client: hex.EncodeToString(sum[:])}, config: config, who: "node's kubeconfig",
		send: func(ctx context.Context, l *line, r *http.Request) (*reply, error) {
			rt := &lineTripper{line: l}
			wrapped, err := transport.HTTPWrappersForConfig(tc, rt)
			if err != nil {
				return nil, errors.New("the node's kubeconfig: its token cannot be read")
			}
			resp, err := wrapped.RoundTrip(r)
			if err != nil {
				if rt.err != nil {
					return nil, rt.err
				}
				return nil, sendFailure{noCredential(err)}
			}
			defer resp.Body.Close()
			return rt.reply, nil
		},
	}}, nil
}

// noCredential is a plugin or a file that does not answer; it may yet.
func noCredential(err error) *failure {
	return fail(Denied, answer, "Run the credential plugin that the kubeconfig names by hand, or look at the files that it names",
		"the node's kubeconfig gives no credential: its plugin, certificate or token file fails").because(err)
}

// lineTripper lets client-go's wrappers put credentials on a request that goes over our line.
type lineTripper struct {
	line  *line
	reply *reply
	err   error
}

// RoundTrip implements http.RoundTripper.
func (t *lineTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	var secrets []string
	if _, value, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		secrets = append(secrets, value)
	}
	t.reply, t.err = withheldReply(t.line.roundTrip(req.Context(), req))(secrets)
	if t.err != nil {
		return nil, t.err
	}
	return &http.Response{StatusCode: t.reply.status, Header: t.reply.header, Body: io.NopCloser(bytes.NewReader(t.reply.body)), Request: req}, nil
}

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	if err != nil {
		return none, errors.New("the node's kubeconfig names no usable context, cluster and user")
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
				return nil, sendFailure{fail(Denied, final, "Run the kubeconfig's credential plugin by hand", "the node's kubeconfig gives no credential").because(err)}
			}
			defer resp.Body.Close()
			return rt.reply, nil
		},
	}}, nil
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

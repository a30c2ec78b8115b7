package live

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
)

// Node is nil when the Node object of this kubelet exists, under the name that is planned or that its certificate has: where the
// site names no node, the plan can only guess the host's name. The node asks with the identity that its kubelet has;
// only "there is none" is a finding, everything else could not be told.
func (p Probe) Node(ctx context.Context, name string) error {
	l := &Live{o: Options{Root: p.Root, Now: p.Now}}
	text, fail := l.readFile(kubeletConf)
	if fail.Fail != "" {
		return unclear("the node object cannot be asked for: %s", fail.Detail)
	}
	c, err := kubelet.ParseKubeconfig(text)
	if err != nil {
		return unclear("the node object cannot be asked for: %s: %w", kubeletConf, err)
	}
	tr, err := l.transport(c)
	if err != nil {
		return unclear("the node object cannot be asked for: %w", err)
	}
	err = askNode(ctx, tr, c.Server, name)
	// Under another name than its own a node is told 404 by some API servers, and 403 by others.
	if other := certified(tr); err != nil && other != "" && other != name && askNode(ctx, tr, c.Server, other) == nil {
		return nil
	}
	return err
}

// certified is the node's name in the client certificate (system:node:NAME).
func certified(tr *http.Transport) string {
	for _, c := range tr.TLSClientConfig.Certificates {
		if leaf, err := x509.ParseCertificate(c.Certificate[0]); err == nil {
			if name, ok := strings.CutPrefix(leaf.Subject.CommonName, "system:node:"); ok {
				return name
			}
		}
	}
	return ""
}

func askNode(ctx context.Context, tr *http.Transport, server, name string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+"/api/v1/nodes/"+url.PathEscape(name), nil)
	if err != nil {
		return unclear("the node object cannot be asked for: %w", err)
	}
	client := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return unclear("the cluster does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var status struct {
		Reason  string `json:"reason"`
		Details struct {
			Kind string `json:"kind"`
		} `json:"details"`
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxFile)) // one that breaks off is no Status
	_ = json.Unmarshal(b, &status)
	// A portal, or an API server without this path, answers 404 as well: only a Status about nodes tells.
	if resp.StatusCode == http.StatusNotFound && status.Reason == "NotFound" && status.Details.Kind == "nodes" {
		return fmt.Errorf("the cluster has no node %s: the kubelet has not registered it (journalctl -u kubelet)", name)
	}
	return unclear("%s answered %s for node %s", server, resp.Status, name)
}

// transport is TLS as a kubeconfig says: its CA, its client certificate. No proxy of the environment.
func (l *Live) transport(c *kubelet.Kubeconfig) (*http.Transport, error) {
	read := func(data []byte, file, what string) ([]byte, error) {
		b, fail := l.material(data, file)
		if fail.Fail != "" {
			return nil, fmt.Errorf("%s: %s", what, fail.Detail)
		}
		return b, nil
	}
	if c.Insecure || c.ProxyURL != "" || c.Exec {
		return nil, errors.New(kubeletConf + " says how to connect in a way that prelet does not use")
	}
	ca, err := read(c.CAData, c.CAFile, "its CA")
	if err != nil {
		return nil, err
	}
	cert, err := read(c.ClientCertData, c.ClientCertFile, "its certificate")
	if err != nil {
		return nil, err
	}
	key, err := read([]byte(c.ClientKeyData), c.ClientKeyFile, "its key")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New(kubeletConf + " holds no CA")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New(kubeletConf + ": its certificate and its key cannot be used together")
	}
	return &http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: c.TLSServerName, Time: l.o.Now}}, nil
}

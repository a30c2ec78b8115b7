package live

import (
	"bytes"
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

// Node reads the Node object of this kubelet, under the name that is planned or that its certificate has: where the
// site names no node, the plan can only guess the host's name. The node asks with the identity that its kubelet has;
// only "there is none" is a finding, everything else could not be told.
func (p Probe) Node(ctx context.Context, name string) (kubelet.Node, error) {
	tr, server, err := p.asNode()
	if err != nil {
		return kubelet.Node{}, err
	}
	defer tr.CloseIdleConnections()
	n, err := askNode(ctx, tr, server, name)
	// Under another name than its own a node is told 404 by some API servers, and 403 by others.
	if other := certified(tr); err != nil && other != "" && other != name {
		if n, err := askNode(ctx, tr, server, other); err == nil {
			return n, nil
		}
	}
	return n, err
}

// PatchLabels changes labels of a Node with the identity that its kubelet has. An error with a method Refused() bool that is
// true is the cluster's no: another attempt gives the same.
func (p Probe) PatchLabels(ctx context.Context, name string, changes []kubelet.LabelChange) error {
	tr, server, err := p.asNode()
	if err != nil {
		return err
	}
	defer tr.CloseIdleConnections()
	code, body, _, err := request(ctx, tr, http.MethodPatch, server, name, kubelet.LabelPatch(changes))
	switch {
	case err != nil:
		return unclear("the cluster does not answer: %w", err)
	case code == http.StatusOK:
		return nil
	}
	var status struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &status)
	if status.Message == "" {
		status.Message = http.StatusText(code)
	}
	if code == http.StatusForbidden || code == http.StatusUnprocessableEntity {
		return &refused{status.Message}
	}
	return unclear("%s answered %d: %s", server, code, status.Message)
}

// refused is what the cluster does not let a node do.
type refused struct{ message string }

func (r *refused) Error() string { return r.message }

// Refused is what activate asks.
func (r *refused) Refused() bool { return true }

// asNode is the way to the cluster as kubelet.conf says.
func (p Probe) asNode() (*http.Transport, string, error) {
	l := &Live{o: Options{Root: p.Root, Now: p.Now}}
	text, fail := l.readFile(kubeletConf)
	if fail.Fail != "" {
		return nil, "", unclear("the node object cannot be asked for: %s", fail.Detail)
	}
	c, err := kubelet.ParseKubeconfig(text)
	if err != nil {
		return nil, "", unclear("the node object cannot be asked for: %s: %w", kubeletConf, err)
	}
	tr, err := l.transport(c)
	if err != nil {
		return nil, "", unclear("the node object cannot be asked for: %w", err)
	}
	return tr, c.Server, nil
}

// certified is the node's name in the client certificate (system:node:NAME).
func certified(tr *http.Transport) string {
	for _, c := range tr.TLSClientConfig.Certificates {
		if leaf, err := x509.ParseCertificate(c.Certificate[0]); err == nil {
			if name, ok := strings.CutPrefix(leaf.Subject.CommonName, nodeUser); ok {
				return name
			}
		}
	}
	return ""
}

// request asks about one Node, and gives the status, the body and the Date header of the answer.
func request(ctx context.Context, tr *http.Transport, method, server, name string, body []byte) (code int, answer []byte, date string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(server, "/")+"/api/v1/nodes/"+url.PathEscape(name), bytes.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json-patch+json")
	}
	client := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(io.LimitReader(resp.Body, maxFile)) // one that breaks off cannot be read either
	return resp.StatusCode, answer, resp.Header.Get("Date"), nil
}

func askNode(ctx context.Context, tr *http.Transport, server, name string) (kubelet.Node, error) {
	code, body, date, err := request(ctx, tr, http.MethodGet, server, name, nil)
	if err != nil {
		return kubelet.Node{}, unclear("the cluster does not answer: %w", err)
	}
	if code == http.StatusOK {
		n, err := kubelet.ParseNode(body, date)
		if err != nil {
			return n, unclear("%s answered for node %s: %w", server, name, err)
		}
		return n, nil
	}
	var status struct {
		Reason  string `json:"reason"`
		Details struct {
			Kind string `json:"kind"`
		} `json:"details"`
	}
	_ = json.Unmarshal(body, &status)
	// A portal, or an API server without this path, answers 404 as well: only a Status about nodes tells.
	if code == http.StatusNotFound && status.Reason == "NotFound" && status.Details.Kind == "nodes" {
		return kubelet.Node{}, fmt.Errorf("the cluster has no node %s: the kubelet has not registered it (journalctl -u kubelet)", name)
	}
	return kubelet.Node{}, unclear("%s answered %d for node %s", server, code, name)
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
	return &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: c.TLSServerName, Time: l.o.Now}}, nil
}

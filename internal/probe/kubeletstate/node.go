package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe/cluster"
	"github.com/prelet/prelet/internal/probe/joined"
)

// Node reads the Node object of this kubelet, under the name that is planned or that its certificate has: where the
// site names no node, the plan can only guess the host's name. The node asks with the identity that its kubelet has;
// only "there is none" is a finding, everything else could not be told.
func (p Probe) Node(ctx context.Context, name string) (kubelet.Node, error) {
	c, err := p.asNode()
	if err != nil {
		return kubelet.Node{}, err
	}
	defer c.CloseIdleConnections()
	n, err := c.node(ctx, name)
	// Under another name than its own a node is told 404 by some API servers, and 403 by others.
	if other := c.name; err != nil && other != "" && other != name {
		if n, err := c.node(ctx, other); err == nil {
			return n, nil
		}
	}
	return n, err
}

// PatchLabels changes labels of a Node with the identity that its kubelet has. An error with a method Refused() bool
// that is true is the cluster's no: another attempt gives the same.
func (p Probe) PatchLabels(ctx context.Context, name string, changes []kubelet.LabelChange) error {
	c, err := p.asNode()
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	code, body, _, err := c.request(ctx, http.MethodPatch, name, kubelet.LabelPatch(changes))
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
	return unclear("%s answered %d: %s", c.server, code, status.Message)
}

// refused is what the cluster does not let a node do.
type refused struct{ message string }

func (r *refused) Error() string { return r.message }

// Refused is what activate asks.
func (r *refused) Refused() bool { return true }

// nodeClient is a connection to the cluster with the identity that this node's kubelet has.
type nodeClient struct {
	*http.Client
	server string
	name   string // in the client certificate (system:node:NAME)
}

// asNode reads kubelet.conf for a nodeClient.
func (p Probe) asNode() (*nodeClient, error) {
	n := p.node()
	text, fail := n.Root.TrustedText(joined.Conf)
	if fail != nil {
		return nil, unclear("the node object cannot be asked for: %s", fail.Why)
	}
	k, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		return nil, unclear("the node object cannot be asked for: %s %w", joined.Conf, err)
	}
	c, err := connect(n, k)
	if err != nil {
		return nil, unclear("the node object cannot be asked for: %w", err)
	}
	return c, nil
}

// connect connects as kubelet.conf says: with its CA and its client certificate.
func connect(n joined.Node, k cluster.Kubeconfig) (*nodeClient, error) {
	if k.Cluster.InsecureSkipTLSVerify || k.Cluster.ProxyURL != "" || k.User.Exec != nil {
		return nil, errors.New(joined.Conf + " says how to connect in a way that prelet does not use")
	}
	for _, m := range []struct {
		what string
		data *[]byte
		file string
	}{
		{"CA", &k.Cluster.CertificateAuthorityData, k.Cluster.CertificateAuthority},
		{"certificate", &k.User.ClientCertificateData, k.User.ClientCertificate},
		{"key", &k.User.ClientKeyData, k.User.ClientKey},
	} {
		b, fail := n.Material(*m.data, m.file)
		if fail != nil {
			return nil, fmt.Errorf("its %s: %s", m.what, fail.Why)
		}
		*m.data = b
	}

	client, err := k.HTTPClient(cluster.Options{Now: n.Now})
	if err != nil {
		return nil, fmt.Errorf("%s %w", joined.Conf, err)
	}
	name, _ := n.Certificate(k.User.ClientCertificateData)
	return &nodeClient{client, k.Cluster.Server, name}, nil
}

// request asks about one Node, and returns the status, the body and the Date header of the response.
func (c *nodeClient) request(
	ctx context.Context, method, name string, body []byte,
) (code int, answer []byte, date string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	where := strings.TrimSuffix(c.server, "/") + "/api/v1/nodes/" + url.PathEscape(name)
	req, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json-patch+json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(io.LimitReader(resp.Body, nodefile.Max)) // one that breaks off cannot be read either
	return resp.StatusCode, answer, resp.Header.Get("Date"), nil
}

func (c *nodeClient) node(ctx context.Context, name string) (kubelet.Node, error) {
	code, body, date, err := c.request(ctx, http.MethodGet, name, nil)
	if err != nil {
		return kubelet.Node{}, unclear("the cluster does not answer: %w", err)
	}
	if code == http.StatusOK {
		n, err := kubelet.ParseNode(body, date)
		if err != nil {
			return n, unclear("%s answered for node %s: %w", c.server, name, err)
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
		return kubelet.Node{}, fmt.Errorf("the cluster has no node %s: the kubelet has not registered it yet (journalctl -u kubelet says why), or somebody deleted it; a kubelet that runs makes it again when it is restarted (systemctl restart kubelet)", name)
	}
	return kubelet.Node{}, unclear("%s answered %d for node %s", c.server, code, name)
}

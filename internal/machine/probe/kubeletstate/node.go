package kubeletstate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// NodeObject reads the Node of this kubelet, under the planned name or the name in its certificate: if the site
// names no node, the plan can only use the host name. It uses the identity of the kubelet. Every failure is an
// Unclear, except that the node does not exist.
func (p Probe) NodeObject(ctx context.Context, name string) (kubelet.NodeObject, error) {
	c, err := p.connectAsNode()
	if err != nil {
		return kubelet.NodeObject{}, err
	}
	defer c.CloseIdleConnections()

	name = cmp.Or(name, c.name)
	n, err := c.readNode(ctx, name)
	// For another name than its own a node gets 404 from some API servers, and 403 from others.
	if err != nil && c.name != "" && c.name != name {
		if n, err := c.readNode(ctx, c.name); err == nil {
			return n, nil
		}
	}

	return n, err
}

// Patch changes a Node: with the identity of its kubelet, to which the NodeRestriction plugin allows that for its own
// Node except for taints, or as the client of a credential.
//
// If the cluster refuses the change, so that another attempt is useless, the error has a method Refused() bool that
// returns true; if the Node was changed after it was read, a method Changed() bool.
func (p Probe) Patch(ctx context.Context, name, credential string, change kubelet.NodeChange) error {
	c, err := p.connectAs(credential)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()

	kind, path, document := change.Patch(p.Now())
	path = nodePath(name) + path + "?fieldManager=prelet"

	return c.write(ctx, http.MethodPatch, path, "application/"+kind+"+json", document)
}

// Event creates an event with the identity of the kubelet, which may do that: see NodeRules in
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go of k8s.io/kubernetes.
func (p Probe) Event(ctx context.Context, e kubelet.Event) error {
	c, err := p.connectAsNode()
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()

	return c.write(ctx, http.MethodPost, "/api/v1/namespaces/default/events", "application/json", e.Document(p.Now()))
}

// maxPods limits the list of a node's pods. A drained node has a few of DaemonSets.
const maxPods = 250

// Pods returns the pods of a Node that a drain evicts and that have not ended. The Node authorizer allows a kubelet to
// list the pods that are bound to its Node (plugin/pkg/auth/authorizer/node/node_authorizer.go, authorizePod).
func (p Probe) Pods(ctx context.Context, node string) ([]string, error) {
	c, err := p.connectAsNode()
	if err != nil {
		return nil, err
	}
	defer c.CloseIdleConnections()

	query := url.Values{
		"fieldSelector": {"spec.nodeName=" + node + ",status.phase!=Succeeded,status.phase!=Failed"},
		"limit":         {strconv.Itoa(maxPods)},
	}
	resp, err := c.send(ctx, http.MethodGet, "/api/v1/pods?"+query.Encode(), "", nil)
	switch {
	case err != nil:
		return nil, err
	case resp.code == http.StatusUnauthorized:
		return nil, c.unauthorized()
	case resp.code != http.StatusOK:
		return nil, newUnclear("%s answered %d for the pods of node %s", c.server, resp.code, node)
	}

	return kubelet.ParsePods(resp.body)
}

// write sends a document, to be encoded as JSON. Its errors are those of Patch.
func (c *nodeClient) write(ctx context.Context, method, path, contentType string, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	message := cmp.Or(resp.status().Message, http.StatusText(resp.code))

	switch {
	case resp.code == http.StatusOK || resp.code == http.StatusCreated:
		return nil
	case resp.code == http.StatusConflict:
		return &changedError{message}
	case resp.isRefusal():
		return &refusedError{message}
	case resp.code == http.StatusUnauthorized:
		return c.unauthorized()
	}

	return newUnclear("%s answered %d: %s", c.server, resp.code, message)
}

// isRefusal reports whether the cluster refuses a change, so that the same change is refused again. An admission
// webhook that denies a request without a code gets 400; policies and webhooks may choose another code, also 401.
//
// Source: k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go; the reasons of a
// ValidatingAdmissionPolicy.
func (r nodeResponse) isRefusal() bool {
	switch r.code {
	case http.StatusForbidden, http.StatusUnprocessableEntity:
		return true
	case http.StatusUnauthorized:
		// Of a policy or a webhook: … denied request: …, … denied the request: …. The text of a client without a valid
		// certificate is "Unauthorized".
		return strings.Contains(r.status().Message, " denied ")
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}

	isClientError := r.code >= 400 && r.code < 500
	return isClientError && r.status().Kind == "Status"
}

// changedError is a patch of a Node that was changed after it was read.
type changedError struct{ message string }

func (c *changedError) Error() string { return c.message }

// Changed distinguishes this error for internal/machine/activation.
func (c *changedError) Changed() bool { return true }

// refusedError is a change that the cluster does not allow a node to make.
type refusedError struct{ message string }

func (r *refusedError) Error() string { return r.message }

// Refused distinguishes this error for internal/machine/activation.
func (r *refusedError) Refused() bool { return true }

// nodeClient is a connection to the cluster with the identity of this node's kubelet.
type nodeClient struct {
	*http.Client
	server string
	name   string // in the client certificate (system:node:NAME)
	owner  string // of the client certificate, for messages
	token  string // of a node that joins; "" for a client certificate

	isKubelet bool // that certificate is the kubelet's
}

// connectAs makes a nodeClient from the server and the CA of kubelet.conf, for the client of a credential: its
// certificate and key, PEM in one text. "" is the node.
func (p Probe) connectAs(credential string) (*nodeClient, error) {
	if credential == "" {
		return p.connectAsNode()
	}

	client, pair, err := p.readClient(credential, "taints cannot be patched")
	if err != nil {
		return nil, err
	}
	if end := client.Leaf.NotAfter; p.Now().After(end) {
		return nil, newUnclear("taints cannot be patched: the certificate of credential %s has expired at %s: issue "+
			"another one", credential, end.UTC().Format(time.RFC3339))
	}

	return p.connect(pair, "credential "+credential)
}

// connectAsNode makes a nodeClient from kubelet.conf. With a certificate that has expired, nothing is sent.
func (p Probe) connectAsNode() (*nodeClient, error) {
	if expired := p.Expired(); expired != "" {
		return nil, newUnclear("the node object cannot be read: %s: set the clock, or join again with a token", expired)
	}

	return p.connect(nil, "the certificate that "+joined.Conf+" names")
}

// connect makes a nodeClient from kubelet.conf. pair replaces its certificate and key, unless it is nil; owner
// describes them.
func (p Probe) connect(pair []byte, owner string) (*nodeClient, error) {
	n := p.node()
	text, f := n.Root.TrustedText(joined.Conf)
	if f != nil {
		return nil, newUnclear("the node object cannot be read: %s", f.Why)
	}
	k, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		return nil, newUnclear("the node object cannot be read: %s %w", joined.Conf, err)
	}
	if pair != nil {
		u := k.User
		u.ClientCertificateData, u.ClientCertificate = pair, ""
		u.ClientKeyData, u.ClientKey = pair, ""
		u.Token, u.TokenFile, u.Exec = "", "", nil
	}
	c, err := newNodeClient(n, k)
	if err != nil {
		return nil, newUnclear("the node object cannot be read: %w", err)
	}
	c.owner, c.isKubelet = owner, pair == nil

	return c, nil
}

// newNodeClient returns a client with the CA and the client certificate of kubelet.conf.
func newNodeClient(n joined.Reader, k cluster.Kubeconfig) (*nodeClient, error) {
	if k.Cluster.InsecureSkipTLSVerify || k.Cluster.ProxyURL != "" || k.User.Exec != nil {
		return nil, errors.New(joined.Conf + " connects in a way that prelet does not support")
	}

	materials := []struct {
		what string
		data *[]byte
		file string
	}{
		{"CA", &k.Cluster.CertificateAuthorityData, k.Cluster.CertificateAuthority},
		{"certificate", &k.User.ClientCertificateData, k.User.ClientCertificate},
		{"key", &k.User.ClientKeyData, k.User.ClientKey},
	}
	for _, m := range materials {
		b, f := n.Material(*m.data, m.file)
		if f != nil {
			return nil, fmt.Errorf("its %s: %s", m.what, f.Why)
		}
		*m.data = b
	}

	client, err := k.HTTPClient(cluster.ClientConfig{Now: n.Now})
	if err != nil {
		return nil, fmt.Errorf("%s %w", joined.Conf, err)
	}
	name, _ := n.Certificate(k.User.ClientCertificateData)

	return &nodeClient{Client: client, server: k.Cluster.Server, name: name}, nil
}

// nodeResponse is the response to a request about one Node.
type nodeResponse struct {
	code int
	body []byte
	date string // the Date header
}

// apiStatus is the part of a Kubernetes Status that is read.
type apiStatus struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Details struct {
		Kind string `json:"kind"`
	} `json:"details"`
}

func (r nodeResponse) status() (s apiStatus) {
	_ = json.Unmarshal(r.body, &s) // a body that is not JSON has no status

	return s
}

func nodePath(name string) string { return "/api/v1/nodes/" + url.PathEscape(name) }

// send sends a request to a path. A body has a content type.
func (c *nodeClient) send(
	ctx context.Context,
	method, path, contentType string,
	body []byte,
) (nodeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	at := strings.TrimSuffix(c.server, "/") + path
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nodeResponse{}, newUnclear("invalid URL of the node: %w", err)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nodeResponse{}, newUnclear("the cluster does not answer: %w", err)
	}
	defer resp.Body.Close()

	// A partial body cannot be parsed.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, nodefile.Max))

	return nodeResponse{resp.StatusCode, text, resp.Header.Get("Date")}, nil
}

// unauthorized is the error for a certificate that the cluster does not accept.
func (c *nodeClient) unauthorized() error {
	next := "Replace it"
	if c.isKubelet {
		next = "A kubelet renews only one that is accepted (journalctl -u kubelet). To join again, " +
			kubelet.HowToJoinAgain
	}

	return newUnclear("%s answered 401: %s has expired, or is of another cluster, or of a CA that the API server no "+
		"longer accepts. %s", c.server, c.owner, next)
}

func (c *nodeClient) readNode(ctx context.Context, name string) (kubelet.NodeObject, error) {
	resp, err := c.send(ctx, http.MethodGet, nodePath(name), "", nil)
	if err != nil {
		return kubelet.NodeObject{}, err
	}
	if resp.code == http.StatusOK {
		n, err := kubelet.ParseNode(resp.body, resp.date)
		if err != nil {
			return n, newUnclear("%s answered for node %s: %w", c.server, name, err)
		}
		return n, nil
	}

	if resp.code == http.StatusUnauthorized {
		return kubelet.NodeObject{}, c.unauthorized()
	}

	// A portal, or an API server without this path, answers 404 as well. Only a Status about nodes is certain.
	s := resp.status()
	if resp.code == http.StatusNotFound && s.Reason == "NotFound" && s.Details.Kind == "nodes" {
		const format = "the cluster has no node %s: the kubelet has not registered it yet (journalctl -u kubelet " +
			"shows why), or it was deleted; a restarted kubelet registers it again (systemctl restart kubelet)"
		return kubelet.NodeObject{}, fmt.Errorf(format, name)
	}

	return kubelet.NodeObject{}, newUnclear("%s answered %d for node %s", c.server, resp.code, name)
}

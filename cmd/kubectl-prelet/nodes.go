package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prelet/prelet/internal/report/annotation"
)

const (
	pageSize    = 500       // Nodes in one response of the API server
	maxResponse = 256 << 20 // bytes
)

// node holds the shown fields of a Node.
type node struct {
	Name    string             `json:"name"`
	Status  string             `json:"status"` // as kubectl get nodes shows it
	Why     string             `json:"status_message,omitempty"`
	Kubelet string             `json:"kubelet_version"`
	Report  *annotation.Report `json:"report"`            // null: the node has not reported
	Problem string             `json:"problem,omitempty"` // why the report cannot be read
	Time    *time.Time         `json:"report_changed,omitempty"`
}

// isDegraded reports whether the node reports that it is degraded.
func (n node) isDegraded() bool { return n.Report != nil && len(n.Report.Degraded) > 0 }

// apiNode has the fields of a Node that are read.
type apiNode struct {
	Kind     string // "" for an item of a list
	Metadata struct {
		Name          string            `json:"name"`
		Annotations   map[string]string `json:"annotations"`
		ManagedFields []struct {
			Manager  string          `json:"manager"`
			Time     time.Time       `json:"time"`
			FieldsV1 json.RawMessage `json:"fieldsV1"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Conditions []struct{ Type, Status, Message string }
		NodeInfo   struct{ KubeletVersion string }
	} `json:"status"`
}

// toNode returns the shown fields of a Node.
func (a apiNode) toNode() node {
	n := node{Name: a.Metadata.Name, Status: "Unknown", Kubelet: a.Status.NodeInfo.KubeletVersion}

	for _, c := range a.Status.Conditions {
		switch {
		case c.Type != "Ready":
		case c.Status == "True":
			n.Status = "Ready"
		default:
			n.Status = "NotReady"
			n.Why = c.Message
		}
	}
	if a.Spec.Unschedulable {
		n.Status += ",SchedulingDisabled"
	}

	report, ok, err := annotation.Parse(a.Metadata.Annotations)
	switch {
	case err != nil:
		n.Problem = err.Error()
	case ok:
		report.Degraded = append([]annotation.Reason{}, report.Degraded...) // never null in JSON
		n.Report = &report
		n.Time = a.findTime()
	}

	return n
}

// findTime returns when the annotations changed last; nil if the API server does not say so.
func (a apiNode) findTime() (last *time.Time) {
	for _, m := range a.Metadata.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(m.FieldsV1, &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Annotations["f:"+annotation.Generation]; ok && !m.Time.IsZero() {
			last = &m.Time
		}
	}

	return last
}

// client reads Nodes.
type client struct {
	http   *http.Client
	server *url.URL
}

// connect returns a client for the cluster of a kubeconfig.
func connect(from clientcmd.ClientConfig) (*client, error) {
	config, err := from.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = "kubectl-prelet"

	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}

	return &client{http: h, server: server}, nil
}

// nodePage is one response to a request for Nodes.
type nodePage struct {
	Kind     string
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []apiNode `json:"items"`
}

// list returns the nodes with these labels, all for "". If the pages expire while they are read, it asks once more,
// for one page with all nodes.
func (c *client) list(ctx context.Context, selector string) ([]node, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}

	nodes, err := c.listPages(ctx, query)
	var refused *responseError
	if errors.As(err, &refused) && refused.code == http.StatusGone {
		query.Del("limit")
		query.Del("continue")
		nodes, err = c.listPages(ctx, query)
	}

	return nodes, err
}

// listPages reads pages until the last. It changes query.
func (c *client) listPages(ctx context.Context, query url.Values) ([]node, error) {
	const what = "list nodes"
	nodes := []node{}

	for {
		var page nodePage
		if err := c.read(ctx, what, query, &page, "api", "v1", "nodes"); err != nil {
			return nil, err
		}
		if page.Kind != "NodeList" {
			return nil, c.wrongResponse(what, "NodeList", page.Kind)
		}
		for _, item := range page.Items {
			nodes = append(nodes, item.toNode())
		}

		next := page.Metadata.Continue
		switch next {
		case "":
			return nodes, nil
		case query.Get("continue"):
			return nil, fmt.Errorf("cannot %s at %s: the server repeats a page", what, c.server)
		}
		query.Set("continue", next)
	}
}

// get returns one node.
func (c *client) get(ctx context.Context, name string) (node, error) {
	if why := content.IsPathSegmentName(name); len(why) > 0 || name == "" {
		return node{}, fmt.Errorf("invalid node name %q: kubectl get nodes lists the names", name)
	}

	what := "get node " + clean(name)
	var a apiNode
	if err := c.read(ctx, what, nil, &a, "api", "v1", "nodes", url.PathEscape(name)); err != nil {
		return node{}, err
	}
	if a.Kind != "Node" {
		return node{}, c.wrongResponse(what, "Node", a.Kind)
	}

	return a.toNode(), nil
}

// wrongResponse returns the error of a response that is another object than the requested one.
func (c *client) wrongResponse(what, want, got string) error {
	const format = "cannot %s at %s: the response is not a %s of Kubernetes, its kind is %.40q"
	return fmt.Errorf(format, what, c.server, want, got)
}

// responseError is a response with another status than 200.
type responseError struct {
	code int
	text string
}

func (r *responseError) Error() string { return r.text }

// newResponseError describes a response. body is a Status, unless a proxy has answered with another page.
func (c *client) newResponseError(what string, resp *http.Response, body []byte) error {
	text := fmt.Sprintf("cannot %s at %s: %s", what, c.server, resp.Status)

	var status struct{ Message string }
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		text += ": " + clean(status.Message)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += ". It needs the right to get and list nodes: kubectl auth can-i list nodes"
	}

	return &responseError{resp.StatusCode, text}
}

// read sends a GET and decodes the response. what is for messages.
func (c *client) read(ctx context.Context, what string, query url.Values, into any, parts ...string) error {
	at := c.server.JoinPath(parts...)
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}

	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("cannot %s at %s: %w", what, c.server, err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.newResponseError(what, resp, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot %s at %s: the response is not JSON of Kubernetes: %w", what, c.server, err)
	}

	return nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prelet/prelet/internal/report/annotation"
)

const (
	requestTimeout = 30 * time.Second // unless --request-timeout is given
	pageSize       = 500              // Nodes in one response of the API server
	maxResponse    = 256 << 20        // bytes
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
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
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

// list returns the nodes with these labels, all for "".
func (c *client) list(ctx context.Context, selector string) ([]node, error) {
	nodes := []node{}
	query := url.Values{"limit": {fmt.Sprint(pageSize)}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}

	for {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []apiNode `json:"items"`
		}
		if err := c.read(ctx, "list nodes", query, &page, "api", "v1", "nodes"); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			nodes = append(nodes, item.toNode())
		}

		if page.Metadata.Continue == "" {
			return nodes, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// get returns one node.
func (c *client) get(ctx context.Context, name string) (node, error) {
	var a apiNode
	err := c.read(ctx, "get node "+clean(name), nil, &a, "api", "v1", "nodes", url.PathEscape(name))

	return a.toNode(), err
}

// read sends a GET and decodes the response. what is for messages.
func (c *client) read(ctx context.Context, what string, query url.Values, into any, path ...string) error {
	at := c.server.JoinPath(path...)
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
		var status struct{ Message string }
		_ = json.Unmarshal(body, &status) // a proxy may answer with another page
		return fmt.Errorf("cannot %s at %s: %s: %s", what, c.server, resp.Status, clean(status.Message))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot %s at %s: the response is not JSON of Kubernetes: %w", what, c.server, err)
	}

	return nil
}

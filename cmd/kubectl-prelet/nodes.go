package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"

	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/model/texts"
)

// node holds the shown fields of a Node.
type node struct {
	Name    string              `json:"name"`
	Status  string              `json:"status"` // as kubectl get nodes shows it
	Why     string              `json:"status_message,omitempty"`
	Kubelet string              `json:"kubelet_version"`
	Report  *annotation.Content `json:"report"`               // null: the node has not reported
	Problem string              `json:"problem,omitempty"`    // why the report cannot be read
	Stale   string              `json:"stale_site,omitempty"` // the message of the condition that says so
	Time    *time.Time          `json:"report_changed,omitempty"`
}

func (n node) isDegraded() bool {
	return n.Report != nil && len(n.Report.Degraded) > 0
}

func newNode(from *corev1.Node) node {
	n := node{Name: from.Name, Status: "Unknown", Kubelet: from.Status.NodeInfo.KubeletVersion}

	for _, c := range from.Status.Conditions {
		if c.Reason == condition.StaleSite {
			n.Stale = c.Message
		}
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			n.Status = "Ready"
		default:
			n.Status = "NotReady"
			n.Why = c.Message
		}
	}
	if from.Spec.Unschedulable {
		n.Status += ",SchedulingDisabled"
	}

	report, ok, err := annotation.Parse(from.Annotations)
	switch {
	case err != nil:
		n.Problem = err.Error()
	case ok:
		report.Degraded = append([]annotation.Reason{}, report.Degraded...) // never null in JSON
		n.Report = &report
		n.Time = findTime(from.ManagedFields)
	}

	return n
}

// findTime returns when the annotations changed last; nil if the API server does not say so.
func findTime(managed []metav1.ManagedFieldsEntry) (last *time.Time) {
	for _, m := range managed {
		if m.FieldsV1 == nil || m.Time == nil {
			continue
		}

		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		_, isOurs := fields.Metadata.Annotations["f:"+annotation.Generation]
		if isOurs && (last == nil || last.Before(m.Time.Time)) {
			last = &m.Time.Time
		}
	}

	return last
}

// client reads Nodes. It knows the types of core/v1 only: client-go's clientset brings those of all APIs, which take
// half a minute to compile.
type client struct {
	server string // its URL, for messages
	api    *rest.RESTClient
	query  runtime.ParameterCodec
}

// connect returns a client for the cluster of the flags, of a kubeconfig, or of the pod that it runs in.
func (o *listFlags) connect() (*client, error) {
	config, err := o.cluster.ClientConfig()
	if err != nil {
		file := o.cluster.ConfigAccess().GetExplicitFile()
		if kind := kindOf(file); kind != "" && kind != texts.KindKubeconfig {
			err = fmt.Errorf("%s is %s", file, kind)
		}
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.Timeout, err = clientcmd.ParseTimeout(o.timeout)
	if err != nil {
		return nil, fmt.Errorf("--request-timeout: %w", err)
	}
	config.UserAgent = "kubectl-prelet"

	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}

	return &client{hidePassword(config.Host), api, runtime.NewParameterCodec(scheme)}, nil
}

// kindOf returns the kind of a regular file; "" if it is unknown, or the file cannot be read.
func kindOf(name string) string {
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() { // a pipe would be waited for
		return ""
	}
	f, err := os.Open(name) //nolint:forbidigo // a regular file, of which the beginning is read
	if err != nil {
		return ""
	}
	defer f.Close()
	const head = 4096
	text, _ := io.ReadAll(io.LimitReader(f, head))

	return texts.KindOfNamed(name, text)
}

// hidePassword returns the URL of a server without its password, for messages.
func hidePassword(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "the API server"
	}

	return u.Redacted()
}

// list returns the nodes with these labels, all for "". The pager reads pages of 500 nodes, and all at once if pages
// expire while it reads.
func (c *client) list(ctx context.Context, selector string) ([]node, error) {
	nodes := []node{}
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		var page corev1.NodeList
		if err := c.api.Get().Resource("nodes").VersionedParams(&o, c.query).Do(ctx).Into(&page); err != nil {
			return nil, err
		}
		isRepeated := page.Continue != "" && page.Continue == o.Continue
		if page.ResourceVersion == "" || isRepeated {
			return nil, errNotKubernetes
		}
		return &page, nil
	})

	all, _, err := pages.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, c.describe("list nodes", err)
	}
	err = meta.EachListItem(all, func(item runtime.Object) error {
		n, ok := item.(*corev1.Node)
		if !ok {
			return errNotKubernetes
		}
		nodes = append(nodes, newNode(n))
		return nil
	})
	if err != nil {
		return nil, c.describe("list nodes", err)
	}

	return nodes, nil
}

func (c *client) get(ctx context.Context, name string) (node, error) {
	if why := content.IsPathSegmentName(name); len(why) > 0 || name == "" {
		return node{}, fmt.Errorf("invalid node name %q: kubectl get nodes lists the names", name)
	}

	var n corev1.Node
	err := c.api.Get().Resource("nodes").Name(name).Do(ctx).Into(&n)
	if err == nil && n.Name != name {
		err = errNotKubernetes
	}
	if err != nil {
		return node{}, c.describe("get node "+name, err)
	}

	return newNode(&n), nil
}

// errNotKubernetes is an answer that decodes, but lacks what each answer of an API server has.
var errNotKubernetes = errors.New("the response is not of an API server")

// describe returns the error of a request. The server's own text may be in it.
func (c *client) describe(what string, err error) error {
	text := fmt.Sprintf("cannot %s at %s: %v", what, c.server, err)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		text += ". It needs the right to get and list nodes: kubectl auth can-i list nodes"
	case !apierrors.IsNotFound(err):
		text += ". kubectl get nodes uses the same connection"
	}

	return errors.New(clean(text))
}

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ObjectRequest names a ConfigMap and what one may show to be given it.
type ObjectRequest struct {
	Endpoint
	// CAPEM is the verified CA, as Trust has it. It may be empty only with a Kubeconfig, whose own CA then counts.
	CAPEM []byte
	// Kubeconfig is the text of a joined node's kubelet.conf. It is tried first. Nothing else of it but the user's
	// credentials counts, except for what Servers, ProxyURL and CAPEM leave open.
	Kubeconfig []byte
	// KubeconfigName is what messages call it; "" is "the node's kubeconfig", which a node has that joined.
	KubeconfigName string
	// KubeconfigDir is what relative paths in it are below.
	KubeconfigDir string
	// Token is asked when there is no Kubeconfig, or when the server does not accept it, and only after the server's
	// chain was verified.
	Token Token
	// Namespace and Name of the ConfigMap.
	Namespace, Name string
	// Optional says that a Kubernetes NotFound is an answer, and not one to wait for.
	Optional bool
}

func (r ObjectRequest) who() string {
	if r.KubeconfigName != "" {
		return r.KubeconfigName
	}
	return "the node's kubeconfig"
}

// FetchConfigMap reads one ConfigMap over verified TLS.
func (c *Client) FetchConfigMap(ctx context.Context, req ObjectRequest) (Object, error) {
	object := "configmap " + quote(req.Namespace+"/"+req.Name)
	for _, part := range []string{req.Namespace, req.Name} {
		if part == "" || len(part) > 253 || part[0] == '.' || strings.ContainsFunc(part, notObjectRune) {
			return Object{}, invalid(object, "Write config_map = \"namespace/name\"", "%q is no name of an object", quote(part))
		}
	}
	creds, servers, err := c.credentials(req)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Object = object
			return Object{}, e
		}
		return Object{}, invalid(object, "Correct the cluster block of the site", "%v", err)
	}
	var out Object
	err = c.try(ctx, servers, object, func(ctx context.Context, server *url.URL, dial time.Duration) *failure {
		var refused *failure
		for _, cred := range creds {
			var f *failure
			out, f = c.readConfigMap(ctx, server, cred, req, dial)
			if f != nil && f.noToken && refused != nil { // why the token was needed tells more than that there is none
				refused.detail += "; and " + f.detail
				return refused
			}
			if f == nil || f.kind != Denied || f.starting {
				return f
			}
			refused = f
		}
		return refused
	})
	if err != nil {
		return Object{}, err
	}
	return out, nil
}

func notObjectRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.')
}

// credential is one way to be somebody: what it does to the handshake, and how it sends a request.
type credential struct {
	key    lineKey // without server
	config *tls.Config
	who    string // for messages
	plugin *plugin
	send   func(ctx context.Context, l *line, req *http.Request) (*reply, error)
}

func (c *Client) credentials(req ObjectRequest) ([]credential, []*url.URL, error) {
	if req.ProxyURL != "" {
		if _, err := ParseProxy(req.ProxyURL); err != nil {
			return nil, nil, err
		}
	}
	var creds []credential
	list := req.Servers
	if len(req.Kubeconfig) > 0 {
		k, err := c.kubeconfigCredential(req)
		switch {
		case err == nil:
			creds = append(creds, k.credential)
			if len(list) == 0 {
				list = []string{k.server}
			}
		case req.Token == nil:
			return nil, nil, &Error{Kind: Denied, Detail: err.Error(), Err: err,
				Hint: "Repair " + req.who() + ", or remove it and let the node join with a bootstrap token"}
		}
	}
	servers, err := parseServers(list)
	if err != nil {
		return nil, nil, err
	}
	if req.Token != nil {
		certs, err := parseBundle(req.CAPEM)
		if err != nil {
			return nil, nil, fmt.Errorf("no verified CA for a token: %w", err)
		}
		a := newAnchor(certs)
		creds = append(creds, credential{
			key: lineKey{proxy: req.ProxyURL, anchor: a.id}, config: a.config(), who: "bootstrap token",
			send: func(ctx context.Context, l *line, r *http.Request) (*reply, error) {
				t, f := readToken(ctx, req.Token)
				if f != nil {
					l.reusable = false
					return nil, sendFailure{f}
				}
				r.Header.Set("Authorization", "Bearer "+t.bearer())
				return withheldReply(l.roundTrip(ctx, r))(t.secrets())
			},
		})
	}
	if len(creds) == 0 {
		return nil, nil, errors.New("neither a kubeconfig nor a token is given")
	}
	return creds, servers, nil
}

// sendFailure carries a failure through an error.
type sendFailure struct{ *failure }

func (s sendFailure) Error() string { return s.detail }

// withheldReply takes what we sent out of what came back, before any of it can get into a message. A good object is
// left as it is.
func withheldReply(r *reply, err error) func(secrets []string) (*reply, error) {
	return func(secrets []string) (*reply, error) {
		if err != nil {
			if text := err.Error(); withhold(text, secrets) != text {
				return nil, errors.New(withhold(text, secrets))
			}
			return nil, err
		}
		r.secrets = secrets
		if r.status != http.StatusOK {
			r.withhold()
		}
		return r, nil
	}
}

func (c *Client) readConfigMap(ctx context.Context, server *url.URL, cred credential, req ObjectRequest, dial time.Duration) (Object, *failure) {
	key := cred.key
	key.server = server.Host
	if cred.plugin != nil { // not in the handshake, whose end would hide that the plugin had none
		if _, err := cred.plugin.get(ctx); err != nil {
			return Object{}, noCredential(cred.who, err)
		}
	}
	r, f := c.ask(ctx, server, key, cred.config, dial, func(ctx context.Context, l *line) (*reply, error) {
		return cred.send(ctx, l, newRequest(ctx, server, req.Namespace, req.Name))
	})
	if f != nil {
		return Object{}, f
	}
	if f := classifyStatus(r); f != nil {
		refine(f, r, cred, req)
		return Object{}, f
	}
	o, f := parseConfigMap(r, req.Namespace, req.Name)
	if f != nil { // again, so that the message is made from a text without secrets
		r.withhold()
		f.detail = "the answer is unusable"
		if _, clean := parseConfigMap(r, req.Namespace, req.Name); clean != nil {
			f = clean
		}
	}
	return o, f
}

// refine says what a refusal means for this object and this credential.
func refine(f *failure, r *reply, cred credential, req ObjectRequest) {
	switch r.status {
	case http.StatusUnauthorized:
		f.hint = "What " + cred.who + " gives is expired or of another cluster; let the node join again"
		if cred.who == "bootstrap token" {
			f.hint = "The bootstrap token is wrong or expired; make one with `kubeadm token create` and put it into the credential that `token` names"
		}
	case http.StatusForbidden:
		f.hint = fmt.Sprintf("Allow it to those who join (system:bootstrappers) and those who have joined (system:nodes), by a Role and a RoleBinding in namespace %[1]s:\n"+
			"    kubectl -n %[1]s create role prelet:%[2]s --verb=get --resource=configmaps --resource-name=%[2]s\n"+
			"    kubectl -n %[1]s create rolebinding prelet:%[2]s --role=prelet:%[2]s --group=system:bootstrappers --group=system:nodes",
			req.Namespace, req.Name)
	case http.StatusNotFound:
		f.hint = fmt.Sprintf("Make it, or correct config_map; `kubectl -n %s get configmaps` lists what is there", req.Namespace)
		if s, ok := statusOf(r); ok && s.Reason == "NotFound" && req.Optional {
			f.class = final
		}
	}
}

func newRequest(ctx context.Context, server *url.URL, namespace, name string) *http.Request {
	u := *server
	u.Path = "/api/v1/namespaces/" + namespace + "/configmaps/" + name
	return getRequest(ctx, &u)
}

func getRequest(ctx context.Context, u *url.URL) *http.Request {
	r := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

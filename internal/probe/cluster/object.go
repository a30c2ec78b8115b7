package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/prelet/prelet/internal/fault"
)

// ObjectRequest names a ConfigMap and the credentials to read it with.
type ObjectRequest struct {
	Endpoint
	// CAPEM is the verified CA, as Trust has it. It may be empty only with a Kubeconfig, whose own CA then counts.
	CAPEM []byte
	// Kubeconfig is the text of a joined node's kubelet.conf. It is tried first. Only its user is used, except for what
	// Servers, ProxyURL and CAPEM leave open.
	Kubeconfig []byte
	// KubeconfigName is its name in messages; "" is "the node's kubeconfig", which a node has that joined.
	KubeconfigName string
	// KubeconfigDir is the folder of relative paths in it.
	KubeconfigDir string
	// Token is read when there is no Kubeconfig, or when the server does not accept it. It is sent only to a server
	// whose chain was verified.
	Token Token
	// Namespace and Name of the ConfigMap.
	Namespace, Name string
	// Optional makes a Kubernetes NotFound final: the object is not waited for.
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
			return Object{}, invalid(object, "Write config_map = \"namespace/name\"",
				"invalid object name %q", quote(part))
		}
	}
	creds, servers, proxied, err := c.credentials(req)
	if err != nil {
		var f *failure
		if errors.As(err, &f) {
			return Object{}, f.about(object)
		}
		return Object{}, invalid(object, "Correct the cluster block of the site", "%v", err)
	}

	var out Object
	read := func(ctx context.Context, t target, cred credential) (f *failure) {
		out, f = c.readConfigMap(ctx, t, cred, req)
		return f
	}
	s := search{client: c, servers: servers, proxied: proxied, object: object, attempt: withEach(creds, read)}
	if err := s.try(ctx); err != nil {
		return Object{}, err
	}
	return out, nil
}

// withEach makes an attempt with one credential after the other, until one is not refused.
func withEach(
	creds []credential, read func(context.Context, target, credential) *failure,
) func(context.Context, target) *failure {
	return func(ctx context.Context, t target) *failure {
		var refused *failure
		for _, cred := range creds {
			f := read(ctx, t, cred)
			// Why the token was needed says more than that there is none that can be used.
			if f != nil && refused != nil && (f.noToken || f.Code == fault.CredentialMissing) {
				refused.Why += "; and " + f.Why
				return refused
			}
			if f == nil || f.Code != fault.ClusterDenied || f.starting {
				return f
			}
			refused = f
		}
		return refused
	}
}

func notObjectRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.')
}

// credential is one way to identify this node.
type credential struct {
	who    string // for messages
	config *rest.Config
	token  Token       // read for each attempt; may be nil
	plugin *execPlugin // run when it is needed; may be nil
}

// credentials returns the credentials in the order in which they are tried, the servers, and whether a proxy is used.
func (c *Client) credentials(req ObjectRequest) (creds []credential, servers []*url.URL, proxied bool, err error) {
	if req.ProxyURL != "" {
		if _, err := ParseProxy(req.ProxyURL); err != nil {
			return nil, nil, false, err
		}
	}
	proxied = req.ProxyURL != ""
	list := req.Servers
	if len(req.Kubeconfig) > 0 {
		config, plugin, err := c.kubeconfigConfig(req)
		var others *untrusted
		switch {
		case errors.As(err, &others):
			return nil, nil, false, others.failure(req.who(), err)
		case err == nil:
			creds = append(creds, credential{who: req.who(), config: config, plugin: plugin})
			proxied = config.Proxy != nil
			if len(list) == 0 {
				list = []string{config.Host}
			}
		case req.Token == nil:
			return nil, nil, false, fail(fault.ClusterDenied, final,
				"Repair "+req.who()+", or remove it and let the node join with a bootstrap token",
				"%s %v", req.who(), err).because(err)
		}
	}
	if servers, err = parseServers(list); err != nil {
		return nil, nil, false, err
	}
	if req.Token != nil {
		certs, err := parseBundle(req.CAPEM)
		if err != nil {
			return nil, nil, false, fmt.Errorf("no verified CA for a token: %w", err)
		}
		config := newConfig([]byte(encodeBundle(certs)), req.ProxyURL)
		creds = append(creds, credential{who: "bootstrap token", config: config, token: req.Token})
	}
	if len(creds) == 0 {
		return nil, nil, false, errors.New("neither a kubeconfig nor a token is given")
	}
	return creds, servers, proxied, nil
}

// identified returns the configuration of one attempt, with what the token's credential or the plugin gives now.
func (cred credential) identified(ctx context.Context) (*rest.Config, *failure) {
	config := rest.CopyConfig(cred.config)
	if cred.token != nil {
		t, f := readToken(ctx, cred.token)
		config.BearerToken = t.bearer()
		return config, f
	}
	if cred.plugin != nil {
		if err := cred.plugin.identify(ctx, config); err != nil {
			return nil, noCredential(cred.who, err)
		}
	}
	return config, nil
}

// noCredential is a plugin or a file that gives no credential. It may yet, unless there is no such program.
func noCredential(who string, err error) *failure {
	var others *untrusted
	if errors.As(err, &others) {
		return others.failure(who+" gives no credential:", err)
	}
	const hint = "Run the credential plugin that the kubeconfig names by hand, or look at the files that it names"
	f := fail(fault.ClusterDenied, again, hint, "%s gives no credential: %s", who, quote(err.Error())).because(err)
	if errors.Is(err, errNoPlugin) {
		f.class = local
	}
	return f
}

func (c *Client) readConfigMap(ctx context.Context, t target, cred credential, req ObjectRequest) (Object, *failure) {
	config, f := cred.identified(ctx)
	if f != nil {
		return Object{}, f
	}
	r, f := c.getReady(ctx, t, config, "/api/v1/namespaces/"+req.Namespace+"/configmaps/"+req.Name)
	if f != nil {
		return Object{}, f
	}
	if r.status == http.StatusUnauthorized && cred.plugin != nil {
		cred.plugin.given = nil // the next attempt runs the plugin again
	}
	if f := classifyStatus(r); f != nil {
		refine(f, r, cred, req)
		return Object{}, f
	}
	return parseConfigMap(r, req.Namespace, req.Name)
}

// refine says what a refusal means for this object and this credential.
func refine(f *failure, r *reply, cred credential, req ObjectRequest) {
	if r.isStarting() {
		return // it refuses everybody
	}

	switch r.status {
	case http.StatusUnauthorized:
		f.Next = "What " + cred.who + " gives is expired or of another cluster; let the node join again"
		if cred.who == "bootstrap token" {
			f.Next = "The bootstrap token is wrong or expired; make one with `kubeadm token create` and put it into the " +
				"credential that `token` names"
		}
	case http.StatusForbidden:
		f.Next = fmt.Sprintf("Allow it to those who join (system:bootstrappers) and those who have joined (system:nodes), "+
			"by a Role and a RoleBinding in namespace %[1]s:\n"+
			"    kubectl -n %[1]s create role prelet:%[2]s --verb=get --resource=configmaps --resource-name=%[2]s\n"+
			"    kubectl -n %[1]s create rolebinding prelet:%[2]s --role=prelet:%[2]s "+
			"--group=system:bootstrappers --group=system:nodes",
			req.Namespace, req.Name)
	case http.StatusNotFound:
		f.Next = fmt.Sprintf("Make it, or correct config_map; `kubectl -n %s get configmaps` lists what is there",
			req.Namespace)
		if s, ok := statusOf(r); ok && s.Reason == "NotFound" && req.Optional {
			f.class = final
		}
	}
}

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
)

// ObjectRequest names an object and the credentials to read it with.
type ObjectRequest struct {
	Endpoint
	// CAPEM is the verified CA, as in Trust. It may be empty only with a Kubeconfig, whose own CA is then used.
	CAPEM []byte
	// Kubeconfig is the text of a joined node's kubelet.conf. It is tried first. Only its user is used, except for
	// Servers, ProxyURL and CAPEM, which it contains if the request does not.
	Kubeconfig []byte
	// KubeconfigName is its name in messages; "" is "the node's kubeconfig", that of a joined node.
	KubeconfigName string
	// KubeconfigDir is the folder of relative paths in it.
	KubeconfigDir string
	// Token is read without a Kubeconfig, and if the server refuses that one. It is sent only over a verified
	// connection.
	Token Token
	// Namespace and Name of the object. A Node has no Namespace.
	Namespace, Name string
	// Optional makes a Kubernetes NotFound final: the object is not waited for.
	Optional bool
}

const tokenName = "bootstrap token"

// FetchConfigMap reads one ConfigMap over verified TLS.
func (c *Client) FetchConfigMap(ctx context.Context, req ObjectRequest) (Object, error) {
	object := "configmap " + quote(req.Namespace+"/"+req.Name)

	for _, name := range []string{req.Namespace, req.Name} {
		if len(content.IsDNS1123Subdomain(name)) > 0 {
			return Object{}, refuse(object, "Write config_map = \"namespace/name\"",
				"invalid object name %q", quote(name))
		}
	}

	var out Object
	var refused string

	path := "/api/v1/namespaces/" + req.Namespace + "/configmaps/" + req.Name
	read := func(ctx context.Context, t target, cred credential) *failure {
		isJoined := cred.token == nil
		if isJoined {
			refused = ""
		}

		r, f := c.getAs(ctx, t, cred, path)
		if f != nil {
			if isJoined && f.Code == fault.ClusterDenied {
				refused = f.Why
			}

			return f
		}

		if f := classifyStatus(r); f != nil {
			if isJoined && r.status == http.StatusUnauthorized {
				refused = f.Why
			}
			addObjectHint(f, r, cred, req)

			return f
		}

		out, f = parseConfigMap(r, req.Namespace, req.Name)
		out.Refused = refused

		return f
	}

	err := c.readObject(ctx, req, object, read)

	return out, err
}

// readFunc makes one attempt with one server and one credential.
type readFunc func(context.Context, target, credential) *failure

// readObject searches for a server with which read succeeds, with the credentials of the request in order.
func (c *Client) readObject(ctx context.Context, req ObjectRequest, object string, read readFunc) error {
	s := search{client: c, object: object}
	creds, err := c.credentials(req, &s)

	var f *failure
	switch {
	case errors.As(err, &f):
		return f.toFault(object)
	case err != nil:
		return refuse(object, "Correct the cluster block of the site", "%v", err)
	}

	s.attempt = tryEach(creds, read)

	return s.run(ctx)
}

// tryEach returns an attempt that tries the credentials in order, until one is not refused.
func tryEach(creds []credential, read readFunc) attemptFunc {
	return func(ctx context.Context, t target) *failure {
		var refused *failure

		for _, cred := range creds {
			f := read(ctx, t, cred)

			if f == nil {
				return nil
			}

			// The refusal of the first credential is the cause; an unusable token is added to it.
			isUnusable := f.noToken || f.Code == fault.CredentialMissing
			if isUnusable && refused != nil {
				refused.Why += "; and " + f.Why
				return refused
			}

			if f.Code != fault.ClusterDenied || f.starting {
				return f
			}

			refused = f
		}

		return refused
	}
}

type credential struct {
	name   string // for messages
	config *rest.Config
	token  Token       // read for each attempt; may be nil
	plugin *execPlugin // run when it is needed; may be nil
}

// credentials returns the credentials in the order in which they are tried. It sets the servers of the search, and
// whether it uses a proxy.
func (c *Client) credentials(req ObjectRequest, s *search) (creds []credential, err error) {
	if req.ProxyURL != "" {
		s.proxied = true

		if _, err := ParseProxy(req.ProxyURL); err != nil {
			return nil, err
		}
	}

	servers := req.Servers

	if len(req.Kubeconfig) > 0 {
		cred, err := c.kubeconfigCredential(req)
		if err != nil {
			return nil, err
		}

		if cred != nil {
			creds = append(creds, *cred)
			s.proxied = cred.config.Proxy != nil

			if len(servers) == 0 {
				servers = []string{cred.config.Host}
			}
		}
	}

	s.hosts, err = parseServers(servers)
	if err != nil {
		return nil, err
	}

	if req.Token != nil {
		certs, err := parseBundle(req.CAPEM)
		if err != nil {
			return nil, fmt.Errorf("no verified CA for a token: %w", err)
		}

		config := newConfig([]byte(encodeBundle(certs)), req.ProxyURL)
		creds = append(creds, credential{
			name:   tokenName,
			config: config,
			token:  req.Token,
		})
	}

	if len(creds) == 0 {
		return nil, errors.New("neither a kubeconfig nor a token is given")
	}

	return creds, nil
}

// kubeconfigCredential returns the credential of the kubeconfig, nil if it is not usable and a token replaces it.
func (c *Client) kubeconfigCredential(req ObjectRequest) (*credential, error) {
	name := cmp.Or(req.KubeconfigName, "the node's kubeconfig")

	config, plugin, err := c.loadKubeconfigFor(req)
	if err == nil {
		return &credential{name: name, config: config, plugin: plugin}, nil
	}

	var untrusted *untrustedError

	switch {
	case errors.As(err, &untrusted):
		return nil, untrusted.failure(name, err)
	case req.Token != nil:
		return nil, nil
	}

	return nil, fail(fault.ClusterDenied, classFinal,
		"Repair "+name+", or remove it and let the node join with a bootstrap token",
		"%s %v", name, err).withCause(err)
}

// identify returns the configuration of one attempt, with the current token, or the current output of the plugin.
func (cred credential) identify(ctx context.Context) (*rest.Config, *failure) {
	config := rest.CopyConfig(cred.config)

	if cred.token != nil {
		t, f := readToken(ctx, cred.token)
		config.BearerToken = t.id + "." + t.secret

		return config, f
	}

	if cred.plugin != nil {
		if err := cred.plugin.identify(ctx, config); err != nil {
			return nil, failCredential(cred.name, err)
		}
	}

	return config, nil
}

// failCredential returns the failure of a plugin or a file that provides no credential. It is retried, unless the
// program does not exist.
func failCredential(name string, err error) *failure {
	name += " provides no credential:"

	var untrusted *untrustedError
	if errors.As(err, &untrusted) {
		return untrusted.failure(name, err)
	}

	next := "Run the credential plugin that the kubeconfig names by hand, or look at the files that it names"
	f := fail(fault.ClusterDenied, classRetry, next, "%s %s", name, quote(err.Error()))

	if errors.Is(err, errNoPlugin) {
		f.class = classLocal
	}

	return f.withCause(err)
}

// getAs is getReady with a credential.
func (c *Client) getAs(
	ctx context.Context,
	t target,
	cred credential,
	path string,
) (*reply, *failure) {
	config, f := cred.identify(ctx)
	if f != nil {
		return nil, f
	}

	r, f := c.getReady(ctx, t, config, path)
	if f == nil && r.status == http.StatusUnauthorized && cred.plugin != nil {
		cred.plugin.status = nil // the next attempt runs the plugin again
	}

	return r, f
}

// addObjectHint sets the next step of a refusal, for this object and this credential.
func addObjectHint(f *failure, r *reply, cred credential, req ObjectRequest) {
	if r.isStarting() {
		return // it refuses all requests
	}

	switch r.status {
	case http.StatusUnauthorized:
		f.Next = "The credential of " + cred.name + " is expired or of another cluster, or of a CA that the API " +
			"server no longer accepts; replace it"
		if req.KubeconfigName == "" {
			f.Next += ", or let the node join again: " + kubelet.HowToJoinAgain
		}
		if cred.name == tokenName {
			f.Next = "The bootstrap token is wrong or expired; make one with `kubeadm token create` and put it into " +
				"the credential that `token` names"
		}
	case http.StatusForbidden:
		f.Next = fmt.Sprintf(
			"Allow it to joining nodes (system:bootstrappers) and joined nodes (system:nodes), "+
				"by a Role and a RoleBinding in namespace %[1]s:\n"+
				"    kubectl -n %[1]s create role prelet:%[2]s --verb=get --resource=configmaps "+
				"--resource-name=%[2]s\n"+
				"    kubectl -n %[1]s create rolebinding prelet:%[2]s --role=prelet:%[2]s "+
				"--group=system:bootstrappers --group=system:nodes",
			req.Namespace,
			req.Name,
		)
	case http.StatusNotFound:
		f.Next = "Create it, or correct config_map; `kubectl -n " + req.Namespace +
			" get configmaps` lists the existing ones"

		if req.Optional && isNotFound(r) {
			f.class = classFinal
		}
	}
}

package cluster

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const maxNamedFile = 1 << 20 // bytes of a file that a kubeconfig names

// Kubeconfig is the cluster and the user of a kubeconfig's current context, as clientcmd reads them.
type Kubeconfig struct {
	Cluster *clientcmdapi.Cluster
	User    *clientcmdapi.AuthInfo
}

// HasIdentity reports whether the user identifies itself, by whatever means.
func (k Kubeconfig) HasIdentity() bool {
	u := k.User
	hasCert := len(u.ClientCertificateData) > 0 || u.ClientCertificate != ""
	hasKey := len(u.ClientKeyData) > 0 || u.ClientKey != ""
	return hasCert && hasKey || u.Token != "" || u.TokenFile != "" || u.Exec != nil
}

// HoldsCredentials reports whether a text is a kubeconfig that holds what a user identifies itself with, in any of its
// contexts: a token, a password, a private key, or the settings of a plugin that may be one.
func HoldsCredentials(text []byte) bool {
	if !bytes.Contains(text, []byte("users")) {
		return false
	}
	file, err := clientcmd.Load(text)
	if err != nil {
		return false
	}
	for _, u := range file.AuthInfos {
		if u.Token != "" || u.Password != "" || len(u.ClientKeyData) > 0 || u.AuthProvider != nil || u.Exec != nil && len(u.Exec.Env) > 0 {
			return true
		}
	}
	return false
}

// ParseKubeconfig reads a kubeconfig. The file belongs to the kubelet, so unknown fields are ignored, as it does.
// Errors are written to follow a name of the file, and quote no value.
func ParseKubeconfig(text []byte) (Kubeconfig, error) {
	file, err := loadKubeconfig(text, "")
	if err != nil {
		return Kubeconfig{}, err
	}
	context := file.Contexts[file.CurrentContext]
	k := Kubeconfig{file.Clusters[context.Cluster], file.AuthInfos[context.AuthInfo]}
	if host, ok := strings.CutPrefix(k.Cluster.Server, "https://"); !ok || host == "" {
		return Kubeconfig{}, fmt.Errorf("has the server %q, which is not an https URL", quote(k.Cluster.Server))
	}
	return k, nil
}

// HTTPClient returns a client for the cluster that identifies itself with the client certificate. Both the CA and the
// certificate must be in k, and not in files.
func (k Kubeconfig) HTTPClient(opts Options) (*http.Client, error) {
	server, err := ParseServer(k.Cluster.Server)
	if err != nil {
		return nil, err
	}
	c := New(opts)
	config := newConfig(k.Cluster.CertificateAuthorityData, "")
	config.Insecure = false
	config.ServerName = k.Cluster.TLSServerName
	config.CertData, config.KeyData = k.User.ClientCertificateData, k.User.ClientKeyData
	if err := loadFiles(config); err != nil {
		return nil, err
	}
	client, _, err := c.httpClient(target{server.Host, server.Host}, config)
	return client, err
}

// loadKubeconfig reads a kubeconfig whose current context names a cluster and a user that it has. Paths in it are
// made absolute below dir, unless dir is empty.
func loadKubeconfig(text []byte, dir string) (*clientcmdapi.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("is larger than %d KiB", maxKubeconfig>>10)
	}
	file, err := clientcmd.Load(text)
	if err != nil {
		return nil, errors.New("cannot be parsed as a Config of v1") // no detail: it may quote a key
	}

	context := file.Contexts[file.CurrentContext]
	if context == nil || context.Cluster == "" || context.AuthInfo == "" {
		return nil, errors.New("has no current-context that names a cluster and a user")
	}
	if file.Clusters[context.Cluster] == nil || file.AuthInfos[context.AuthInfo] == nil {
		return nil, fmt.Errorf("has no cluster %q or no user %q, which its current-context names",
			quote(context.Cluster), quote(context.AuthInfo))
	}

	if dir == "" {
		return file, nil
	}
	origin := filepath.Join(dir, "kubeconfig")
	for _, c := range file.Clusters {
		c.LocationOfOrigin = origin
	}
	for _, u := range file.AuthInfos {
		u.LocationOfOrigin = origin
	}
	return file, clientcmd.ResolveLocalPaths(file)
}

// kubeconfigConfig makes client-go's configuration of a kubeconfig: its client certificate, token or token file, and
// its plugin, if that is what identifies it. The site's servers, proxy and CA count before those of the file.
func (c *Client) kubeconfigConfig(req ObjectRequest) (*rest.Config, *execPlugin, error) {
	file, err := loadKubeconfig(req.Kubeconfig, req.KubeconfigDir)
	if err != nil {
		return nil, nil, err
	}
	cluster := file.Clusters[file.Contexts[file.CurrentContext].Cluster]
	if len(req.Servers) == 0 {
		if _, err := ParseServer(cluster.Server); err != nil {
			return nil, nil, fmt.Errorf("names a %w", err)
		}
	}
	if len(req.Servers) > 0 || req.ProxyURL != "" {
		cluster.ProxyURL = "" // it is not used
	}
	if cluster.ProxyURL != "" {
		if _, err := ParseProxy(cluster.ProxyURL); err != nil { // before clientcmd, whose message shows a password
			return nil, nil, fmt.Errorf("has a bad proxy-url: %w", err)
		}
	}
	user := file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo]
	if err := checkFiles(cluster, user); err != nil {
		return nil, nil, err
	}
	none := &clientcmd.ConfigOverrides{}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, file.CurrentContext, none, nil).ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be used: %s", quote(err.Error()))
	}
	if err := checkUser(config); err != nil {
		return nil, nil, err
	}

	config.UserAgent = userAgent
	if len(req.CAPEM) > 0 {
		config.CAData, config.CAFile, config.Insecure = req.CAPEM, "", false
	}
	if len(req.Servers) > 0 {
		config.ServerName, config.Proxy = "", nil
	}
	if req.ProxyURL != "" {
		setProxy(config, req.ProxyURL)
	}
	if config.Insecure {
		return nil, nil, errors.New("says insecure-skip-tls-verify, which is refused")
	}
	if err := loadFiles(config); err != nil {
		return nil, nil, err
	}

	// As in client-go, a plugin is not used by a user that has a certificate or a token.
	exec := config.ExecProvider
	config.ExecProvider = nil
	if exec == nil || config.BearerToken != "" || len(config.CertData) > 0 {
		return config, nil, nil
	}
	withPlugin := rest.CopyConfig(config)
	withPlugin.ExecProvider = exec
	plugin, err := newExecPlugin(withPlugin, c.opts.Now)
	return config, plugin, err
}

// checkFiles refuses files that client-go must not read: a pipe would hang it, a large one fill the memory, and one that
// others may change would say whom this node trusts, or as whom it acts. Nobody can change them once they are judged.
func checkFiles(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	for _, f := range []struct{ field, path string }{
		{"certificate-authority", cluster.CertificateAuthority},
		{"client-certificate", user.ClientCertificate},
		{"client-key", user.ClientKey},
		{"tokenFile", user.TokenFile},
	} {
		if f.path == "" {
			continue
		}
		look, err := nodefile.FindTrusted(f.path)
		var loose *nodefile.Loose
		switch {
		case errors.As(err, &loose):
			return fmt.Errorf("names as %s %w", f.field, &untrusted{quote(f.path), loose})
		case err != nil:
			continue // client-go says what is missing
		}
		look.Close()
		if !look.Mode().IsRegular() || look.Stat.Size > maxNamedFile {
			return fmt.Errorf("names as %s %s, which is not a regular file of at most 1 MiB", f.field, quote(f.path))
		}
	}
	if user.TokenFile == "" {
		return nil
	}
	token, err := nodefile.ReadFile(user.TokenFile, nodefile.Max)
	if err == nil && !isToken(strings.TrimSpace(string(token))) {
		return fmt.Errorf("names as tokenFile %s, which holds a character that no token has", quote(user.TokenFile))
	}
	return nil
}

// untrusted is a file or a program that a kubeconfig names, and that others may change.
type untrusted struct {
	path  string
	loose *nodefile.Loose
}

func (u *untrusted) Error() string { return nodefile.Untrusted(u.path, u.loose).Why }

// failure returns the failure of a kubeconfig for it. No server can help.
func (u *untrusted) failure(who string, err error) *failure {
	return fail(fault.ClusterUntrusted, local, nodefile.Untrusted(u.path, u.loose).Next, "%s %v", who, err).because(err)
}

// checkUser rejects what no kubelet has.
func checkUser(config *rest.Config) error {
	switch {
	case config.Impersonate.UserName != "":
		return errors.New("asks in another user's name (as), which is refused")
	case config.Username != "" || config.Password != "":
		return errors.New("has a user name or password, which Kubernetes has not accepted since 1.19")
	case config.AuthProvider != nil:
		return errors.New("has an auth-provider, which Kubernetes removed; use exec")
	}
	return nil
}

// loadFiles reads the files that a configuration names, once for all attempts of a call, and checks what is in them.
func loadFiles(config *rest.Config) error {
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("names a file: %w", err)
	}
	if len(config.CAData) == 0 {
		return errors.New("holds no CA, and none is given")
	}
	certs, err := parseBundle(config.CAData)
	if err != nil {
		return fmt.Errorf("has a bad CA: %w", err)
	}
	config.CAData = []byte(encodeBundle(certs)) // the same bytes for the same CAs, so that connections are shared

	if len(config.CertData) > 0 {
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return errors.New("has a client certificate and a key that do not belong together, or cannot be parsed")
		}
	}
	token := strings.TrimSpace(config.BearerToken)
	switch {
	case token == "" && config.BearerToken != "":
		return fmt.Errorf("names a token file that is empty: %s", config.BearerTokenFile)
	case !isToken(token):
		return errors.New("has a token with a character that no token has")
	}
	return nil
}

// isToken reports whether a text can be sent in a header.
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

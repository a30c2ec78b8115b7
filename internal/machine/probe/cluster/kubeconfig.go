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
	"github.com/prelet/prelet/internal/platform/apiaddress"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const maxNamedFile = 1 << 20 // bytes of a file that a kubeconfig names

// Kubeconfig is the cluster and the user of a kubeconfig's current context, as clientcmd reads them.
type Kubeconfig struct {
	Cluster *clientcmdapi.Cluster
	User    *clientcmdapi.AuthInfo

	HoldsCredentials bool // see the function; of any user
}

// HasIdentity reports whether the user has a credential of any kind.
func (k Kubeconfig) HasIdentity() bool {
	u := k.User
	hasCert := len(u.ClientCertificateData) > 0 || u.ClientCertificate != ""
	hasKey := len(u.ClientKeyData) > 0 || u.ClientKey != ""
	hasToken := u.Token != "" || u.TokenFile != ""

	return hasCert && hasKey || hasToken || u.Exec != nil
}

// HoldsCredentials reports whether a text is a kubeconfig that contains a credential of any user: a token, a
// password, a private key, or the environment of a plugin, which may be one.
func HoldsCredentials(text []byte) bool {
	if !bytes.Contains(text, []byte("users")) {
		return false
	}

	file, err := clientcmd.Load(text)

	return err == nil && holdsCredentials(file)
}

func holdsCredentials(file *clientcmdapi.Config) bool {
	for _, u := range file.AuthInfos {
		hasSecret := u.Token != "" || u.Password != "" || len(u.ClientKeyData) > 0
		hasPluginSecret := u.Exec != nil && len(u.Exec.Env) > 0

		if hasSecret || hasPluginSecret || u.AuthProvider != nil {
			return true
		}
	}

	return false
}

// ParseKubeconfig parses a kubeconfig. Unknown fields are ignored, as the kubelet does, which owns the file. Errors
// follow the name of the file in a message, and quote no value.
func ParseKubeconfig(text []byte) (Kubeconfig, error) {
	file, err := loadKubeconfig(text, "")
	if err != nil {
		return Kubeconfig{}, err
	}

	context := file.Contexts[file.CurrentContext]
	k := Kubeconfig{
		Cluster:          file.Clusters[context.Cluster],
		User:             file.AuthInfos[context.AuthInfo],
		HoldsCredentials: holdsCredentials(file),
	}

	host, isHTTPS := strings.CutPrefix(k.Cluster.Server, "https://")
	if !isHTTPS || host == "" {
		return Kubeconfig{}, fmt.Errorf("has the server %q, which is not an https URL", quote(k.Cluster.Server))
	}

	return k, nil
}

// EmbedPair returns a kubeconfig with the certificate and the key that it names, as read returns them: that of a node
// whose files are below a folder of this machine names paths of the node.
func EmbedPair(text []byte, read func(file string) (string, *fault.Fault)) ([]byte, *fault.Fault) {
	file, err := loadKubeconfig(text, "")
	if err != nil {
		return text, nil // as it is without files
	}

	user := file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo]
	for _, part := range []struct {
		data *[]byte
		file *string
	}{
		{&user.ClientCertificateData, &user.ClientCertificate},
		{&user.ClientKeyData, &user.ClientKey},
	} {
		if len(*part.data) > 0 || *part.file == "" {
			continue
		}
		content, f := read(*part.file)
		if f != nil {
			return nil, f
		}
		*part.data, *part.file = []byte(content), ""
	}

	out, err := clientcmd.Write(*file)
	if err != nil {
		return text, nil
	}

	return out, nil
}

// HTTPClient returns a client for the cluster that uses the client certificate. Both the CA and the certificate
// must be in k, and not in files.
func (k Kubeconfig) HTTPClient(opts ClientConfig) (*http.Client, error) {
	host, err := apiaddress.Parse(k.Cluster.Server)
	if err != nil {
		return nil, err
	}

	config := newConfig(k.Cluster.CertificateAuthorityData, "")
	config.Insecure = false
	config.ServerName = k.Cluster.TLSServerName
	config.CertData, config.KeyData = k.User.ClientCertificateData, k.User.ClientKeyData

	if err := loadFiles(config); err != nil {
		return nil, err
	}

	client, _, err := New(opts).httpClient(target{host, host}, config)

	return client, err
}

// loadKubeconfig parses a kubeconfig whose current context names an existing cluster and user. Paths in it are made
// absolute below dir, unless dir is empty.
func loadKubeconfig(text []byte, dir string) (*clientcmdapi.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("is larger than %d KiB", maxKubeconfig>>10)
	}

	file, err := clientcmd.Load(text)
	if err != nil {
		return nil, errors.New("cannot be parsed as a Config of v1") // without err, which may quote a key
	}

	context := file.Contexts[file.CurrentContext]
	if context == nil || context.Cluster == "" || context.AuthInfo == "" {
		return nil, errors.New("has no current-context that names a cluster and a user")
	}

	cluster, user := file.Clusters[context.Cluster], file.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
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

// loadKubeconfigFor returns client-go's configuration for the kubeconfig of a request: its client certificate,
// token or token file, and its plugin, if it uses one. The site's servers, proxy and CA replace those of the
// file.
func (c *Client) loadKubeconfigFor(req ObjectRequest) (*rest.Config, *execPlugin, error) {
	file, err := loadKubeconfig(req.Kubeconfig, req.KubeconfigDir)
	if err != nil {
		return nil, nil, err
	}

	if err := checkContext(file, req); err != nil {
		return nil, nil, err
	}

	overrides := &clientcmd.ConfigOverrides{}
	client := clientcmd.NewNonInteractiveClientConfig(*file, file.CurrentContext, overrides, nil)

	config, err := client.ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be used: %s", quote(err.Error()))
	}

	if err := checkUser(config); err != nil {
		return nil, nil, err
	}

	if err := applySite(config, req); err != nil {
		return nil, nil, err
	}

	if err := loadFiles(config); err != nil {
		return nil, nil, err
	}

	exec := config.ExecProvider
	config.ExecProvider = nil

	// As in client-go, a certificate or a token is preferred to a plugin.
	hasCredential := config.BearerToken != "" || len(config.CertData) > 0
	if exec == nil || hasCredential {
		return config, nil, nil
	}

	withPlugin := rest.CopyConfig(config)
	withPlugin.ExecProvider = exec
	plugin, err := newExecPlugin(withPlugin, c.opts.Now)

	return config, plugin, err
}

// checkContext checks the server, proxy and files of the current context. The proxy is removed if it is not used.
func checkContext(file *clientcmdapi.Config, req ObjectRequest) error {
	context := file.Contexts[file.CurrentContext]
	cluster, user := file.Clusters[context.Cluster], file.AuthInfos[context.AuthInfo]

	if len(req.Servers) == 0 {
		if _, err := apiaddress.Parse(cluster.Server); err != nil {
			return fmt.Errorf("names a server %w", err)
		}
	}

	if len(req.Servers) > 0 || req.ProxyURL != "" {
		cluster.ProxyURL = ""
	}

	if cluster.ProxyURL != "" {
		// Before clientcmd, whose message shows the password.
		if _, err := ParseProxy(cluster.ProxyURL); err != nil {
			return fmt.Errorf("has a bad proxy-url: %w", err)
		}
	}

	return checkFiles(cluster, user)
}

// applySite replaces the CA, servers and proxy with those of the site.
func applySite(config *rest.Config, req ObjectRequest) error {
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
		return errors.New("sets insecure-skip-tls-verify, which is refused")
	}

	return nil
}

// checkFiles refuses files that client-go must not read: pipes, which would block it, large files, and files that
// users besides root may change, because they determine the trusted CA and the identity of this node.
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

		if err := checkFile(f.path); err != nil {
			return fmt.Errorf("names as %s %w", f.field, err)
		}
	}

	if user.TokenFile == "" {
		return nil
	}

	// The current text of the file is sent with each request, also if the user has a token.
	token, err := nodefile.ReadFile(user.TokenFile, nodefile.Max)
	if err == nil && !isToken(strings.TrimSpace(string(token))) {
		return fmt.Errorf("names as tokenFile %s, which contains a character that is not allowed in a token",
			quote(user.TokenFile))
	}

	return nil
}

// checkFile checks one file. A missing file is accepted, because client-go reports it.
func checkFile(path string) error {
	found, err := nodefile.FindTrusted(path)

	var loose *nodefile.Loose

	switch {
	case errors.As(err, &loose):
		return &untrustedError{quote(path), loose}
	case err != nil:
		return nil
	}

	found.Close()

	if !found.Mode().IsRegular() || found.Stat.Size > maxNamedFile {
		return fmt.Errorf("%s, which is not a regular file of at most 1 MiB", quote(path))
	}

	return nil
}

// untrustedError is the error of a file or a program that a kubeconfig names and that users besides root may change.
type untrustedError struct {
	path  string
	loose *nodefile.Loose
}

func (u *untrustedError) Error() string {
	return nodefile.Untrusted(u.path, u.loose).Why
}

// failure returns the failure for it, with the message of err. No server can help.
func (u *untrustedError) failure(name string, err error) *failure {
	next := nodefile.Untrusted(u.path, u.loose).Next
	return fail(fault.ClusterUntrusted, classLocal, next, "%s %v", name, err).withCause(err)
}

// checkUser refuses users that no kubelet has.
func checkUser(config *rest.Config) error {
	switch {
	case config.Impersonate.UserName != "":
		return errors.New("impersonates another user (as), which is refused")
	case config.Username != "" || config.Password != "":
		return errors.New("has a user name or password, which Kubernetes has not accepted since 1.19")
	case config.AuthProvider != nil:
		return errors.New("has an auth-provider, which Kubernetes removed; use exec")
	}

	return nil
}

// loadFiles reads the files that a configuration names, once for all attempts of a call, and checks their content.
func loadFiles(config *rest.Config) error {
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("names a file: %w", err)
	}

	if len(config.CAData) == 0 {
		return errors.New("has no CA, and none is given")
	}

	certs, err := parseBundle(config.CAData)
	if err != nil {
		return fmt.Errorf("has a bad CA: %w", err)
	}

	// The same bytes for the same CAs, so that connections are shared.
	config.CAData = []byte(encodeBundle(certs))

	if len(config.CertData) > 0 {
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return errors.New("has a client certificate and a key that do not match, or cannot be parsed")
		}
	}

	token := strings.TrimSpace(config.BearerToken)

	switch {
	case token == "" && config.BearerToken != "":
		return fmt.Errorf("names an empty token file: %s", config.BearerTokenFile)
	case !isToken(token):
		return errors.New("has a token with a character that is not allowed in a token")
	}

	return nil
}

// isToken reports whether a text can be sent in a header.
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f
	})
}

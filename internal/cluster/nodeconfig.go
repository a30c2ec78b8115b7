package cluster

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// nodeConfig is a node's kubeconfig, as far as it says who asks whom. Fields that are not known are passed over: the file
// belongs to the kubelet. Source: k8s.io/client-go/tools/clientcmd/api/v1, types.go.
type nodeConfig struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Current    string `json:"current-context"`
	Contexts   []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string      `json:"name"`
		Cluster nodeCluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string   `json:"name"`
		User nodeUser `json:"user"`
	} `json:"users"`
}

type nodeCluster struct {
	Server             string `json:"server"`
	TLSServerName      string `json:"tls-server-name"`
	Insecure           bool   `json:"insecure-skip-tls-verify"`
	CAFile             string `json:"certificate-authority"`
	CAData             []byte `json:"certificate-authority-data"`
	ProxyURL           string `json:"proxy-url"`
	DisableCompression bool   `json:"disable-compression"`
	Extensions         []struct {
		Name      string          `json:"name"`
		Extension json.RawMessage `json:"extension"`
	} `json:"extensions"`
}

func (c nodeCluster) extension(name string) json.RawMessage {
	for _, e := range c.Extensions {
		if e.Name == name {
			return e.Extension
		}
	}
	return nil
}

type nodeUser struct {
	CertFile     string          `json:"client-certificate"`
	CertData     []byte          `json:"client-certificate-data"`
	KeyFile      string          `json:"client-key"`
	KeyData      []byte          `json:"client-key-data"`
	Token        string          `json:"token"`
	TokenFile    string          `json:"tokenFile"`
	Username     string          `json:"username"`
	Password     string          `json:"password"`
	Impersonate  string          `json:"as"`
	AuthProvider json.RawMessage `json:"auth-provider"`
	Exec         *pluginConfig   `json:"exec"`
}

func (u nodeUser) hasCertificate() bool { return len(u.CertData) > 0 || u.CertFile != "" }

// keyPair reads what is in files; data counts before files. A message names files, and quotes nothing of them.
func (u nodeUser) keyPair() (*tls.Certificate, error) {
	cert, key := u.CertData, u.KeyData
	var err error
	if len(cert) == 0 {
		if cert, err = readCredentialFile(u.CertFile); err != nil {
			return nil, err
		}
	}
	if len(key) == 0 {
		if key, err = readCredentialFile(u.KeyFile); err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("client certificate %s and key %s do not belong together, or cannot be parsed", u.CertFile, u.KeyFile)
	}
	return &pair, nil
}

// parseNodeConfig picks the cluster and the user of the current context. Paths are made absolute below dir, unless it is
// empty. Errors go on after "the node's kubeconfig", and quote no value that could be a secret.
func parseNodeConfig(text []byte, dir string) (nodeCluster, nodeUser, error) {
	none := func(format string, args ...any) (nodeCluster, nodeUser, error) {
		return nodeCluster{}, nodeUser{}, fmt.Errorf(format, args...)
	}
	if len(text) > maxKubeconfig {
		return none("is too large")
	}
	var doc nodeConfig
	if checkDepth(string(text)) != nil || yaml.Unmarshal(text, &doc) != nil { // the parser's message may quote a key
		return none("cannot be parsed")
	}
	if doc.Kind != "Config" || doc.APIVersion != "v1" {
		return none("cannot be parsed: it is no Config of v1")
	}
	var cluster, user string
	for _, c := range doc.Contexts {
		if c.Name == doc.Current {
			cluster, user = c.Context.Cluster, c.Context.User
		}
	}
	if cluster == "" || user == "" {
		return none("has no current-context that names a cluster and a user")
	}
	var cl *nodeCluster
	for i, c := range doc.Clusters {
		if c.Name == cluster {
			cl = &doc.Clusters[i].Cluster
		}
	}
	var u *nodeUser
	for i, x := range doc.Users {
		if x.Name == user {
			u = &doc.Users[i].User
		}
	}
	if cl == nil || u == nil {
		return none("has no cluster %q or no user %q, which its current-context names", quote(cluster), quote(user))
	}
	if err := u.check(); err != nil {
		return none("%w", err)
	}
	for _, p := range []*string{&cl.CAFile, &u.CertFile, &u.KeyFile, &u.TokenFile} {
		*p = below(dir, *p)
	}
	if u.Exec != nil && strings.ContainsRune(u.Exec.Command, filepath.Separator) { // else it is looked for in PATH
		u.Exec.Command = below(dir, u.Exec.Command)
	}
	return *cl, *u, nil
}

func below(dir, path string) string {
	if dir == "" || path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// check refuses what no kubelet has, and what two ways of being somebody would leave to chance.
func (u nodeUser) check() error {
	switch {
	case u.Impersonate != "":
		return errors.New("asks in another user's name (as), which is refused")
	case u.Username != "" || u.Password != "":
		return errors.New("has a user name or password, which Kubernetes has not accepted since 1.19")
	case len(u.AuthProvider) > 0 && string(u.AuthProvider) != "null":
		return errors.New("has an auth-provider, which Kubernetes removed; use exec")
	case u.hasCertificate() && len(u.KeyData) == 0 && u.KeyFile == "":
		return errors.New("has a client certificate without a key")
	case len(u.CertData) > 0 && u.CertFile != "", len(u.KeyData) > 0 && u.KeyFile != "" && u.hasCertificate():
		return errors.New("has a client certificate or key both as data and as a file")
	}
	return nil
}

// readCredentialFile reads a certificate, a key or a token of at most 1 MiB.
func readCredentialFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err == nil && len(b) > maxBody {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return b, err
}

package kubelet

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
)

// BootstrapKubeconfig returns the file that a kubelet joins with, in the shape of kubeadm's
// bootstrap-kubelet.conf: cluster kubernetes, user tls-bootstrap-token-user. server is a URL, caPEM the cluster's
// CA certificates. The token is written as it is, between quotes (one of digits only would else be read as a
// number), and may be a placeholder that stands for it. The same arguments give the same bytes.
func BootstrapKubeconfig(server, caPEM, token string) string {
	return `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ` + base64.StdEncoding.EncodeToString([]byte(caPEM)) + `
    server: ` + quotedYAML(server) + `
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: tls-bootstrap-token-user
  name: tls-bootstrap-token-user@kubernetes
current-context: tls-bootstrap-token-user@kubernetes
kind: Config
users:
- name: tls-bootstrap-token-user
  user:
    token: ` + quotedYAML(token) + `
`
}

// Secret is a text that does not print: every verb of fmt, JSON and slog show that it is there and no more.
// string(s) is the text.
type Secret string

func (s Secret) hidden() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// Format implements fmt.Formatter, for all verbs.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.hidden())) }

// MarshalText keeps the secret out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.hidden()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.hidden()) }

// Kubeconfig is what prelet needs of a kubeconfig: of its current context, or where it has none (a discovery file,
// kube-public/cluster-info) of its only cluster and user.
type Kubeconfig struct {
	Server        string // https://…
	TLSServerName string
	Insecure      bool // insecure-skip-tls-verify
	ProxyURL      string
	CAData        []byte // PEM
	CAFile        string

	ClientCertData []byte // PEM
	ClientCertFile string
	ClientKeyData  Secret // PEM
	ClientKeyFile  string
	Token          Secret
	TokenFile      string
	Exec           bool // a credential plugin is configured
}

// HasIdentity says whether the file says who asks, by whatever means.
func (k *Kubeconfig) HasIdentity() bool {
	cert := (len(k.ClientCertData) > 0 || k.ClientCertFile != "") && (k.ClientKeyData != "" || k.ClientKeyFile != "")
	return cert || k.Token != "" || k.TokenFile != "" || k.Exec
}

// ParseKubeconfig reads a kubeconfig with the bounds and the strictness of ParseConfig. A server that is not https,
// data that is no PEM, a context that names what is not there are errors. Errors never quote credentials.
func ParseKubeconfig(text string) (*Kubeconfig, error) {
	doc, err := parseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	k, err := readKubeconfig(doc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return k, nil
}

func readKubeconfig(doc map[string]any) (*Kubeconfig, error) {
	root := reader{object: doc}
	if kind, version := root.text("kind"), root.text("apiVersion"); root.err == nil && (kind != "Config" || version != "v1") {
		return nil, fmt.Errorf("kind %q of apiVersion %q, not Config of v1", kind, version)
	}
	clusterName, userName := "", ""
	if current := root.text("current-context"); current != "" {
		context := root.named("contexts", "context", current)
		clusterName, userName = context.text("cluster"), context.text("user")
		root.note(context.err)
		if root.err == nil && clusterName == "" {
			return nil, fmt.Errorf("context %q names no cluster", current)
		}
	}
	cluster := root.named("clusters", "cluster", clusterName)
	k := &Kubeconfig{
		Server:        cluster.text("server"),
		TLSServerName: cluster.text("tls-server-name"),
		Insecure:      cluster.flag("insecure-skip-tls-verify"),
		ProxyURL:      cluster.text("proxy-url"),
		CAData:        cluster.pem("certificate-authority-data"),
		CAFile:        cluster.text("certificate-authority"),
	}
	root.note(cluster.err)
	if userName != "" || len(root.list("users")) > 0 {
		user := root.named("users", "user", userName)
		k.ClientCertData = user.pem("client-certificate-data")
		k.ClientCertFile = user.text("client-certificate")
		k.ClientKeyData = Secret(user.pem("client-key-data"))
		k.ClientKeyFile = user.text("client-key")
		k.Token = Secret(user.text("token"))
		k.TokenFile = user.text("tokenFile")
		k.Exec = user.object["exec"] != nil
		root.note(user.err)
	}
	if root.err != nil {
		return nil, root.err
	}
	if host, ok := strings.CutPrefix(k.Server, "https://"); !ok || host == "" {
		return nil, fmt.Errorf("the server is %q, not an https URL", k.Server)
	}
	return k, nil
}

// reader takes fields out of an object and keeps the first error.
type reader struct {
	object map[string]any
	where  string
	err    error
}

func (r *reader) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) text(name string) string {
	switch v := r.object[name].(type) {
	case nil:
	case string:
		return v
	default:
		r.note(fmt.Errorf("%s%s is not a string", r.where, name))
	}
	return ""
}

func (r *reader) flag(name string) bool {
	switch v := r.object[name].(type) {
	case nil:
	case bool:
		return v
	default:
		r.note(fmt.Errorf("%s%s is not true or false", r.where, name))
	}
	return false
}

func (r *reader) list(name string) []any {
	switch v := r.object[name].(type) {
	case nil:
	case []any:
		return v
	default:
		r.note(fmt.Errorf("%s%s is not a list", r.where, name))
	}
	return nil
}

func (r *reader) pem(name string) []byte {
	text := r.text(name)
	if text == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		r.note(fmt.Errorf("%s%s is no base64", r.where, name))
		return nil
	}
	if block, _ := pem.Decode(data); block == nil {
		r.note(fmt.Errorf("%s%s holds no PEM", r.where, name))
		return nil
	}
	return data
}

// named finds one entry of a list of {name, KIND: {…}}; without a name the list must have exactly one.
func (r *reader) named(list, kind, name string) *reader {
	entries := r.list(list)
	if name == "" && len(entries) != 1 {
		r.note(fmt.Errorf("%d %s and no current-context that says which: keep one", len(entries), list))
		return &reader{}
	}
	var found []map[string]any
	for _, v := range entries {
		entry, ok := v.(map[string]any)
		if !ok {
			r.note(fmt.Errorf("%s has an entry that is no object", list))
			return &reader{}
		}
		if entryName, _ := entry["name"].(string); name == "" || entryName == name {
			found = append(found, entry)
		}
	}
	if len(found) != 1 {
		r.note(fmt.Errorf("%d %s are named %q, not one", len(found), list, name))
		return &reader{}
	}
	inner, ok := found[0][kind].(map[string]any)
	if !ok && found[0][kind] != nil {
		r.note(fmt.Errorf("%s: %s is no object", list, kind))
	}
	return &reader{object: inner, where: kind + ": "}
}

package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// execExtension is the name under which a kubeconfig's cluster keeps what is meant for plugins.
const execExtension = "client.authentication.k8s.io/exec"

// pluginConfig is the block exec of a kubeconfig's user.
type pluginConfig struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	APIVersion         string `json:"apiVersion"`
	ProvideClusterInfo bool   `json:"provideClusterInfo"`
	InteractiveMode    string `json:"interactiveMode"`
}

// pluginCluster is what a plugin may be told of the cluster. Source of it, of execCredential and of the rules:
// k8s.io/client-go/pkg/apis/clientauthentication/v1, and plugin/pkg/client/auth/exec.
type pluginCluster struct {
	Server             string          `json:"server"`
	TLSServerName      string          `json:"tls-server-name,omitempty"`
	CAData             []byte          `json:"certificate-authority-data,omitempty"`
	ProxyURL           string          `json:"proxy-url,omitempty"`
	DisableCompression bool            `json:"disable-compression,omitempty"`
	Config             json.RawMessage `json:"config"` // null where the kubeconfig has none
}

// execCredential is what a plugin is told, in KUBERNETES_EXEC_INFO, and what it answers on stdout.
type execCredential struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Spec       struct {
		Cluster     *pluginCluster `json:"cluster,omitempty"`
		Interactive bool           `json:"interactive"`
	} `json:"spec"`
	Status *struct {
		Expires *time.Time `json:"expirationTimestamp,omitempty"`
		Token   string     `json:"token,omitempty"`
		Cert    string     `json:"clientCertificateData,omitempty"`
		Key     string     `json:"clientKeyData,omitempty"`
	} `json:"status,omitempty"`
}

// pluginCredential is what a plugin gave: a token, a certificate, or both.
type pluginCredential struct {
	token   string
	cert    *tls.Certificate
	expires time.Time // zero: with this process
}

// plugin is a program that gives credentials. It is run when they are needed, once at a time, and again when what it gave
// has expired or was not accepted. It has no terminal: this is a boot.
type plugin struct {
	config pluginConfig
	info   string // KUBERNETES_EXEC_INFO=…
	now    func() time.Time

	mu    sync.Mutex
	given *pluginCredential
}

// errNoPlugin: no waiting brings a program that is not there.
var errNoPlugin = errors.New("cannot be run")

// pluginTimeout bounds one run: a plugin that hangs once may answer when it is asked again.
const pluginTimeout = 15 * time.Second

// maxPluginAnswer bounds a plugin's stdout.
const maxPluginAnswer = 1 << 20

func newPlugin(config pluginConfig, about pluginCluster, now func() time.Time) (*plugin, error) {
	switch config.APIVersion {
	case "client.authentication.k8s.io/v1":
	case "client.authentication.k8s.io/v1beta1":
		if config.InteractiveMode == "" {
			config.InteractiveMode = "IfAvailable"
		}
	default:
		return nil, fmt.Errorf("its exec plugin speaks apiVersion %q, not client.authentication.k8s.io/v1", quote(config.APIVersion))
	}
	switch config.InteractiveMode {
	case "Never", "IfAvailable":
	case "Always":
		return nil, errors.New("its exec plugin wants a terminal (interactiveMode Always), which no boot has")
	default:
		return nil, fmt.Errorf("its exec plugin has interactiveMode %q, not Never or IfAvailable", quote(config.InteractiveMode))
	}
	if config.Command == "" {
		return nil, errors.New("its exec plugin has no command")
	}
	for _, e := range config.Env {
		if e.Name == "" {
			return nil, errors.New("its exec plugin is given a variable without a name")
		}
	}
	var told execCredential
	told.Kind, told.APIVersion = "ExecCredential", config.APIVersion
	if config.ProvideClusterInfo {
		told.Spec.Cluster = &about
	}
	info, err := json.Marshal(told)
	if err != nil {
		return nil, errors.New("the extension for its exec plugin is no JSON")
	}
	return &plugin{config: config, info: "KUBERNETES_EXEC_INFO=" + string(info), now: now}, nil
}

// get is what the plugin gives, or gave and still holds.
func (p *plugin) get(ctx context.Context) (pluginCredential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given != nil && (p.given.expires.IsZero() || !p.now().After(p.given.expires)) {
		return *p.given, nil
	}
	p.given = nil
	got, err := p.run(ctx)
	if err != nil {
		return got, fmt.Errorf("its plugin %s %w", p.config.Command, err)
	}
	p.given = &got
	return got, nil
}

// forget makes get run the plugin again.
func (p *plugin) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = nil
}

// run starts the plugin in a process group of its own, so that what it started ends with it when ctx does. Errors go on
// after its name, and quote nothing that it said.
func (p *plugin) run(ctx context.Context) (pluginCredential, error) {
	none := pluginCredential{}
	running, end := context.WithTimeout(ctx, pluginTimeout)
	defer end()
	cmd := exec.CommandContext(running, p.config.Command, p.config.Args...)
	cmd.Env = os.Environ()
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(slices.Clip(cmd.Env), p.info)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &boundedBuffer{limit: maxPluginAnswer, tooMuch: end}
	cmd.Stdout = out
	err := cmd.Run()
	var status *exec.ExitError
	switch {
	case out.full:
		return none, errors.New("says more than 1 MiB")
	case running.Err() != nil:
		return none, errors.New("did not answer in time")
	case errors.As(err, &status):
		return none, fmt.Errorf("fails: %s", status.ProcessState)
	case err != nil:
		return none, fmt.Errorf("%w: %w", errNoPlugin, err)
	}
	return p.read(out.taken)
}

func (p *plugin) read(answer []byte) (pluginCredential, error) {
	none := pluginCredential{}
	var said execCredential
	if checkDepth(string(answer)) != nil || yaml.Unmarshal(answer, &said) != nil {
		return none, errors.New("answers what is no ExecCredential")
	}
	if said.Kind != "ExecCredential" || said.APIVersion != p.config.APIVersion {
		return none, errors.New("answers with something other than an ExecCredential of " + p.config.APIVersion)
	}
	s := said.Status
	switch {
	case s == nil:
		return none, errors.New("answers without a status")
	case s.Token == "" && s.Cert == "" && s.Key == "":
		return none, errors.New("answers with neither a token nor a certificate")
	case (s.Cert == "") != (s.Key == ""):
		return none, errors.New("answers with a certificate or a key, and not both")
	case !isToken(s.Token):
		return none, errors.New("answers with a token that holds a character that no token has")
	}
	got := pluginCredential{token: s.Token}
	if s.Expires != nil {
		got.expires = *s.Expires
	}
	if s.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.Cert), []byte(s.Key))
		if err != nil {
			return none, errors.New("answers with a certificate and a key that do not belong together")
		}
		got.cert = &pair
	}
	return got, nil
}

// boundedBuffer takes what fits, and calls tooMuch after that. It is no bytes.Buffer with a bound: io.Copy would find that
// one's ReadFrom, which has none.
type boundedBuffer struct {
	taken   []byte
	limit   int
	full    bool
	tooMuch func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.taken)+len(p) > b.limit {
		b.full = true
		b.tooMuch()
		return 0, errors.New("too much")
	}
	b.taken = append(b.taken, p...)
	return len(p), nil
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/pkg/apis/clientauthentication/install"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	pluginTimeout   = time.Minute // of one run; the kubelet itself waits for ever: a plugin that hangs once may answer when it is run again
	maxPluginOutput = 1 << 20     // bytes of a plugin's stdout
)

// errNoPlugin is a plugin that is not there. Waiting does not help.
var errNoPlugin = errors.New("cannot be run")

// execPlugin runs a kubeconfig's credential plugin. The protocol is client-go's. The process is ours, because
// client-go starts it without a context, keeps all that it writes, connects it to our stderr, and does not end what
// it started.
type execPlugin struct {
	config  *clientcmdapi.ExecConfig
	version schema.GroupVersion
	codecs  serializer.CodecFactory
	info    string        // KUBERNETES_EXEC_INFO
	timeout time.Duration // of one run
	now     func() time.Time

	given *clientauthentication.ExecCredentialStatus
}

// newExecPlugin prepares config's ExecProvider.
func newExecPlugin(config *rest.Config, now func() time.Time) (*execPlugin, error) {
	provider := config.ExecProvider
	if provider.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode {
		return nil, errors.New("has an exec plugin that wants a terminal (interactiveMode Always), which no boot has")
	}
	version, err := schema.ParseGroupVersion(provider.APIVersion)
	scheme := runtime.NewScheme()
	install.Install(scheme)
	if err != nil || !scheme.IsVersionRegistered(version) {
		return nil, fmt.Errorf("has an exec plugin of apiVersion %q, not client.authentication.k8s.io/v1",
			quote(provider.APIVersion))
	}
	p := &execPlugin{
		config: provider, version: version, codecs: serializer.NewCodecFactory(scheme), timeout: pluginTimeout, now: now,
	}

	var request clientauthentication.ExecCredential
	if provider.ProvideClusterInfo {
		if request.Spec.Cluster, err = rest.ConfigToExecCluster(config); err != nil {
			return nil, err
		}
	}
	info, err := runtime.Encode(p.codecs.LegacyCodec(version), &request)
	if err != nil {
		return nil, errors.New("has an extension for its exec plugin that cannot be encoded")
	}
	p.info = string(info)
	return p, nil
}

// identify puts the plugin's token and certificate into a configuration. The plugin is run when it has given nothing
// yet, or what it gave has expired.
func (p *execPlugin) identify(ctx context.Context, config *rest.Config) error {
	if p.given == nil || p.given.ExpirationTimestamp != nil && p.now().After(p.given.ExpirationTimestamp.Time) {
		given, err := p.run(ctx)
		if err != nil {
			return fmt.Errorf("its plugin %s %w", p.config.Command, err)
		}
		p.given = given
	}

	config.BearerToken = p.given.Token
	config.CertData, config.KeyData = []byte(p.given.ClientCertificateData), []byte(p.given.ClientKeyData)
	if err := loadFiles(config); err != nil {
		p.given = nil
		return fmt.Errorf("its plugin %s %w", p.config.Command, err)
	}
	return nil
}

// startEnvironment is what prelet was started with, and what a plugin gets. A variable that is set later is for a library
// in this process alone: internal/probe/hardware sets PCIDB_PATH to a file that no other process has.
var startEnvironment = os.Environ()

// run starts the plugin in a process group of its own, without stdin and stderr, and ends the group when ctx or the
// time is over, or when it writes too much. Errors follow the plugin's name, and quote nothing of its output.
func (p *execPlugin) run(ctx context.Context) (*clientauthentication.ExecCredentialStatus, error) {
	program, err := findProgram(p.config.Command)
	if err != nil {
		return nil, err
	}
	running, end := context.WithTimeout(ctx, p.timeout)
	defer end()
	cmd := exec.CommandContext(running, program, p.config.Args...)
	cmd.Args[0] = p.config.Command
	cmd.Env = slices.Clone(startEnvironment)
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+p.info)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &boundedOutput{tooMuch: end}
	cmd.Stdout = out

	err = cmd.Start()
	if err == nil {
		// What the plugin started does not live on, whether it succeeds or fails.
		defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
		err = cmd.Wait()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it succeeded, and left a process that holds its stdout open
	}
	var status *exec.ExitError
	switch {
	case out.full:
		return nil, errors.New("writes more than 1 MiB")
	case ctx.Err() != nil:
		return nil, errors.New("did not answer in time")
	case running.Err() != nil:
		return nil, fmt.Errorf("did not answer within %s", p.timeout)
	case errors.As(err, &status):
		return nil, fmt.Errorf("fails: %s", status.ProcessState)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // of its interpreter
		return nil, fmt.Errorf("%w: %w", errNoPlugin, err)
	case err != nil:
		return nil, fmt.Errorf("cannot be started: %w", err)
	}
	return p.decode(out.taken)
}

// findProgram returns the path of a command, which is looked for in PATH as os/exec does. A program that others may change is
// not run. Errors follow the plugin's name.
func findProgram(command string) (string, error) {
	program, err := exec.LookPath(command)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoPlugin, err)
	}
	var loose *nodefile.Loose
	switch err := nodefile.CheckTrusted(program); {
	case errors.As(err, &loose):
		return "", fmt.Errorf("is not run: %w", &untrusted{program, loose})
	case err != nil:
		return "", fmt.Errorf("%w: %w", errNoPlugin, err)
	}
	return program, nil
}

func (p *execPlugin) decode(output []byte) (*clientauthentication.ExecCredentialStatus, error) {
	var answer clientauthentication.ExecCredential
	_, kind, err := p.codecs.UniversalDecoder(p.version).Decode(output, nil, &answer)
	if err != nil || kind.GroupVersion() != p.version {
		return nil, fmt.Errorf("answers with something other than an ExecCredential of %s", p.version)
	}
	s := answer.Status
	switch {
	case s == nil || s.Token == "" && s.ClientCertificateData == "" && s.ClientKeyData == "":
		return nil, errors.New("answers with neither a token nor a certificate")
	case (s.ClientCertificateData == "") != (s.ClientKeyData == ""):
		return nil, errors.New("answers with a certificate or a key, and not both")
	}
	return s, nil
}

// boundedOutput keeps what fits, and calls tooMuch after that. It is not a bytes.Buffer with a bound, because io.Copy
// would use that one's ReadFrom, which has none.
type boundedOutput struct {
	taken   []byte
	full    bool
	tooMuch func()
}

func (b *boundedOutput) Write(p []byte) (int, error) {
	if len(b.taken)+len(p) > maxPluginOutput {
		b.full = true
		b.tooMuch()
		return 0, errors.New("too much")
	}
	b.taken = append(b.taken, p...)
	return len(p), nil
}

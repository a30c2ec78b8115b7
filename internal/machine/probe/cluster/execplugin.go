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
	// pluginTimeout limits one run. The kubelet sets no limit, but a run that hangs may succeed when it is repeated.
	pluginTimeout   = time.Minute
	maxPluginOutput = 1 << 20 // bytes of a plugin's stdout
)

// errNoPlugin is the error of a plugin that does not exist or cannot be executed. Retrying does not help.
var errNoPlugin = errors.New("cannot be run")

// execPlugin runs a kubeconfig's credential plugin. The protocol is client-go's. The process is not, because
// client-go starts it without a context, keeps all of its output, connects it to prelet's stderr, and does not
// stop the processes that it starts.
type execPlugin struct {
	config  *clientcmdapi.ExecConfig
	version schema.GroupVersion
	codecs  serializer.CodecFactory
	info    string        // KUBERNETES_EXEC_INFO
	timeout time.Duration // of one run
	now     func() time.Time

	status *clientauthentication.ExecCredentialStatus // of the latest run, nil to run it again
}

// newExecPlugin prepares config's ExecProvider.
func newExecPlugin(config *rest.Config, now func() time.Time) (*execPlugin, error) {
	provider := config.ExecProvider
	if provider.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode {
		return nil, errors.New("has an exec plugin that needs a terminal (interactiveMode Always), " +
			"which a boot does not have")
	}

	version, err := schema.ParseGroupVersion(provider.APIVersion)
	scheme := runtime.NewScheme()
	install.Install(scheme)

	if err != nil || !scheme.IsVersionRegistered(version) {
		return nil, fmt.Errorf("has an exec plugin of apiVersion %q, not client.authentication.k8s.io/v1",
			quote(provider.APIVersion))
	}

	p := &execPlugin{
		config:  provider,
		version: version,
		codecs:  serializer.NewCodecFactory(scheme),
		timeout: pluginTimeout,
		now:     now,
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

// identify sets the plugin's token and certificate in a configuration. The plugin is run if it has no result yet,
// or its result has expired.
func (p *execPlugin) identify(ctx context.Context, config *rest.Config) error {
	if p.status == nil || p.isExpired() {
		status, err := p.run(ctx)
		if err != nil {
			return fmt.Errorf("its plugin %s %w", p.config.Command, err)
		}

		p.status = status
	}

	config.BearerToken = p.status.Token
	config.CertData = []byte(p.status.ClientCertificateData)
	config.KeyData = []byte(p.status.ClientKeyData)

	if err := loadFiles(config); err != nil {
		p.status = nil
		return fmt.Errorf("its plugin %s %w", p.config.Command, err)
	}

	return nil
}

func (p *execPlugin) isExpired() bool {
	expiry := p.status.ExpirationTimestamp
	return expiry != nil && p.now().After(expiry.Time)
}

// startEnvironment is the environment that prelet was started with, and that plugins get. Later variables are for
// libraries in this process only: internal/machine/probe/hardware sets PCIDB_PATH to a file that other processes cannot
// open.
var startEnvironment = os.Environ()

// run starts the plugin in its own process group, without stdin and stderr. It kills the group at the end, when
// ctx or the timeout expires, or when the output is too large. Errors follow the plugin's name in a message, and do
// not quote its output.
func (p *execPlugin) run(ctx context.Context) (*clientauthentication.ExecCredentialStatus, error) {
	program, err := findProgram(p.config.Command)
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()

	out := &limitedOutput{onOverflow: cancel}
	cmd := p.command(limited, program, out)

	err = cmd.Start()
	if err == nil {
		// The processes that the plugin started are killed, whether it succeeds or fails.
		defer func() { _ = cmd.Cancel() }()
		err = cmd.Wait()
	}

	var status *exec.ExitError

	switch {
	case out.isFull:
		return nil, errors.New("writes more than 1 MiB")
	case ctx.Err() != nil:
		return nil, errors.New("did not respond in time")
	case limited.Err() != nil:
		return nil, fmt.Errorf("did not respond within %s", p.timeout)
	case errors.As(err, &status):
		return nil, fmt.Errorf("fails: %s", status.ProcessState)
	case errors.Is(err, fs.ErrNotExist), // of its interpreter
		errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %w", errNoPlugin, err)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // a process that it started may keep stdout open
		return nil, fmt.Errorf("cannot be started: %w", err)
	}

	return p.decode(out.data)
}

func (p *execPlugin) command(
	ctx context.Context,
	program string,
	out *limitedOutput,
) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, p.config.Args...)
	cmd.Args[0] = p.config.Command
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	cmd.WaitDelay = time.Second

	cmd.Env = slices.Clone(startEnvironment)
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}

	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+p.info)

	return cmd
}

// findProgram returns the path of a command, searched in PATH as os/exec does. A program that users besides root may
// change is refused. Errors follow the plugin's name in a message.
func findProgram(command string) (string, error) {
	program, err := exec.LookPath(command)
	if err == nil {
		err = nodefile.CheckTrusted(program)
	}

	var loose *nodefile.Loose

	switch {
	case errors.As(err, &loose):
		return "", fmt.Errorf("is not run: %w", &untrustedError{program, loose})
	case err != nil:
		return "", fmt.Errorf("%w: %w", errNoPlugin, err)
	}

	return program, nil
}

func (p *execPlugin) decode(output []byte) (*clientauthentication.ExecCredentialStatus, error) {
	var credential clientauthentication.ExecCredential

	_, kind, err := p.codecs.UniversalDecoder(p.version).Decode(output, nil, &credential)
	if err != nil || kind.GroupVersion() != p.version {
		return nil, fmt.Errorf("returns something other than an ExecCredential of %s", p.version)
	}

	s := credential.Status
	if s == nil {
		s = &clientauthentication.ExecCredentialStatus{}
	}

	hasCert := s.ClientCertificateData != ""
	hasKey := s.ClientKeyData != ""

	switch {
	case hasCert != hasKey:
		return nil, errors.New("returns a certificate or a key, and not both")
	case !hasCert && s.Token == "":
		return nil, errors.New("returns neither a token nor a certificate")
	}

	return s, nil
}

// limitedOutput keeps at most maxPluginOutput bytes, and then calls onOverflow. It does not embed bytes.Buffer,
// because io.Copy would use its ReadFrom, which has no limit.
type limitedOutput struct {
	data       []byte
	isFull     bool
	onOverflow func()
}

// Write implements io.Writer.
func (o *limitedOutput) Write(p []byte) (int, error) {
	if len(o.data)+len(p) > maxPluginOutput {
		o.isFull = true
		o.onOverflow()

		return 0, errors.New("too much output")
	}

	o.data = append(o.data, p...)

	return len(p), nil
}

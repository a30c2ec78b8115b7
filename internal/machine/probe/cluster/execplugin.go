package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/pkg/apis/clientauthentication/install"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pluginTimeout limits one run. The kubelet sets no limit, but a run that hangs may succeed when it is repeated.
const pluginTimeout = time.Minute

// execPlugin runs a kubeconfig's credential plugin. The protocol is client-go's. The process is not: see Plugin.
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

// run starts the plugin, and returns its answer. Errors follow the plugin's name in a message, and do not quote its
// output.
func (p *execPlugin) run(ctx context.Context) (*clientauthentication.ExecCredentialStatus, error) {
	plugin := Plugin{Command: p.config.Command, Args: p.config.Args, Timeout: p.timeout}
	for _, e := range p.config.Env {
		plugin.Env = append(plugin.Env, e.Name+"="+e.Value)
	}
	plugin.Env = append(plugin.Env, "KUBERNETES_EXEC_INFO="+p.info)

	output, err := plugin.Run(ctx)
	if err != nil {
		return nil, err
	}

	return p.decode(output)
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

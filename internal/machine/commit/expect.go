package commit

import (
	"cmp"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/identity"
)

// Flags returns the words that the kubelet's command line must contain; nil: they are not checked.
func Flags(p *evaluate.Plan) []string {
	for _, f := range p.Node.Files {
		if f.Argv != nil {
			return f.Argv
		}
	}

	return nil
}

// HealthzURL returns the URL of the planned kubelet's /healthz: flags take precedence over the configuration, and that
// over the kubelet's defaults (pkg/kubelet/apis/config/v1beta1/defaults.go: 127.0.0.1, 10248). It returns "" when the
// endpoint is off, or when the configuration is not planned and so not known.
func HealthzURL(p *evaluate.Plan) string {
	at := listenAddress(p, "healthzBindAddress", "healthzPort", "10248")
	if at == "" {
		return ""
	}

	return "http://" + at + "/healthz"
}

// buildConfigz returns how to read the running configuration: on the kubelet's own port, where it serves a self-signed
// certificate unless tlsCertFile names another. It returns nil when the configuration is not known.
func buildConfigz(p *evaluate.Plan, credential string) *kubelet.Configz {
	at := listenAddress(p, "address", "port", "10250")
	if at == "" {
		return nil
	}

	served := []string{
		"/var/lib/kubelet/pki/kubelet.crt",
		"/var/lib/kubelet/pki/kubelet-server-current.pem",
	}
	if f := readSetting(p, "tlsCertFile", ""); f != "" {
		served = []string{f}
	}

	return &kubelet.Configz{
		URL:        "https://" + at + "/configz",
		Credential: credential,
		Served:     served,
		Planned:    resolvePaths(p, p.Node.Config),
	}
}

// buildLoggedConfig returns the planned configuration, to compare it with the configuration that the kubelet logs. It
// returns nil for a kubelet that does not log it, for a configuration that this plan does not write, and where it is
// not known which flags the kubelet gets.
func buildLoggedConfig(p *evaluate.Plan) *kubelet.Configz {
	minor, isKnown := known.Minor(p.Kubelet.KnownVersion())
	config, isPlanned := p.Node.FindPurpose("kubelet-config")
	isWritten := isPlanned && len(config.Text.Secrets()) == 0
	isAssumed := slices.ContainsFunc(p.Node.Flags, func(f desired.Flag) bool { return f.Assumed })
	if !isKnown || minor < kubelet.LoggedConfigSince || !isWritten || isAssumed || p.Node.Effective == nil {
		return nil
	}

	return &kubelet.Configz{Planned: resolvePaths(p, p.Node.Effective)}
}

// resolvePaths returns a planned configuration as the running kubelet has it, without secrets.
func resolvePaths(p *evaluate.Plan, config map[string]any) map[string]any {
	f, _ := p.Node.FindPurpose("kubelet-config")
	file := cmp.Or(f.Path, p.Node.Inherited.ConfigFile)
	config = kubelet.WithoutSecrets(config)
	if file == "" {
		return config
	}

	return kubelet.ResolvePaths(config, p.Node.Config, path.Dir(file))
}

// servingFolder returns the folder of the kubelet's certificates if the planned kubelet requests the certificate of its
// API from the cluster, and "" otherwise. Source: pkg/kubelet/kubelet.go, NewMainKubelet.
func servingFolder(p *evaluate.Plan) string {
	gates, _ := p.Node.Effective["featureGates"].(map[string]any)
	if p.Node.Effective["serverTLSBootstrap"] != true || gates["RotateKubeletServerCertificate"] == false {
		return ""
	}
	if f, ok := desired.FindFlag(p.Node.Flags, "cert-dir"); ok && f.Value != "" {
		return f.Value
	}

	return "/var/lib/kubelet/pki"
}

// readSetting returns a setting of the planned kubelet as text, and otherwise its default. Flags take precedence, also
// those of a unit that is not known.
func readSetting(p *evaluate.Plan, name, byDefault string) string {
	text := fmt.Sprint(p.Node.Effective[name])
	if text == "" || p.Node.Effective[name] == nil {
		return byDefault
	}

	return text
}

// listenAddress returns the address of the planned kubelet as host:port, from two fields. It returns "" when the
// configuration is not known.
func listenAddress(p *evaluate.Plan, addressField, portField, byDefault string) string {
	if p.Node.Config == nil {
		return ""
	}
	address := readSetting(p, addressField, "127.0.0.1")
	port := readSetting(p, portField, byDefault)

	n, err := strconv.ParseFloat(port, 64) // may be 10248.0 in JSON

	ip := net.ParseIP(address)
	switch {
	case err != nil || n < 1 || n > 65535 || ip == nil:
		return ""
	case ip.IsUnspecified() && ip.To4() != nil:
		address = "127.0.0.1"
	case ip.IsUnspecified():
		address = "::1"
	}

	return net.JoinHostPort(address, strconv.Itoa(int(n)))
}

// describePodSettings returns the settings that must match the container runtime: the cgroup driver, whether the
// kubelet creates cgroups for pods, and the runtime endpoint. It returns "" when the configuration is not known.
func describePodSettings(p *evaluate.Plan) string {
	if p.Node.Config == nil {
		return ""
	}

	return strings.Join([]string{
		readSetting(p, "cgroupDriver", "cgroupfs"),
		readSetting(p, "cgroupsPerQOS", "true"),
		readSetting(p, "containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"),
	}, " ")
}

// NodeName returns the name under which the planned kubelet registers: --hostname-override, or the host's name as the
// kubelet writes it (pkg/util/node/node.go, GetHostname). With an in-tree cloud provider it returns "", because the
// provider names the node.
func NodeName(p *evaluate.Plan, hostname string) string {
	name, isCloud := identity.FindNameFlags(p.Node.Flags)
	if isCloud {
		return ""
	}

	return strings.ToLower(strings.TrimSpace(cmp.Or(name, hostname)))
}

package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

const maxKubeconfig = 256 << 10

// parseDiscovery parses the kubeconfig of cluster-info or of a discovery file strictly: no unknown or duplicate
// field, exactly one cluster, its CA included. It returns the CAs and the server. clientcmd.Load would be
// lenient.
func parseDiscovery(text string) (certs []*x509.Certificate, server string, err error) {
	if len(text) > maxKubeconfig {
		return nil, "", fmt.Errorf("the kubeconfig is larger than %d KiB", maxKubeconfig>>10)
	}

	var doc clientcmdapi.Config
	if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
		return nil, "", fmt.Errorf("the kubeconfig is not strict YAML of a Config: %s", quote(err.Error()))
	}

	if doc.Kind != "Config" || doc.APIVersion != "v1" {
		return nil, "", fmt.Errorf("the kubeconfig is a %q of version %q, not a Config of v1",
			quote(doc.Kind), quote(doc.APIVersion))
	}

	if len(doc.Clusters) != 1 {
		return nil, "", fmt.Errorf("the kubeconfig has %d clusters, not one", len(doc.Clusters))
	}

	c := doc.Clusters[0].Cluster

	switch {
	case c.InsecureSkipTLSVerify:
		return nil, "", errors.New("the kubeconfig sets insecure-skip-tls-verify, which is refused")
	case len(c.CertificateAuthorityData) == 0:
		return nil, "", errors.New("the kubeconfig has no certificate-authority-data " +
			"(kubectl config view --flatten embeds a CA file)")
	}

	certs, err = parseBundle(c.CertificateAuthorityData)

	return certs, c.Server, err
}

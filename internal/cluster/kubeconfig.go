package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	maxKubeconfig = 256 << 10
	maxDepth      = 64
)

// discoveryDoc is the kubeconfig of cluster-info, or of a discovery file: a cluster, and nothing that would count for
// a client. Users and contexts may stand in a discovery file; they are read past.
type discoveryDoc struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Clusters   []struct {
		Name    string `json:"name"`
		Cluster struct {
			Server             string `json:"server"`
			CAData             []byte `json:"certificate-authority-data"`
			CAFile             string `json:"certificate-authority"`
			TLSServerName      string `json:"tls-server-name"`
			Insecure           bool   `json:"insecure-skip-tls-verify"`
			ProxyURL           string `json:"proxy-url"`
			DisableCompression bool   `json:"disable-compression"`
			Extensions         []any  `json:"extensions"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users          []any          `json:"users"`
	Contexts       []any          `json:"contexts"`
	CurrentContext string         `json:"current-context"`
	Preferences    map[string]any `json:"preferences"`
	Extensions     []any          `json:"extensions"`
}

// parseDiscovery reads a kubeconfig strictly: no unknown or repeated field, exactly one cluster, its CA inside.
func parseDiscovery(text string) (certs []*x509.Certificate, server string, err error) {
	if len(text) > maxKubeconfig {
		return nil, "", fmt.Errorf("the kubeconfig is larger than %d KiB", maxKubeconfig>>10)
	}
	if err := checkDepth(text); err != nil {
		return nil, "", err
	}
	var doc discoveryDoc
	if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
		return nil, "", fmt.Errorf("the kubeconfig is not strict YAML of a Config: %s", quote(err.Error()))
	}
	if doc.Kind != "Config" || doc.APIVersion != "v1" {
		return nil, "", fmt.Errorf("the kubeconfig is a %q of version %q, not a Config of v1", quote(doc.Kind), quote(doc.APIVersion))
	}
	if len(doc.Clusters) != 1 {
		return nil, "", fmt.Errorf("the kubeconfig has %d clusters, not one", len(doc.Clusters))
	}
	c := doc.Clusters[0].Cluster
	switch {
	case c.Insecure:
		return nil, "", errors.New("the kubeconfig says insecure-skip-tls-verify, which is refused")
	case len(c.CAData) == 0 && c.CAFile != "":
		return nil, "", errors.New("the kubeconfig names a CA file instead of holding certificate-authority-data (kubectl config view --flatten embeds it)")
	case len(c.CAData) == 0:
		return nil, "", errors.New("the kubeconfig holds no certificate-authority-data")
	}
	certs, err = parseBundle(c.CAData)
	return certs, c.Server, err
}

// checkDepth refuses documents that nest deeper than any kubeconfig before a parser that recurses sees them. It counts
// every bracket and every indicator of a compact block, quoted or not: an honest document has few.
func checkDepth(text string) error {
	flow := 0
	for line := range strings.Lines(text) {
		compact := 0
		for _, word := range strings.Fields(line) {
			if word != "-" && word != "?" && word != ":" {
				break
			}
			compact++
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		for _, r := range line {
			switch r {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(flow-1, 0)
			}
		}
		if flow+compact > maxDepth || indent > 16*maxDepth {
			return fmt.Errorf("the kubeconfig nests deeper than %d", maxDepth)
		}
	}
	return nil
}

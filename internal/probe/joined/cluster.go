package joined

import (
	"fmt"

	"github.com/prelet/prelet/internal/probe/cluster"
)

// Cluster is the cluster that a node is a member of already, by its kubelet.conf: for a first site.
type Cluster struct {
	Server string
	Hashes []string // pins of every CA in it
}

// Cluster reads the cluster that the node is a member of. The error of a file that cannot be read is its fault.
func (n Node) Cluster() (Cluster, error) {
	text, f := n.Root.TrustedText(Conf)
	if f != nil {
		return Cluster{}, f
	}
	k, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		return Cluster{}, fmt.Errorf("%s %w", Conf, err)
	}
	ca, f := n.Material(k.Cluster.CertificateAuthorityData, k.Cluster.CertificateAuthority)
	if f != nil {
		return Cluster{}, f
	}
	h, err := CAHashes(ca)
	if err != nil {
		return Cluster{}, fmt.Errorf("%s: %w", Conf, err)
	}
	return Cluster{k.Cluster.Server, h}, nil
}

// CAHashes are the pins of the certificates in a PEM text.
func CAHashes(pem []byte) ([]string, error) {
	h, err := cluster.CAHashes(pem)
	if err == nil && len(h) == 0 {
		err = fmt.Errorf("there is no CA certificate in it")
	}
	return h, err
}

package joined

import (
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/machine/probe/cluster"
)

// Cluster is the cluster of a joined node, according to its kubelet.conf.
type Cluster struct {
	Server string
	Hashes []string // pins of every CA in it
}

// Cluster reads the cluster that the node has joined. The error of a file that cannot be read is its fault.
func (n Reader) Cluster() (Cluster, error) {
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
	hashes, err := CAHashes(ca)
	if err != nil {
		return Cluster{}, fmt.Errorf("%s: %w", Conf, err)
	}

	return Cluster{k.Cluster.Server, hashes}, nil
}

// CAHashes returns the pins of the certificates in a PEM text.
func CAHashes(pem []byte) ([]string, error) {
	hashes, err := cluster.CAHashes(pem)
	if err == nil && len(hashes) == 0 {
		err = errors.New("it contains no CA certificate")
	}

	return hashes, err
}

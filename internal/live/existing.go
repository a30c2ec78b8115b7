package live

import (
	"fmt"

	"github.com/prelet/prelet/internal/cluster"
)

// Existing is the cluster that a node is a member of already, by its kubelet.conf: for a first site.
type Existing struct {
	Server string
	Hashes []string // pins of every CA in it
}

// ExistingCluster reads it below a root ("" is this machine).
func ExistingCluster(root string) (Existing, error) {
	l := New(Options{Root: root})
	defer l.Close()
	text, f := l.readFile(kubeletConf)
	if f != nil {
		return Existing{}, fmt.Errorf("%s", f.Why)
	}
	k, err := cluster.ParseKubeconfig([]byte(text))
	if err != nil {
		return Existing{}, fmt.Errorf("%s %w", kubeletConf, err)
	}
	ca, f := l.material(k.Cluster.CertificateAuthorityData, k.Cluster.CertificateAuthority)
	if f != nil {
		return Existing{}, fmt.Errorf("%s", f.Why)
	}
	h, err := CAHashes(ca)
	if err != nil {
		return Existing{}, fmt.Errorf("%s: %w", kubeletConf, err)
	}
	return Existing{k.Cluster.Server, h}, nil
}

// CAHashes are the pins of the certificates in a PEM text.
func CAHashes(pem []byte) ([]string, error) {
	h, err := cluster.CAHashes(pem)
	if err == nil && len(h) == 0 {
		err = fmt.Errorf("there is no CA certificate in it")
	}
	return h, err
}

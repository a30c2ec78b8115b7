package kubeletbin

import (
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/util/cert"
)

// CheckServingPair returns the error with which a kubelet rejects a serving certificate and its private key when it
// starts (DynamicCertKeyPairContent.loadCertKeyPair in k8s.io/apiserver/pkg/server/dynamiccertificates). The error
// does not contain the key. cert and key are the PEM contents of the files certPath and keyPath.
func CheckServingPair(certPath string, cert []byte, keyPath string, key []byte) error {
	if len(cert) == 0 || len(key) == 0 {
		return fmt.Errorf("missing content for serving cert \"kubelet-server-cert-files::%s::%s\"", certPath, keyPath)
	}
	_, err := tls.X509KeyPair(cert, key)
	return err
}

// CheckClientCAs returns the error with which a kubelet rejects a file of client CAs when it starts (loadCABundle in
// k8s.io/apiserver/pkg/server/dynamiccertificates, with ParseCertsPEM of k8s.io/client-go/util/cert). text is the PEM
// content of the file path.
func CheckClientCAs(path string, text []byte) error {
	if len(text) == 0 {
		return fmt.Errorf("missing content for CA bundle \"client-ca-bundle::%s\"", path)
	}

	if _, err := cert.ParseCertsPEM(text); err != nil {
		return fmt.Errorf("error loading CA bundle for \"client-ca-bundle::%s\": %w", path, err)
	}

	return nil
}

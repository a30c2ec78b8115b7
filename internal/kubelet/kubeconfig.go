package kubelet

import "encoding/base64"

// BootstrapKubeconfig returns the file that a kubelet joins with, in the shape of kubeadm's
// bootstrap-kubelet.conf: cluster kubernetes, user tls-bootstrap-token-user. server is a URL, caPEM the cluster's
// CA certificates. The token is written as it is, between quotes (one of digits only would else be read as a
// number), and may be a placeholder that stands for it. The same arguments give the same bytes.
func BootstrapKubeconfig(server, caPEM, token string) string {
	return `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ` + base64.StdEncoding.EncodeToString([]byte(caPEM)) + `
    server: ` + quotedYAML(server) + `
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: tls-bootstrap-token-user
  name: tls-bootstrap-token-user@kubernetes
current-context: tls-bootstrap-token-user@kubernetes
kind: Config
users:
- name: tls-bootstrap-token-user
  user:
    token: ` + quotedYAML(token) + `
`
}

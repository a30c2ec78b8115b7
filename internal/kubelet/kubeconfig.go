package kubelet

import "encoding/base64"

// BootstrapKubeconfig returns the kubeconfig that a kubelet joins with, like kubeadm's bootstrap-kubelet.conf. server
// is a URL, caPEM the cluster's CA certificates. The token is quoted, because one of digits alone would be a number;
// it may be a placeholder.
func BootstrapKubeconfig(server, caPEM, token string) string {
	return `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ` + base64.StdEncoding.EncodeToString([]byte(caPEM)) + `
    server: ` + quoteYAML(server) + `
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
    token: ` + quoteYAML(token) + `
`
}

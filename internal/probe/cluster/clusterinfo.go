package cluster

import (
	"crypto/x509"
	"net/http"
	"strings"

	"github.com/prelet/prelet/internal/fault"
)

// infoDoc is cluster-info, decoded and not yet verified.
type infoDoc struct {
	kubeconfig string
	certs      []*x509.Certificate
	signatures map[string]string // by token id
}

const signaturePrefix = "jws-kubeconfig-"

func parseClusterInfo(r *reply) (infoDoc, *failure) {
	info, f := readClusterInfo(r)
	if f != nil {
		return infoDoc{}, f
	}
	var err error
	if info.certs, _, err = parseDiscovery(info.kubeconfig); err != nil {
		return infoDoc{}, fail(fault.ClusterUnusable, final, hintClusterInfo, "%v", err).because(err)
	}
	return info, nil
}

const hintClusterInfo = "Look at `kubectl -n kube-public get configmap cluster-info -o yaml`"

// readClusterInfo is parseClusterInfo but for the certificates, which stand in the text.
func readClusterInfo(r *reply) (infoDoc, *failure) {
	if f := classifyStatus(r); f != nil {
		switch {
		case f.Code == fault.ClusterDenied && r.status == http.StatusUnauthorized:
			f.Next = "The API server takes no anonymous request for cluster-info, whatever Roles there are: add its path to " +
				"`anonymous.conditions` of the AuthenticationConfiguration (" + infoPath + "), or see --anonymous-auth; " +
				"or give the CA by ca_file, which needs none"
		case f.Code == fault.ClusterDenied:
			f.Next = "Let anonymous users read cluster-info (`kubeadm init phase bootstrap-token` makes the Role " +
				"kubeadm:bootstrap-signer-clusterinfo in kube-public), or give the CA by ca_file"
		case f.Code == fault.Absent:
			f.Next = "Make cluster-info with `kubeadm init phase bootstrap-token`, or give the CA by ca_file"
		}
		return infoDoc{}, f
	}
	object, f := parseConfigMap(r, "kube-public", "cluster-info")
	if f != nil {
		return infoDoc{}, f
	}
	info := infoDoc{kubeconfig: object.Data["kubeconfig"], signatures: map[string]string{}}
	if info.kubeconfig == "" {
		return infoDoc{}, fail(fault.ClusterUnusable, final, hintClusterInfo, "it has no key kubeconfig")
	}
	for k, v := range object.Data {
		if id, ok := strings.CutPrefix(k, signaturePrefix); ok && v != "" {
			info.signatures[id] = v
		}
	}
	return info, nil
}

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
	chosen     choice            // of certs, once it is verified
	signatures map[string]string // by token id
}

const signaturePrefix = "jws-kubeconfig-"

const hintClusterInfo = "Look at `kubectl -n kube-public get configmap cluster-info -o yaml`"

// parseClusterInfo parses cluster-info and the certificates in its kubeconfig.
func parseClusterInfo(r *reply) (infoDoc, *failure) {
	info, f := decodeClusterInfo(r)
	if f != nil {
		return infoDoc{}, f
	}

	var err error

	info.certs, _, err = parseDiscovery(info.kubeconfig)
	if err != nil {
		f := fail(fault.ClusterUnusable, classFinal, hintClusterInfo, "%v", err)
		return infoDoc{}, f.withCause(err)
	}

	return info, nil
}

// decodeClusterInfo returns cluster-info without its certificates.
func decodeClusterInfo(r *reply) (infoDoc, *failure) {
	if f := classifyStatus(r); f != nil {
		addClusterInfoHint(f, r.status)
		return infoDoc{}, f
	}

	object, f := parseConfigMap(r, "kube-public", "cluster-info")
	if f != nil {
		return infoDoc{}, f
	}

	info := infoDoc{
		kubeconfig: object.Data["kubeconfig"],
		signatures: map[string]string{},
	}
	if info.kubeconfig == "" {
		return infoDoc{}, fail(fault.ClusterUnusable, classFinal, hintClusterInfo, "it has no key kubeconfig")
	}

	for key, signature := range object.Data {
		if id, ok := strings.CutPrefix(key, signaturePrefix); ok && signature != "" {
			info.signatures[id] = signature
		}
	}

	return info, nil
}

func addClusterInfoHint(f *failure, status int) {
	switch {
	case f.Code == fault.ClusterDenied && status == http.StatusUnauthorized:
		f.Next = "The API server refuses anonymous requests for cluster-info, whatever Roles there are: add its path " +
			"to `anonymous.conditions` of the AuthenticationConfiguration (" + infoPath + "), " +
			"or see --anonymous-auth; or set ca_file, which needs no anonymous request"
	case f.Code == fault.ClusterDenied:
		f.Next = "Let anonymous users read cluster-info (`kubeadm init phase bootstrap-token` makes the Role " +
			"kubeadm:bootstrap-signer-clusterinfo in kube-public), or set ca_file"
	case f.Code == fault.Absent:
		f.Next = "Make cluster-info with `kubeadm init phase bootstrap-token`, or set ca_file"
	}
}

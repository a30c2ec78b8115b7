package kubeletstate

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"time"

	"k8s.io/client-go/util/cert"
)

// servingFile is the kubelet's own certificate for its API, with its key, in the folder of its certificates. Source:
// client-go, util/certificate/certificate_store.go; pkg/kubelet/certificate/kubelet.go.
const servingFile = "kubelet-server-current.pem"

// Serving returns nil if the folder has a valid certificate of the kubelet's API, or the cluster has signed one for
// this node. Otherwise its error is the next step: which request of the node has to be approved. It is an Unclear only
// if the cluster does not answer. An error never contains the key.
func (p Probe) Serving(ctx context.Context, dir string) error {
	why := p.checkServingFile(path.Join(dir, servingFile))
	if why == "" {
		return nil
	}

	c, err := p.connectAsNode()
	if err != nil {
		return newUnclear("%s, and why is not known: %w", why, err)
	}
	defer c.CloseIdleConnections()

	resp, err := c.send(ctx, http.MethodGet, RequestsPath(ServingSigner), "", nil)
	if err != nil {
		return newUnclear("%s, and why is not known: %w", why, err)
	}

	const all = "kubectl get csr --field-selector spec.signerName=" + ServingSigner
	switch resp.code {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return newUnclear("%s, and why is not known: %w", why, c.unauthorized())
	case http.StatusForbidden:
		return fmt.Errorf("%s. Its request cannot be looked up, because the node may not list "+
			"CertificateSigningRequests (%s). %s shows it; approve it with kubectl certificate approve NAME",
			why, resp.status().Message, all)
	default:
		return newUnclear("%s, and why is not known: %s answered %d", why, c.server, resp.code)
	}

	own, isComplete, err := ParseRequests(resp.body, ServingSigner, c.name)
	if err != nil {
		return newUnclear("%s, and why is not known: %s answered: %w", why, c.server, err)
	}
	if len(own) == 0 {
		which := "the cluster has no request of it"
		if !isComplete {
			which = "the cluster has too many requests to look for that of this node"
		}

		return fmt.Errorf("%s, and %s. %s and journalctl -u kubelet show more", why, which, all)
	}

	if own[0].State == "signed" { // the kubelet is about to fetch it
		return nil
	}

	return fmt.Errorf("%s: %s", why, p.describeRequest(own[0], ", and no part of Kubernetes approves it"))
}

// checkServingFile returns why a file has no valid certificate, "" if it has one.
func (p Probe) checkServingFile(file string) string {
	const effect = "the kubelet has no serving certificate, so kubectl logs and exec, and metrics, fail on this node"
	text, f := p.node().Root.Bytes(file)
	if f != nil {
		return effect + " (" + f.Why + ")"
	}
	chain, err := cert.ParseCertsPEM(text)
	if err != nil {
		return effect + " (" + file + " contains none)"
	}
	if end := chain[0].NotAfter; p.Now().After(end) {
		return fmt.Sprintf("%s (that in %s has expired at %s)", effect, file, end.UTC().Format(time.RFC3339))
	}

	return ""
}

package kubeletstate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"k8s.io/client-go/util/cert"

	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// Configz requests the configuration that the kubelet on this machine runs with, as the client of a credential of the
// site, and returns how it differs from the planned one. Every failure to get it is an Unclear, because the request
// is an extra check.
//
// The kubelet signs its serving certificate itself, unless the site arranges otherwise. Therefore the certificate is
// compared with the kubelet's file, and no chain is verified.
func (p Probe) Configz(ctx context.Context, c kubelet.Configz) ([]string, error) {
	client, _, err := p.readClient(c.Credential, "/configz cannot be read")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return nil, newUnclear("invalid URL of /configz: %w", err)
	}
	resp, err := p.newConfigzClient(client, c.Served).Do(req)
	if err != nil {
		return nil, newUnclear("%s does not answer: %w", c.URL, err)
	}
	defer resp.Body.Close()

	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		const format = "%s answered %s: the client of credential %s may not get nodes/configz"
		return nil, newUnclear(format, c.URL, resp.Status, c.Credential)
	default:
		return nil, newUnclear("%s answered %s", c.URL, resp.Status)
	}

	body, err := io.ReadAll(io.LimitReader(resp.Body, nodefile.Max))
	if err != nil {
		return nil, newUnclear("the response of %s ended early: %w", c.URL, err)
	}
	var doc struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	err = json.Unmarshal(body, &doc)
	if err != nil || doc.Config == nil {
		return nil, newUnclear("%s answered without a kubeletconfig", c.URL)
	}

	return kubelet.ConfigDifferences(c.Planned, doc.Config), nil
}

// readClient reads the client certificate and its key from a credential, and returns its text as well. failed are the
// first words of an error: the operation that fails without it.
func (p Probe) readClient(credential, failed string) (client tls.Certificate, pair []byte, err error) {
	if p.Credentials == nil {
		return client, nil, newUnclear("%s: no credentials here", failed)
	}

	pair, err = p.Credentials.Read(credential)
	if err != nil {
		why := systemd.CredentialFault(credential, err).Why
		const format = "%s: %s; prelet-verify.service and prelet-apply.service need LoadCredential=%s"
		return client, nil, newUnclear(format, failed, why, credential)
	}
	client, err = tls.X509KeyPair(pair, pair)
	if err != nil { // the error may quote the key
		const format = "%s: credential %s is not a certificate and its key in one PEM text"
		return client, nil, newUnclear(format, failed, credential)
	}

	return client, pair, nil
}

// newConfigzClient returns a client that accepts only the kubelet's own certificates, from the files in served.
func (p Probe) newConfigzClient(client tls.Certificate, served []string) *http.Client {
	known := p.readCertificates(served)
	verify := func(s tls.ConnectionState) error {
		for _, c := range known {
			if bytes.Equal(s.PeerCertificates[0].Raw, c.Raw) {
				return nil
			}
		}
		return errors.New("the server has another certificate than the kubelet's files")
	}

	transport := &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			Certificates:       []tls.Certificate{client},
			InsecureSkipVerify: true, //nolint:gosec // no chain: verify compares the certificate itself
			VerifyConnection:   verify,
		},
	}

	return &http.Client{CheckRedirect: cluster.RefuseRedirect, Transport: transport}
}

// readCertificates returns the certificates of the files that exist.
func (p Probe) readCertificates(files []string) (certificates []*x509.Certificate) {
	n := p.node()
	for _, f := range files {
		text := n.Root.TextIfReadable(f)
		found, _ := cert.ParseCertsPEM([]byte(text)) // a file without certificates counts as missing
		certificates = append(certificates, found...)
	}

	return certificates
}

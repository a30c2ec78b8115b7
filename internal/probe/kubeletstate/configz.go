package probe

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

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// Configz asks the kubelet on this machine for the configuration that it runs with, as the client that the site has a credential
// for, and tells how it differs from the planned one. Whatever keeps it from asking could not be told: it is asked for besides.
//
// The kubelet's serving certificate is its own, signed by nobody, unless the site arranges otherwise: so it is the one in its file
// that counts, and no chain.
func (p Probe) Configz(ctx context.Context, c kubelet.Configz) ([]string, error) {
	if p.Credentials == nil {
		return nil, unclear("there are no credentials to ask /configz with")
	}
	pair, err := p.Credentials.Read(c.Credential)
	if err != nil {
		f := systemd.CredentialFault(c.Credential, err)
		return nil, unclear("/configz cannot be asked: %s; prelet-verify.service and prelet-apply.service need LoadCredential=%s", f.Why, c.Credential)
	}
	client, err := tls.X509KeyPair(pair, pair)
	if err != nil { // not told: it may quote the key
		return nil, unclear("credential %s is not a certificate and its key, PEM in one text", c.Credential)
	}
	own := p.certificates(c.Served)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asking := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{client},
			InsecureSkipVerify: true, // no chain: the very certificate is compared
			VerifyConnection: func(s tls.ConnectionState) error {
				for _, known := range own {
					if bytes.Equal(s.PeerCertificates[0].Raw, known.Raw) {
						return nil
					}
				}
				return errors.New("who answers has another certificate than the kubelet's files")
			}}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return nil, unclear("%s cannot be asked: %w", c.URL, err)
	}
	resp, err := asking.Do(req)
	if err != nil {
		return nil, unclear("%s does not answer: %w", c.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, nodefile.Max))
	var doc struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, unclear("%s answered %s: the client of credential %s may not get nodes/configz", c.URL, resp.Status, c.Credential)
	case resp.StatusCode != http.StatusOK:
		return nil, unclear("%s answered %s", c.URL, resp.Status)
	case err != nil:
		return nil, unclear("%s broke off: %w", c.URL, err)
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.Config == nil {
		return nil, unclear("%s answered without a kubeletconfig", c.URL)
	}
	return kubelet.ConfigDifferences(c.Planned, doc.Config), nil
}

// certificates returns those in the files that exist.
func (p Probe) certificates(files []string) (out []*x509.Certificate) {
	n := p.node()
	for _, f := range files {
		text, _ := n.Root.Text(n.InRoot(f))
		found, _ := cert.ParseCertsPEM([]byte(text)) // a file without any is as good as none
		out = append(out, found...)
	}
	return out
}

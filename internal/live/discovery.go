package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prelet/prelet/internal/world"
)

// fetchDiscovery reads a discovery file over https, believed by the system's CAs: no redirects, no proxy of the
// environment, no compression, 1 MiB, 15 s.
func (l *Live) fetchDiscovery(ctx context.Context, url string) (string, world.Answer) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, Time: l.o.Now}, DisableCompression: true, DisableKeepAlives: true}
	client := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", world.Answer{Fail: world.Untrusted, Detail: fmt.Sprintf("discovery_file %q is no URL", url)}
	}
	resp, err := client.Do(req)
	if err != nil {
		var cert *tls.CertificateVerificationError
		if errors.As(err, &cert) {
			return "", world.Answer{Fail: world.Untrusted, Detail: "discovery_file: " + err.Error(), Hint: "Its server must have a certificate that this machine's CAs vouch for"}
		}
		return "", world.Answer{Fail: world.Unreachable, Detail: "discovery_file: " + err.Error()}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", world.Answer{Fail: world.Unusable, Detail: fmt.Sprintf("discovery_file: %s answered %s", url, resp.Status)}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxFile+1))
	if err != nil {
		return "", world.Answer{Fail: world.Unreachable, Detail: "discovery_file: " + err.Error()}
	}
	if len(b) > maxFile {
		return "", world.Answer{Fail: world.Unusable, Detail: "discovery_file: more than 1 MiB"}
	}
	return string(b), world.Answer{}
}

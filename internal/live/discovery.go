package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/nodefile"
)

// fetchDiscovery reads a discovery file over https, believed by the system's CAs: no redirects, no proxy of the
// environment, no compression, 1 MiB, 15 s.
func (l *Live) fetchDiscovery(ctx context.Context, url string) (string, *fault.Fault) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, Time: l.o.Now}, DisableCompression: true, DisableKeepAlives: true}
	client := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", &fault.Fault{Code: fault.ClusterUntrusted, Why: fmt.Sprintf("discovery_file %q is no URL", url)}
	}
	resp, err := client.Do(req)
	if err != nil {
		var cert *tls.CertificateVerificationError
		if errors.As(err, &cert) {
			return "", &fault.Fault{Code: fault.ClusterUntrusted, Why: "discovery_file: " + err.Error(),
				Next: "Its server must have a certificate that this machine's CAs vouch for"}
		}
		return "", &fault.Fault{Code: fault.ClusterUnreachable, Why: "discovery_file: " + err.Error()}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", &fault.Fault{Code: fault.ClusterUnusable, Why: fmt.Sprintf("discovery_file: %s answered %s", url, resp.Status)}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, nodefile.Max+1))
	if err != nil {
		return "", &fault.Fault{Code: fault.ClusterUnreachable, Why: "discovery_file: " + err.Error()}
	}
	if len(b) > nodefile.Max {
		return "", &fault.Fault{Code: fault.ClusterUnusable, Why: "discovery_file: more than 1 MiB"}
	}
	return string(b), nil
}

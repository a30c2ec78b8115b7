package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// discoveryTimeout bounds the fetch of a discovery file.
const discoveryTimeout = 15 * time.Second

const maxDiscoveryFile = 1 << 20

// FetchDiscoveryFile reads a discovery file of at most 1 MiB over https, trusting the CAs of this system. It follows no
// redirect, uses no proxy of the environment, and asks for no compression. Certificates are judged by now.
func FetchDiscoveryFile(ctx context.Context, url string, now func() time.Time) (string, *fault.Fault) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	return fetchDiscoveryFile(ctx, discoveryClient(now), url)
}

func fetchDiscoveryFile(ctx context.Context, client *http.Client, url string) (string, *fault.Fault) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", &fault.Fault{Code: fault.ClusterUntrusted, Why: fmt.Sprintf("discovery_file %q is no URL", url)}
	}

	resp, err := client.Do(req)
	if err != nil {
		var cert *tls.CertificateVerificationError
		if errors.As(err, &cert) {
			return "", &fault.Fault{
				Code: fault.ClusterUntrusted, Why: "discovery_file: " + err.Error(),
				Next: "Its server must have a certificate that this machine's CAs vouch for",
			}
		}
		return "", &fault.Fault{Code: fault.ClusterUnreachable, Why: "discovery_file: " + err.Error()}
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		why := fmt.Sprintf("discovery_file: %s answered %s", url, resp.Status)
		return "", &fault.Fault{Code: fault.ClusterUnusable, Why: why}
	}

	b, err := io.ReadAll(io.LimitReader(resp.Body, maxDiscoveryFile+1))
	if err != nil {
		return "", &fault.Fault{Code: fault.ClusterUnreachable, Why: "discovery_file: " + err.Error()}
	}
	if len(b) > maxDiscoveryFile {
		return "", &fault.Fault{Code: fault.ClusterUnusable, Why: "discovery_file: more than 1 MiB"}
	}
	return string(b), nil
}

// discoveryClient returns a client for one request.
func discoveryClient(now func() time.Time) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, Time: now},
			DisableCompression: true, DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

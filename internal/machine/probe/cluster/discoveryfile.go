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

const (
	discoveryTimeout = 15 * time.Second // of the complete fetch
	maxDiscoveryFile = 1 << 20
)

// FetchDiscoveryFile fetches a discovery file of at most 1 MiB over https, and trusts the CAs of this system. It
// follows no redirect, uses no proxy of the environment, and requests no compression. Certificates are verified
// at the time that now returns.
func FetchDiscoveryFile(
	ctx context.Context, url string, now func() time.Time,
) (string, *fault.Fault) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()

	return fetchDiscoveryFile(ctx, newDiscoveryClient(now), url)
}

func fetchDiscoveryFile(
	ctx context.Context,
	client *http.Client,
	url string,
) (string, *fault.Fault) {
	failed := func(code fault.Code, why string) (string, *fault.Fault) {
		return "", &fault.Fault{Code: code, Why: "discovery_file: " + why}
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failed(fault.ClusterUntrusted, fmt.Sprintf("invalid URL %q", url))
	}

	resp, err := client.Do(req)

	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		text, f := failed(fault.ClusterUntrusted, err.Error())
		f.Next = "Its server needs a certificate that is signed by one of this machine's CAs"

		return text, f
	}

	if err != nil {
		return failed(fault.ClusterUnreachable, err.Error())
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return failed(fault.ClusterUnusable, url+" returned "+resp.Status)
	}

	b, err := io.ReadAll(io.LimitReader(resp.Body, maxDiscoveryFile+1))
	switch {
	case err != nil:
		return failed(fault.ClusterUnreachable, err.Error())
	case len(b) > maxDiscoveryFile:
		return failed(fault.ClusterUnusable, "larger than 1 MiB")
	}

	return string(b), nil
}

// newDiscoveryClient returns a client for one request.
func newDiscoveryClient(now func() time.Time) *http.Client {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		Time:       now,
	}

	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:    config,
			DisableCompression: true,
			DisableKeepAlives:  true,
		},
		CheckRedirect: RefuseRedirect,
	}
}

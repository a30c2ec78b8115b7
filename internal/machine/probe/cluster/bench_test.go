package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/demo"
)

// BenchmarkBoot is what a node that joins asks of the network: identity by pins, then its configuration.
func BenchmarkBoot(b *testing.B) {
	s := newHostile(b, nil)
	for b.Loop() {
		c := New(ClientConfig{})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		trust, err := c.FetchTrust(ctx, s.pinned())
		must(b, err)
		req := s.object()
		req.CAPEM = []byte(trust.PEM)
		if _, err := c.FetchConfigMap(ctx, req); err != nil {
			b.Fatal(err)
		}
		cancel()
		c.Close()
	}
}

// BenchmarkJoined is the read of a node that has joined.
func BenchmarkJoined(b *testing.B) {
	s := newHostile(b, nil)
	req := s.object()
	req.Kubeconfig, req.Token = s.NodeKubeconfig("worker-1"), nil
	for b.Loop() {
		if _, err := fetchConfigMap(context.Background(), req, ClientConfig{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFloor is the same two objects by net/http over one connection, trusting beforehand.
func BenchmarkFloor(b *testing.B) {
	s := newHostile(b, nil)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CAPEM())
	for b.Loop() {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		for _, path := range []string{infoPath, configPath} {
			req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
			must(b, err)
			if path == configPath {
				req.Header.Set("Authorization", "Bearer "+demo.Token)
			}
			resp, err := tr.RoundTrip(req)
			must(b, err)
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
				b.Fatal(resp.Status, err)
			}
			resp.Body.Close()
		}
		tr.CloseIdleConnections()
	}
}

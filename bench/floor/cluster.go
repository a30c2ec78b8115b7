package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
)

// fetched has the results of the two requests.
type fetched struct {
	ca         string // PEM
	kubeconfig string // YAML, from kube-public/cluster-info
	kubelet    string // YAML, from kube-system/kubelet-config
}

var caData = regexp.MustCompile(`certificate-authority-data:\s*([A-Za-z0-9+/=]+)`)

// fetch reads cluster-info without trust, checks its CA against the pin and the connection against the CA, and reads
// the kubelet's configuration with the token on the same connection.
func fetch(ctx context.Context, server, hash, token string) (fetched, error) {
	var got fetched
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // verified below, before the token is sent
			MinVersion:         tls.VersionTLS12,
		},
		MaxConnsPerHost:    1,
		DisableCompression: true,
	}}
	info, state, err := configMap(ctx, client, server, "kube-public/cluster-info", "")
	if err != nil {
		return got, err
	}
	got.kubeconfig = info["kubeconfig"]
	if got.ca, err = verify(server, got.kubeconfig, hash, state); err != nil {
		return got, err
	}
	config, _, err := configMap(ctx, client, server, "kube-system/kubelet-config", strings.TrimSpace(token))
	got.kubelet = config["kubelet"]
	return got, err
}

// verify returns the CA of a kubeconfig as PEM, if the pin covers it and the connection's certificate is of it.
func verify(server, kubeconfig, hash string, state *tls.ConnectionState) (string, error) {
	at, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	m := caData.FindStringSubmatch(kubeconfig)
	if m == nil {
		return "", errors.New("cluster-info holds no CA")
	}
	text, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("the CA of cluster-info is not PEM")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	if pin := "sha256:" + hex.EncodeToString(sum[:]); pin != hash {
		return "", fmt.Errorf("the CA's pin is %s, not %s", pin, hash)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	wanted := x509.VerifyOptions{Roots: roots, DNSName: at.Hostname()}
	_, err = state.PeerCertificates[0].Verify(wanted)

	return string(text), err
}

// errNewConnection ends a request with a token before it is sent: only the connection of the first one was verified.
var errNewConnection = errors.New("the second request opened a connection of its own; that is not the floor")

// configMap reads the data of one ConfigMap, with a token on a connection that was used before.
func configMap(
	ctx context.Context,
	client *http.Client,
	server, name, token string,
) (map[string]string, *tls.ConnectionState, error) {
	namespace, object, _ := strings.Cut(name, "/")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx = httptrace.WithClientTrace(
		ctx,
		&httptrace.ClientTrace{GotConn: func(conn httptrace.GotConnInfo) {
			if token != "" && !conn.Reused {
				cancel(errNewConnection)
			}
		}},
	)
	request, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		server+"/api/v1/namespaces/"+namespace+"/configmaps/"+object,
		http.NoBody,
	)
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, cmp.Or(context.Cause(ctx), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %s", name, response.Status)
	}
	var answer struct{ Data map[string]string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return answer.Data, response.TLS, nil
}

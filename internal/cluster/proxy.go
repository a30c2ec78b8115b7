package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// proxyError keeps apart what the proxy refused from what the server did.
type proxyError struct{ error }

func (e proxyError) Unwrap() error { return e.error }

// dial opens the connection that TLS runs over: to the server, or through the proxy's CONNECT.
func (c *Client) dial(ctx context.Context, server *url.URL, proxy string) (net.Conn, error) {
	if proxy == "" {
		conn, err := c.opts.Dial(ctx, "tcp", server.Host)
		if err != nil {
			return nil, orCause(ctx, err)
		}
		return conn, nil
	}
	u, err := ParseProxy(proxy)
	if err != nil {
		return nil, proxyError{err}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := c.opts.Dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, proxyError{orCause(ctx, err)}
	}
	if u.Scheme == "https" {
		t := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, Time: c.opts.Now, NextProtos: []string{"http/1.1"}})
		if err := t.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, proxyError{orCause(ctx, err)}
		}
		conn = t
	}
	if err := connect(ctx, conn, server.Host, u.User); err != nil {
		conn.Close()
		return nil, proxyError{orCause(ctx, err)}
	}
	return conn, nil
}

// connect asks a proxy for a tunnel. Nothing of the tunnel may arrive before we speak, as TLS servers wait for us.
func connect(ctx context.Context, conn net.Conn, host string, user *url.Userinfo) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: host}, Host: host, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	r := bufio.NewReader(io.LimitReader(conn, maxHead))
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT was answered with HTTP %d", resp.StatusCode)
	}
	if r.Buffered() > 0 {
		return errors.New("CONNECT was answered with more than a head")
	}
	return nil
}

//go:build !linux

package rpc

import (
	"context"
	"net"
)

// Dial connects to a socket.
func Dial(ctx context.Context, path string) (Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// Listen makes a socket, and listens on it.
func Listen(path string) (Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

type listener struct{ net.Listener }

// Accept implements Listener.
func (l listener) Accept() (Conn, error) { return l.Listener.Accept() }

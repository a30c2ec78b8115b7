package cri

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// connect returns a connection to the runtime at a socket that ends with ctx. grpc-go would need 98 packages for the
// calls of this package, which are one POST each.
func connect(ctx context.Context, socket string) *http.Transport {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)

	return &http.Transport{
		DialContext:            dialUntil(ctx, socket),
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxMessage,
	}
}

// dialUntil returns a dialer whose connections are closed when ctx ends.
func dialUntil(ctx context.Context, socket string) func(context.Context, string, string) (net.Conn, error) {
	return func(dialCtx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(dialCtx, "unix", socket)
		if err != nil {
			return nil, err
		}

		context.AfterFunc(ctx, func() { _ = conn.Close() }) // a second close changes nothing

		return conn, nil
	}
}

// frameHead is the length of what precedes a message: whether it is compressed, in one byte, and its length, in four.
const frameHead = 5

// errUnimplemented is in the error of a method that the runtime does not have.
var errUnimplemented = errors.New("it is not implemented")

// call calls a method with an empty message, and returns the message of its response, of at most limit bytes. Source:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
func call(ctx context.Context, runtime *http.Transport, method string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/runtime.v1."+method,
		bytes.NewReader(make([]byte, frameHead)))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}

	response, err := runtime.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	defer response.Body.Close()

	message, err := readResponse(response, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}

	return message, nil
}

func readResponse(response *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, frameHead+limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > frameHead+limit:
		return nil, fmt.Errorf("the response is larger than %d bytes", limit)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d of HTTP", response.StatusCode)
	}

	// A response without a message may have its trailers as headers.
	get := func(name string) string { return cmp.Or(response.Trailer.Get(name), response.Header.Get(name)) }
	switch status := get("Grpc-Status"); {
	case status == "12":
		return nil, errUnimplemented
	case status != "0":
		why, _ := url.PathUnescape(get("Grpc-Message"))
		return nil, fmt.Errorf("gRPC status %q, %q", status, why)
	case len(body) < frameHead || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-frameHead:
		return nil, errors.New("the response is not one message without compression")
	}

	return body[frameHead:], nil
}

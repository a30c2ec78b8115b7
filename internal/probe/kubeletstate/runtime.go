package kubeletstate

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// runtimeTimeout limits the connection to the container runtime.
const runtimeTimeout = 2 * time.Second

// DialRuntime connects to the socket of the container runtime, and sends nothing. endpoint is a path, or a URL with the
// scheme unix.
func DialRuntime(ctx context.Context, endpoint string) error {
	scheme, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme = "unix"
		address = endpoint
	}
	if scheme != "unix" {
		return fmt.Errorf("%s is not a unix socket", endpoint)
	}

	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return err
	}

	return c.Close()
}

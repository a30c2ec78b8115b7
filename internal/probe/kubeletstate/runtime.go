package probe

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// runtimeTimeout bounds the connection to the container runtime.
const runtimeTimeout = 2 * time.Second

// DialRuntime connects to the socket of the container runtime, and sends nothing. endpoint is a path, or a URL with the
// scheme unix.
func DialRuntime(ctx context.Context, endpoint string) error {
	scheme, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, address = "unix", endpoint
	}
	if scheme != "unix" {
		return fmt.Errorf("%s is no socket of this machine", endpoint)
	}

	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return err
	}
	return c.Close()
}

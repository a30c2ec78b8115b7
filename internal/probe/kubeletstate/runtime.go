package kubeletstate

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/probe/cri"
)

// runtimeTimeout limits the connection to the container runtime.
const runtimeTimeout = 2 * time.Second

// imagesTimeout limits the list of images: a thousand take less than a second.
const imagesTimeout = 5 * time.Second

// Image is one image of the container runtime.
type Image = cri.Image

// Images returns the images of the container runtime. endpoint is as that of DialRuntime.
func Images(ctx context.Context, endpoint string) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, imagesTimeout)
	defer cancel()

	return cri.Images(ctx, strings.TrimPrefix(endpoint, "unix://"))
}

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

package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds the program that plays all roles to a path. Always without cgo, whatever the test itself is built with: the sandbox of
// prelet-detect needs that, as the real one is built.
func Build(ctx context.Context, path string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "github.com/prelet/prelet/internal/pluginhost/hostile/program")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

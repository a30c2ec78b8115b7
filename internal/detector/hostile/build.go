package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Build builds the program that plays all roles to a path. It builds always without cgo, whatever the test itself is
// built with: the sandbox of prelet-detect needs that, as the real one is built. It builds in prelet's own module,
// whose go.sum has what the program needs.
func Build(ctx context.Context, path string) error {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/prelet/prelet").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}

	const program = "./internal/detector/hostile/program"
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", path, program)
	c.Dir = strings.TrimSpace(string(module))
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}

	return nil
}

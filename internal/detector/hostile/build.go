package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Build builds the program with all detectors. It never uses cgo, as the real prelet-detect, whose sandbox needs
// that. It builds in prelet's own module, whose go.sum has the program's dependencies.
func Build(ctx context.Context, path string) error {
	const prelet = "github.com/prelet/prelet"
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", prelet)
	module, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}

	const program = "./internal/detector/hostile/program"
	args := []string{"build", "-trimpath", "-tags", "grpcnotrace", "-o", path, program}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = strings.TrimSpace(string(module))
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}

	return nil
}

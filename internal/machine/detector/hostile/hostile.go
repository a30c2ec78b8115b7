// Package hostile builds a program with detectors that break, hang, flood, lie or try to escape, each in the way that
// its name says. The detectors are the package's tests: the program is the test binary, and the name under which it is
// started selects the detector. They speak the protocol without the SDK, which would prevent half of their faults.
package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Secret is the output of the detector "secret".
const Secret = "abcdef.0123456789abcdef"

// Domain is the domain of all labels.
const Domain = "vendor.example.com"

// Describe returns the description of a detector. All match every machine.
func Describe(name string) contract.Description {
	text := contract.Type{Kind: contract.String}
	number := contract.Type{Kind: contract.Number}
	sensor := contract.Type{
		Kind: contract.Object,
		Attributes: []contract.Attribute{
			{Name: "name", Type: text},
			{Name: "celsius", Type: number},
		},
	}
	sensors := contract.Type{Kind: contract.List, Element: &sensor}
	d := contract.Description{
		Name:         name,
		Version:      "1.0.0",
		Vendor:       "Example",
		Match:        contract.Match{Always: true},
		LabelDomains: []string{Domain},
		Facts: []contract.Attribute{
			{Name: "sensors", Type: sensors},
		},
		Config: []contract.Attribute{
			{Name: "seconds", Type: number},
		},
	}

	switch name {
	case "needy":
		d.Needs.Execute = []string{"/usr/bin/id"}
	case "tries": // each attribute is a path to try
		attempts := "read_file read_passwd read_token read_cpuinfo list_folder list_sys make_folder truncate_file " +
			"run_program device_zero device_null connect_path connect_abstract connect_bus tcp_listener " +
			"signal_neighbour paths_only"
		for _, attempt := range strings.Fields(attempts) {
			attribute := contract.Attribute{Name: attempt, Type: text}
			d.Config = append(d.Config, attribute)
		}
	}

	return d
}

// Build builds the program with all detectors, and with prelet-detect as one of its names. It never uses cgo, as the
// real prelet-detect, whose sandbox needs that. It builds in prelet's own module, whose go.sum has the program's
// dependencies.
func Build(ctx context.Context, path string) error {
	const prelet = "github.com/prelet/prelet"
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", prelet)
	module, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}

	args := []string{
		"test", "-c", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w",
		"-o", path, "./internal/machine/detector/hostile",
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = strings.TrimSpace(string(module))
	c.Env = append(os.Environ(), "CGO_ENABLED=0") // with the caller's GOFLAGS, or all is compiled once more
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}

	return nil
}

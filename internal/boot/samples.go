package boot

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/world"
)

// SampleMachine is a machine that a site is checked on instead of a real one.
type SampleMachine struct {
	Name  string
	Facts *world.Facts // nil: unknown
	Fails bool         // every stage that may fail does
}

//go:embed samples.yaml
var samplesText []byte

// SampleMachines returns the machines that validate checks a site on: one of which nothing is known, one on which
// every read fails, and five with facts that show the assumptions of a site.
func SampleMachines() []SampleMachine {
	var samples struct{ Machines []SampleMachine }
	if err := yaml.Unmarshal(samplesText, &samples); err != nil {
		panic(fmt.Sprintf("samples.yaml: %s", err))
	}

	return samples.Machines
}

// Command vendor is a detector like those of vendors, to measure the cost of one: it reports its devices in sysfs. It
// is named after its file, so that several can be installed.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

type detector struct{}

var found = sdk.Fact[int]{Name: "found", Doc: "How many functions there are on the bus."}

// Describe implements sdk.Detector.
func (detector) Describe() sdk.Description {
	return sdk.Description{
		Name:    filepath.Base(os.Args[0]),
		Version: "1.0.0",
		Facts:   []sdk.Declaration{found},
		Match:   sdk.Match{Always: true},
	}
}

// Detect implements sdk.Detector.
func (detector) Detect(_ context.Context, _ sdk.Request, a *sdk.Answer) error {
	all, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return err
	}
	for _, dir := range all {
		class, err := os.ReadFile(dir + "/class")
		if err != nil {
			return err
		}
		a.Attribute(
			"class."+strings.ReplaceAll(filepath.Base(dir), ":", "-"),
			strings.TrimSpace(string(class)),
		)
	}
	a.AddFacts(found.Is(len(all), "/sys/bus/pci"))
	if len(all) > 1<<16 {
		return fmt.Errorf("%d functions", len(all))
	}
	return nil
}

func main() { sdk.Serve(detector{}) }

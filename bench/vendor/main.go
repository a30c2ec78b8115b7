// Command vendor is a detector like those of vendors, to measure the cost of one: it reports its devices in sysfs. It
// is named after its file, so that several can be installed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

var found = sdk.Fact[int]{Name: "found", Doc: "How many functions there are on the bus."}

func detect(m *sdk.Machine) error {
	all := m.Glob("/sys/bus/pci/devices/*/class")
	for _, file := range all {
		class, err := m.Text(file)
		if err != nil {
			return err
		}
		address := filepath.Base(filepath.Dir(file))
		m.Attribute("class."+strings.ReplaceAll(address, ":", "-"), class)
	}
	m.AddFacts(found.Is(len(all), "/sys/bus/pci"))
	if len(all) > 1<<16 {
		return fmt.Errorf("%d functions", len(all))
	}
	return nil
}

func main() {
	sdk.Serve(sdk.Detector{
		Name:    filepath.Base(os.Args[0]),
		Version: "1.0.0",
		Facts:   []sdk.Declaration{found},
		Match:   sdk.Match{Always: true},
		Detect:  detect,
	})
}

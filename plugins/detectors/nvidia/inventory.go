package nvidia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

var (
	gpusExpected = sdk.Fact[int]{
		Name: "gpus_expected",
		Doc:  "`expected_gpus` of the site, or how many GPUs on the PCI bus are not given to virtual machines.",
	}
	gpusAttached = sdk.Fact[int]{
		Name: "gpus_attached",
		Doc: "How many GPUs of the PCI bus NVML reports. " +
			"Without NVML: how many the driver lists and does not exclude.",
	}
	gpusMissing = sdk.Fact[[]string]{
		Name: "gpus_missing",
		Doc: "Addresses of the GPUs that are on the PCI bus, and that the driver does not have. Null if one does not " +
			"answer in time, or may not be opened.",
	}
	gpusComplete = sdk.Fact[bool]{
		Name: "gpus_complete",
		Doc: "Whether at least `gpus_expected` GPUs are attached. Null if the PCI bus has enough and there is no " +
			"driver, or one does not answer in time, or may not be opened.",
	}
)

// inventory compares the GPUs that a machine should have with those that the driver has. Virtual functions, and GPUs
// that are given to virtual machines, do not count.
type inventory struct {
	root      sdk.Root
	expected  *int // of the site
	byNVML    bool // NVML decides which GPUs are attached
	hasDriver bool

	onBus    int
	attached int
	missing  []string // addresses

	undecided []string // failures of GPUs that the driver may have
}

func newInventory(m *sdk.Machine, byNVML, hasDriver bool) *inventory {
	i := &inventory{root: m.Root, byNVML: byNVML, hasDriver: hasDriver, missing: []string{}}
	if n, ok := expectedGPUs.Lookup(m.Config); ok {
		i.expected = &n
	}

	return i
}

// add counts a GPU. isKnown reports whether NVML has it.
func (i *inventory) add(x *sdk.Device, isKnown bool) {
	if strings.Contains(x.Driver, "vfio") || x.Driver == "pci-stub" {
		return
	}

	i.onBus++
	isAttached := isKnown
	if !i.byNVML {
		isAttached = i.root.Exists(informationFile(x)) && x.Attributes["excluded"] == ""
	}
	if isAttached {
		i.attached++
		return
	}
	i.missing = append(i.missing, x.Address)
}

// report adds the facts, and a warning if a GPU is missing.
func (i *inventory) report(m *sdk.Machine) {
	const bus = "PCI functions of class 03"
	expected := i.onBus
	if i.expected != nil {
		expected = *i.expected
		m.AddFacts(gpusExpected.Is(expected, "expected_gpus of the site"))
	} else {
		m.AddFacts(gpusExpected.Is(expected, bus))
	}

	evidence := "nvml"
	if !i.byNVML {
		evidence = "/proc/driver/nvidia/gpus"
	}
	why := "the driver is not loaded"
	switch {
	case i.hasDriver && len(i.undecided) > 0:
		why = strings.Join(slices.Compact(i.undecided), "; ")
		if most := min(i.onBus, i.attached+len(i.undecided)); most < expected {
			m.AddFacts(gpusComplete.Is(false, evidence))
			m.Warn("at most %d of %d GPUs are attached", most, expected)
		} else {
			m.AddFacts(gpusComplete.Unknown(why))
		}
	case i.hasDriver:
		m.AddFacts(
			gpusAttached.Is(i.attached, evidence),
			gpusMissing.Is(i.missing, evidence),
			gpusComplete.Is(i.attached >= expected, evidence),
		)
		if i.attached < expected {
			m.Warn("%s", i.describe(expected))
		}
		return
	case i.onBus < expected:
		m.AddFacts(gpusComplete.Is(false, bus))
		m.Warn("%d of %d GPUs are on the PCI bus", i.onBus, expected)
	default:
		m.AddFacts(gpusComplete.Unknown(why))
	}
	m.AddFacts(gpusAttached.Unknown(why), gpusMissing.Unknown(why))
}

// describe returns which GPUs are missing, and where to look.
func (i *inventory) describe(expected int) string {
	text := fmt.Sprintf("%d of %d GPUs are attached.", i.attached, expected)
	if n := expected - i.onBus; n > 0 {
		text += fmt.Sprintf(" %d not on the PCI bus.", n)
	}
	if len(i.missing) > 0 {
		text += fmt.Sprintf(" On the bus without the driver: %s.", strings.Join(i.missing, ", "))
	}

	return text + " See `journalctl -k -b -g 'NVRM|Xid'`"
}

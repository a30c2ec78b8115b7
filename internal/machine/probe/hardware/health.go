package hardware

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

const (
	edacFolder  = "sys/devices/system/edac/mc"
	taintedFile = "proc/sys/kernel/tainted"

	// machineCheckBit is set when a processor has reported an uncorrected error. Source: the kernel's
	// admin-guide/tainted-kernels.rst.
	machineCheckBit = 4
)

// readErrors adds the kernel's counts of errors of a device on PCI Express since the boot (AER).
func (d *detection) readErrors(link *tape.PCIe, fact, folder string) {
	read := func(field, name string) *int {
		text, err := d.readText(folder + "/" + name)
		n := parseTotal(text)
		switch {
		case isAbsent(err):
			d.note(fact+field, "the kernel does not count these errors of this device (AER)")
		case err != nil:
			d.noteError(fact+field, err)
		case n == nil:
			d.note(fact+field, fmt.Sprintf("%s has no total: %.40q", name, text))
		}

		return n
	}

	link.FatalErrors = read(".fatal_errors", "aer_dev_fatal")
	link.NonfatalErrors = read(".nonfatal_errors", "aer_dev_nonfatal")
}

// parseTotal returns the number after TOTAL_ERR_FATAL or TOTAL_ERR_NONFATAL; nil if there is none.
func parseTotal(text string) *int {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 && strings.HasPrefix(words[0], "TOTAL_ERR_") {
			if n, err := strconv.Atoi(words[1]); err == nil && n >= 0 {
				return &n
			}
		}
	}

	return nil
}

// readMemoryErrors sums the uncorrected errors of all memory controllers since the boot (EDAC). Those of one are a
// fault, whether the others can be read or not.
func (d *detection) readMemoryErrors() {
	const fact = "memory.uncorrected_errors"
	names, err := d.list(edacFolder)
	if err != nil && !isAbsent(err) {
		d.noteError(fact, err)
		return
	}

	sum, isCounted, before := int64(0), false, len(d.unknown)
	for _, name := range names {
		if !strings.HasPrefix(name, "mc") {
			continue
		}
		const most = 1 << 40
		n, _ := d.attribute(fact, path.Join(edacFolder, name, "ue_count"), 0, most)
		isCounted = true
		sum += n
	}
	switch {
	case sum > 0:
		d.unknown = d.unknown[:before]
	case len(d.unknown) > before:
		d.unknown = d.unknown[:before+1]
		return
	case !isCounted:
		d.note(fact, "no driver counts errors of the memory (EDAC)")
		return
	}

	d.facts.Memory.UncorrectedErrors = &sum
	d.setSource(fact, edacFolder+"/mc*/ue_count")
}

// readMachineCheck reads whether a processor has reported an uncorrected error since the boot.
func (d *detection) readMachineCheck() {
	const fact = "kernel.machine_check"
	const most = 1 << 40
	flags, ok := d.attribute(fact, taintedFile, 0, most)
	if !ok {
		return
	}

	hasFailed := flags>>machineCheckBit&1 == 1
	d.facts.Kernel.MachineCheck = &hasFailed
	d.setSource(fact, taintedFile)
}

// readDiskState reads the state of a disk from the kernel's driver: live or dead of NVMe, running or offline of SCSI.
func (d *detection) readDiskState(fact, folder string) *string {
	text, err := d.readText(folder + "/device/state")
	switch {
	case isAbsent(err):
		d.note(fact, "its driver has none")
		return nil
	case err != nil:
		d.noteError(fact, err)
		return nil
	case !isFileName(text):
		d.note(fact, fmt.Sprintf("the kernel gives %.40q", text))
		return nil
	}

	return &text
}

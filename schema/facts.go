package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/texts"
)

// pciAddress matches an address on the PCI bus in lower case, as programs write it.
var pciAddress = texts.LazyRegexp(`^(?:([0-9a-f]{1,8})[:.])?([0-9a-f]{1,2}):([0-9a-f]{1,2})[.:]([0-7])$`)

// inLowerCase are the paths of facts that are in lower case.
const inLowerCase = "accelerators.vendor accelerators.device nics.vendor nics.device pci.device"

// SuggestFact returns the possible values of a fact, in place of a word that it never is; "" if it may be that word.
// Here a path has no index: nics.link.
func SuggestFact(path, word string) string {
	path = strings.Replace(path, "gpus.", "accelerators.", 1)
	right := word
	switch {
	case slices.Contains(strings.Fields(inLowerCase), path):
		right = strings.ToLower(word)
	case path == "cpu.architecture":
		right = strings.NewReplacer("x86_64", "amd64", "aarch64", "arm64").Replace(word)
	case strings.HasPrefix(path, "interfaces.") && strings.HasSuffix(path, "mac"):
		right = strings.ReplaceAll(strings.ToLower(word), "-", ":")
	case slices.Contains(strings.Fields("accelerators.address nics.address pci.address pci.physfn pci.parent"), path):
		part := pciAddress().FindStringSubmatch(strings.ToLower(word))
		if part == nil {
			return `It is an address on the PCI bus, as "0000:1b:00.0".`
		}
		right = fmt.Sprintf("%04s:%02s:%02s.%s", strings.TrimLeft(part[1], "0"), part[2], part[3], part[4])
	}
	if right != word {
		return fmt.Sprintf("Write %q.", right)
	}
	words := strings.Fields(map[string]string{
		"accelerators.kind":          "dpu fpga gpu npu",
		"cpu.architecture":           "386 amd64 arm arm64 loong64 ppc64le riscv64 s390x",
		"cpu.cores.kind":             "efficient low-power performance",
		"nics.infiniband.link_layer": "ethernet infiniband unspecified",
		"nics.infiniband.state":      "active active_defer armed down init nop",
		"nics.link":                  "down up",
		"runtime.cgroup_driver":      "cgroupfs systemd",
	}[path])
	if len(words) == 0 || slices.Contains(words, word) {
		return ""
	}

	return Suggest(word, words)
}

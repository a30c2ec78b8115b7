package nvidia

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

var (
	recoveryAction = sdk.Fact[string]{
		Name: "recovery_action",
		Doc: "What the driver asks for to use all GPUs again: `none`, `drain-p2p`, `gpu-reset`, `drain-and-reset`, " +
			"`node-reboot`; of several GPUs the last of these. Needs a driver of 565 or newer.",
	}
	gpusToRecover = sdk.Fact[[]string]{
		Name: "gpus_to_recover",
		Doc: "Addresses of the GPUs with another `recovery_action` than `none`; of `drain-p2p`, too, after which the " +
			"driver asks for another one. Null, which holds nothing, if a GPU does not answer and no other has one.",
	}
	remapFailed = sdk.Fact[int]{
		Name: "row_remap_failed",
		Doc:  "How many GPUs have no spare row for a bad one: they need to be replaced.",
	}
	remapPending = sdk.Fact[int]{
		Name: "row_remap_pending",
		Doc:  "How many GPUs replace a bad row at their next reset.",
	}
	retirementPending = sdk.Fact[int]{
		Name: "page_retirement_pending",
		Doc:  "How many GPUs, older than the A100, retire a bad page at their next reset.",
	}
	retiredPages = sdk.Fact[int]{
		Name: "retired_pages",
		Doc:  "How many pages GPUs older than the A100 have retired, of the one with the most.",
	}
	migPending = sdk.Fact[int]{
		Name: "mig_pending",
		Doc:  "How many GPUs change their MIG mode at their next reset.",
	}
	persistenceMode = sdk.Fact[bool]{
		Name: "persistence_mode",
		Doc:  "Whether the driver keeps all GPUs initialized while no program uses them.",
	}
	libraryMismatch = sdk.Fact[bool]{
		Name: "library_mismatch",
		Doc:  "Whether libnvidia-ml.so.1 is of another version than the loaded driver, which then serves no program.",
	}
)

// healthFacts are the declarations of the facts above.
func healthFacts() []sdk.Declaration {
	return []sdk.Declaration{
		recoveryAction, gpusToRecover, remapFailed, remapPending, retirementPending, retiredPages, migPending,
		persistenceMode, libraryMismatch,
	}
}

// health is the state that the driver reports of one GPU. Nil and empty fields are unknown.
type health struct {
	recovery                     string // one of recoveryActions
	whyNoRecovery                string // empty if the driver is too old
	failed, pending, pagePending *bool
	persistence, migPending      *bool
	retiredPages                 *int
}

// recoveryActions are NVML's actions for one GPU, from the smallest on.
var recoveryActions = []string{"none", "drain-p2p", "gpu-reset", "drain-and-reset", "node-reboot"}

func (h health) addAttributes(x *sdk.Device) {
	const evidence = "nvml"
	x.SetAttribute("recovery_action", h.recovery, evidence)
	for name, is := range map[string]*bool{
		"row_remap_failed":        h.failed,
		"row_remap_pending":       h.pending,
		"page_retirement_pending": h.pagePending,
		"persistence_mode":        h.persistence,
	} {
		if is != nil {
			x.SetAttribute(name, strconv.FormatBool(*is), evidence)
		}
	}
	if h.retiredPages != nil {
		x.SetAttribute("retired_pages", strconv.Itoa(*h.retiredPages), evidence)
	}
}

// reportHealth adds the facts about all GPUs that NVML lists; unknown is why it lists none. A fault of one is known,
// whatever the others answer; without one, a GPU that cannot be opened makes the facts unknown.
func reportHealth(m *sdk.Machine, result machine, unknown string) {
	const evidence = "nvml"
	gpus := result.gpus
	if unknown == "" && len(gpus) == 0 {
		unknown = "NVML reports no GPU"
	}
	switch {
	case result.isMismatch, unknown == "":
		m.AddFacts(libraryMismatch.Is(result.isMismatch, evidence))
	default:
		m.AddFacts(libraryMismatch.Unknown(unknown))
	}

	unknown = cmp.Or(unknown, strings.Join(result.failures, "; "))
	action := 0
	why := unknown
	recover := []string{}
	for _, g := range gpus {
		n := slices.Index(recoveryActions, g.health.recovery)
		action = max(action, n)
		if n < 0 {
			why = cmp.Or(why, g.address+": "+cmp.Or(g.health.whyNoRecovery, "the driver is older than 565"))
		}
		if n > 0 {
			recover = append(recover, g.address)
		}
	}
	if why == "" || action > 0 {
		m.AddFacts(recoveryAction.Is(recoveryActions[action], evidence), gpusToRecover.Is(recover, evidence))
	} else {
		m.AddFacts(recoveryAction.Unknown(why), gpusToRecover.Unknown(why))
	}

	for _, c := range []struct {
		fact sdk.Fact[int]
		of   func(health) *bool
	}{
		{remapFailed, func(h health) *bool { return h.failed }},
		{remapPending, func(h health) *bool { return h.pending }},
		{retirementPending, func(h health) *bool { return h.pagePending }},
		{migPending, func(h health) *bool { return h.migPending }},
	} {
		count, isKnown := countTrue(gpus, c.of)
		switch {
		case isKnown && unknown == "", count > 0:
			m.AddFacts(c.fact.Is(count, evidence))
		default:
			m.AddFacts(c.fact.Unknown(cmp.Or(unknown, notOfEach)))
		}
	}
	reportRetired(m, gpus, unknown)

	count, isKnown := countTrue(gpus, func(h health) *bool { return h.persistence })
	if isKnown && unknown == "" {
		m.AddFacts(persistenceMode.Is(count == len(gpus), evidence))
	} else {
		m.AddFacts(persistenceMode.Unknown(cmp.Or(unknown, notOfEach)))
	}
}

const notOfEach = "NVML does not report it of each GPU: not all kinds have it"

// reportRetired adds the fact about retired pages. Where a GPU does not report them, the others may have fewer.
func reportRetired(m *sdk.Machine, gpus []gpu, unknown string) {
	most := 0
	for _, g := range gpus {
		if g.health.retiredPages == nil {
			unknown = cmp.Or(unknown, notOfEach)
		} else {
			most = max(most, *g.health.retiredPages)
		}
	}
	if unknown == "" {
		m.AddFacts(retiredPages.Is(most, "nvml"))
	} else {
		m.AddFacts(retiredPages.Unknown(unknown))
	}
}

// countTrue counts the GPUs of which something is true. It is not known if it is not of one of them.
func countTrue(gpus []gpu, of func(health) *bool) (count int, isKnown bool) {
	isKnown = true
	for _, g := range gpus {
		is := of(g.health)
		isKnown = isKnown && is != nil
		if is != nil && *is {
			count++
		}
	}

	return count, isKnown
}

package detecthw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/schema"
)

// warnOfHugePages warns of each size of which the kernel has fewer pages than it was asked for, if all numbers are
// known.
func warnOfHugePages(cfg schema.Body, facts tape.Facts) (diags hcl.Diagnostics) {
	const fact = "memory.hugepages"
	isUnknown := func(u tape.UnknownFact) bool { return strings.HasPrefix(u.Fact, fact) }
	if slices.ContainsFunc(facts.Unknown, isUnknown) {
		return nil
	}

	for _, size := range slices.Sorted(maps.Keys(facts.Memory.HugePagesAsked)) {
		got, asked := facts.Memory.HugePages[size], facts.Memory.HugePagesAsked[size]
		if got < asked {
			diags = append(diags, origin.Warning(
				fault.HardwareDegraded, cfg.Range,
				fmt.Sprintf("The kernel has %d of %d huge pages of %s", got, asked, size),
				"%s asks for them. ls /sys/kernel/mm/hugepages shows the sizes that this kernel has. "+
					"If it has this one, ask for fewer, or on the kernel command line: later the memory is "+
					"fragmented. journalctl -k -b --grep HugeTLB has more. If somebody has lowered the number since, "+
					"lower it there, too.",
				cmp.Or(facts.Evidence[fact+"_asked["+size+"]"], facts.Evidence[fact+"_asked"]),
			))
		}
	}

	return diags
}

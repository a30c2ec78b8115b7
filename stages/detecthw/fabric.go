package detecthw

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// fabricFact is the fact with which a detector reports the state of a fabric between GPUs. The detector "nvidia" has
// it; a detector of another vendor may have it with the same values.
const fabricFact = "fabric_state"

// The states that are not waited for.
const (
	fabricCompleted    = "completed"
	fabricNotSupported = "not-supported"
	fabricFailed       = "failed"
)

// fabricWait returns how long to wait for the fabric; 0 if the site does not wait for it.
func fabricWait(cfg schema.Body) time.Duration {
	wait, ok := cfg.One(waitBlock.Type)
	if !ok || !fabricAttr.Of(wait).Set() {
		return 0
	}

	return schema.ParseDuration(timeoutAttr.Of(wait))
}

// hasFabric reports whether the detector's description has the fact.
func (d *detection) hasFabric() bool {
	return d.Describe != nil && slices.ContainsFunc(d.Describe.Facts, func(f contract.Attribute) bool {
		return f.Name == fabricFact
	})
}

// warnOfFabric warns if the site waits for the fabric and it is not complete. A detector that has failed, or does not
// match this machine, reports that itself.
func warnOfFabric(cfg schema.Body, detections []*detection) (diags hcl.Diagnostics) {
	wait, ok := cfg.One(waitBlock.Type)
	if !ok || !fabricAttr.Of(wait).Set() {
		return nil
	}

	at := fabricAttr.Of(wait).Range
	mayHaveFact := false
	for _, d := range detections {
		isUnlocked := d.Describe == nil // its facts are not known
		mayHaveFact = mayHaveFact || isUnlocked || d.hasFabric()
		if d.state == stateOK && d.hasFabric() {
			diags = append(diags, d.checkFabric(cfg, at)...)
		}
	}
	if !mayHaveFact {
		diags = append(diags, origin.Warning(fault.HardwareDegraded, at, "Nothing reports the fabric",
			"No detector of this stage has the fact %s, so there is nothing to wait for. "+
				`Declare detector "nvidia" {} and lock it, or remove fabric.`, fabricFact))
	}

	return diags
}

// checkFabric warns of a fabric that is not complete.
func (d *detection) checkFabric(cfg schema.Body, at hcl.Range) hcl.Diagnostics {
	const next = "See the log of nvidia-fabricmanager (HGX) or of the rack's fabric " +
		"manager (NVL72) and `nvidia-smi -q`, which has a section Fabric; if the fabric only needs longer, " +
		"raise timeout in wait, and timeout of the stage"

	state, isKnown := d.ans.Facts[fabricFact].(string)
	why := fmt.Sprintf("Detector %q reports %s = %q", d.Name, fabricFact, state)
	summary := "Timed out waiting for the NVLink fabric"

	switch {
	case state == fabricCompleted || state == fabricNotSupported:
		return nil
	case state == fabricFailed:
		summary = "The NVLink fabric has failed"
	case !isKnown:
		why = fmt.Sprintf("Detector %q cannot report it: %s", d.Name, d.ans.Unknown["facts."+fabricFact])
	}

	return hcl.Diagnostics{reportWait(cfg, at, summary, stages.Sentence(why, next))}
}

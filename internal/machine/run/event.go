package run

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// eventFile is the name of the file in prelet's folder that has the name of the Node and the reason of its last event.
const eventFile = "event"

// The reasons of events. A node without an event is good.
const (
	eventGood        = "PreletGood"
	eventDegraded    = "PreletDegraded"
	eventHeld        = "PreletHeld"
	eventKubeletHeld = "PreletKubeletHeld"
	eventRolledBack  = "PreletRolledBack"
)

// maxEvent is the longest message of an event, in characters: the API server allows 1024 bytes in new ones.
const maxEvent = 500

// describeState returns the reason and the message of the event of a status; "" while the state is not known.
func describeState(s report.Status) (reason, message string) {
	isHeld := func(r fault.Reason) bool { return r.Code == fault.Held }
	switch {
	case s.Code == fault.RolledBack || s.Code == fault.RollbackFails:
		return eventRolledBack, s.Summary
	case s.Code == fault.KubeletHeld:
		return eventKubeletHeld, s.Summary
	case s.Held != nil:
		return eventHeld, s.Held.Why
	case slices.ContainsFunc(s.Degraded, isHeld): // by hand, without a plan
		return eventHeld, s.Summary
	case s.State == report.Failed:
		return eventDegraded, s.Summary
	case s.Verdict == report.Pending || s.Verdict == report.Unknown:
		return "", ""
	case s.State == report.Degraded:
		return eventDegraded, string(s.Degraded[0].Code) + ": " + s.Degraded[0].Summary
	case s.State == report.OK:
		return eventGood, s.Summary
	}

	return "", ""
}

// logChange writes to the journal that the node has another state than before in this boot: the journal keeps it longer
// than the cluster, and has it without one.
func (r *nodeRun) logChange(context.Context) error {
	reason, message := describeState(r.status)
	before, _ := describeState(r.before)
	isKnown := before == reason || before == eventRolledBack && reason == eventHeld
	if !r.Off && reason != "" && !isKnown {
		logState(r.host, r.status.Generation, reason, message)
	}

	return nil
}

// logState writes a state of the node to the journal, with an id that the catalog of the journal explains.
func logState(h *machine.Host, gen int, reason, message string) {
	log := h.Log
	if log == nil && h.Journal != nil { // by hand
		log = h.Journal()
	}
	if log == nil {
		return
	}

	priority := machine.WarningPriority
	if reason == eventGood {
		priority = machine.InfoPriority
	}
	log(priority, reason+": "+message, map[string]string{
		"MESSAGE_ID":        report.MessageChanged,
		"PRELET_REASON":     reason,
		"PRELET_STAGE":      "report",
		"PRELET_GENERATION": strconv.Itoa(gen),
	})
}

// sendEvent creates an event of the Node if its state is not that of the last event. The event of a rollback is also
// that of its held plan. At a boot prelet-verify.service sends it, so that the kubelet does not wait.
func (r *nodeRun) sendEvent(ctx context.Context) error {
	h := r.host
	reason, message := describeState(r.status)
	isLater := h.Self == machine.BootUnit && OwesVerdict(h)
	cannotKeep := r.Store.ReadOnly() != nil // it would be sent at each boot
	if r.Off || reason == "" || isLater || cannotKeep || h.WhyNotJoined() != "" {
		return nil
	}

	name, _ := h.CertifiedNode()
	file := filepath.Join(h.StateDir(), eventFile)
	was, _ := nodefile.ReadFile(file, nodefile.Max)
	last, isKnown := strings.CutPrefix(string(was), name+" ")
	if !isKnown {
		last = eventGood
	}
	if last == reason || last == eventRolledBack && reason == eventHeld {
		return nil
	}

	if err := createEvent(ctx, h, name, reason, message); err != nil {
		return err
	}

	return atomicfile.File(file, 0o644, []byte(name+" "+reason))
}

// createEvent creates an event of the Node of a name, unless that is another machine.
func createEvent(ctx context.Context, h *machine.Host, name, reason, message string) error {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	n, err := ownNode(ctx, h, name)
	if err != nil {
		return err
	}

	return h.Probe.Event(ctx, kubelet.Event{
		Node:      n.Name,
		Reason:    reason,
		Message:   secret.Cut(message, maxEvent),
		IsWarning: reason != eventGood,
	})
}

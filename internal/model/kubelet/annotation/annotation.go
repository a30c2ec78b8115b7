// Package annotation is the report of a run in the annotations of its Node: a run writes it, and kubectl prelet reads
// it. The package is pure, and imports only the standard library and package texts, because kubectl prelet also runs
// where prelet does not.
package annotation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prelet/prelet/internal/model/texts"
)

// The keys of the annotations.
const (
	Generation = "prelet.github.io/generation"
	Plan       = "prelet.github.io/plan"
	Revision   = "prelet.github.io/revision"
	Degraded   = "prelet.github.io/degraded"
	// Site and Ring are of a node that pulls its site: the digest of the artifact that the run has used.
	Site = "prelet.github.io/site"
	Ring = "prelet.github.io/ring"
	// Waits is why a newer pulled site is not applied, of a check between boots. A run removes it.
	Waits = "prelet.github.io/waits"
	// Taints is the list of taints that prelet owns on the Node, separated by spaces. It is not a part of a Content.
	Taints = "prelet.github.io/taints"
	// Assumed is only on the Nodes of a rehearsal, and lists its assumptions. It is not a part of a Content either.
	Assumed = "prelet.github.io/assumed"
)

// Limits of the values: the annotations of a Node together may have 256 KiB, and other parties write some too.
const (
	maxReasons = 16
	maxSummary = 300 // characters
)

// Settings are those of the site for the annotations of the Node.
type Settings struct {
	Revision string `json:"revision,omitempty"` // of the site; "": without this annotation
}

// Content has the values of the annotations that a run writes.
type Content struct {
	Generation int      `json:"generation"`         // in place
	Plan       string   `json:"plan_hash"`          // of that generation
	Revision   string   `json:"revision,omitempty"` // of the site, as the site gives it
	Site       string   `json:"site,omitempty"`     // the digest of the pulled site
	Ring       string   `json:"ring,omitempty"`     // of the pulled site
	Waits      string   `json:"waits,omitempty"`    // REASON: WHY, of a newer site; never of a run
	Degraded   []Reason `json:"degraded"`           // why not everything is as the site says
}

// Reason is one reason why a node is degraded. The code has a page: prelet explain code/NAME.
type Reason struct {
	Code    string `json:"code"`
	Summary string `json:"summary"`
}

// Values returns the annotations by key. A field that the report lacks has no annotation.
func (r Content) Values() map[string]string {
	values := map[string]string{
		Generation: strconv.Itoa(r.Generation),
		Plan:       r.Plan,
	}
	for key, value := range map[string]string{Revision: r.Revision, Site: r.Site, Ring: r.Ring} {
		if value != "" {
			values[key] = value
		}
	}
	if len(r.Degraded) > 0 {
		values[Degraded] = encodeReasons(r.Degraded)
	}

	return values
}

func encodeReasons(reasons []Reason) string {
	short := slices.Clone(reasons[:min(len(reasons), maxReasons)])
	for i, reason := range short {
		short[i].Summary = cutSummary(reason.Summary)
	}

	text, err := json.Marshal(short)
	if err != nil {
		panic(fmt.Sprintf("annotation: strings do not encode: %v", err))
	}

	return string(text)
}

func cutSummary(summary string) string {
	if text := []rune(summary); len(text) > maxSummary {
		return string(text[:maxSummary-1]) + "…"
	}

	return summary
}

// Patch is a change of the annotations of a Node: the new value by key, nil for an annotation to remove.
type Patch map[string]*string

// Patch implements kubelet.Change by a merge patch (RFC 7386).
func (c Patch) Patch(time.Time) (kind, path string, document any) {
	return "merge-patch", "", map[string]any{"metadata": map[string]any{"annotations": c}}
}

// Changes returns the patch that gives a Node these values. Other annotations stay.
func Changes(have, values map[string]string) Patch {
	changes := Patch{}
	for _, key := range []string{Generation, Plan, Revision, Site, Ring, Waits, Degraded} {
		was, isThere := have[key]
		value, isWanted := values[key]
		switch {
		case isWanted && (!isThere || was != value):
			changes[key] = &value
		case isThere && !isWanted:
			changes[key] = nil
		}
	}

	return changes
}

// ChangeWaits returns the patch of why a pulled site waits; "" for none. It is empty without a change, and for a Node
// on which no run has reported.
func ChangeWaits(have map[string]string, reason, why string) Patch {
	value := ""
	if reason != "" {
		value = cutSummary(reason + ": " + why)
	}
	_, isReported := have[Generation]
	switch {
	case !isReported || have[Waits] == value:
		return nil
	case value == "":
		return Patch{Waits: nil}
	}

	return Patch{Waits: &value}
}

// codePattern matches the codes of reasons. A reader may print a command with one, so it must not contain anything that
// a shell interprets.
var codePattern = texts.LazyRegexp(`^[a-z][a-z0-9-]{0,39}$`)

// Parse reads the annotations of a Node. ok is false if prelet has written none. Annotations that another program
// changed so that they cannot be read are an error.
func Parse(annotations map[string]string) (r Content, ok bool, err error) {
	text, ok := annotations[Generation]
	if !ok {
		return Content{}, false, nil
	}

	r.Plan = annotations[Plan]
	r.Revision = annotations[Revision]
	r.Site = annotations[Site]
	r.Ring = annotations[Ring]
	r.Waits = annotations[Waits]
	r.Generation, err = strconv.Atoi(text)
	if err != nil || r.Generation < 0 {
		return r, true, fmt.Errorf("annotation %s is %.40q, not the number of a generation", Generation, text)
	}

	if text := annotations[Degraded]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.Degraded); err != nil {
			return r, true, fmt.Errorf("annotation %s is not a list of reasons: %w", Degraded, err)
		}
	}
	for _, reason := range r.Degraded {
		if !codePattern().MatchString(reason.Code) {
			return r, true, fmt.Errorf("annotation %s has a reason with the invalid code %.40q", Degraded, reason.Code)
		}
	}

	return r, true, nil
}

package report

import (
	"errors"
	"fmt"
	"time"
)

// Delivery is the pulled site of a node: sites/state.json in the state folder, and, with Used, a part of status.json.
// Digests are of artifacts, as a registry shows them.
type Delivery struct {
	FormatVersion int       `json:"format_version"`
	Digest        string    `json:"digest,omitempty"`    // the last that was verified; "" before the first
	Reference     string    `json:"reference,omitempty"` // that it was pulled by
	Tag           string    `json:"tag,omitempty"`       // of the reference; "" for a digest
	Name          string    `json:"name,omitempty"`      // of the signed list; "" if the image has no signers
	Ring          string    `json:"ring,omitempty"`      // of the node and of the list
	Counter       uint64    `json:"counter,omitempty"`   // of the list
	Content       string    `json:"content,omitempty"`   // SHA-256 of the stored files
	PulledAt      time.Time `json:"pulled_at,omitzero"`  // UTC
	LookedAt      time.Time `json:"looked_at,omitzero"`  // the last look that succeeded, UTC
	Failed        string    `json:"failed,omitempty"`    // why the last look failed; "" if it succeeded
	BootID        string    `json:"boot_id,omitempty"`   // of the last look, whether it failed or not
	Given         []string  `json:"given,omitempty"`     // by a credential or a parameter, at the last success if any
	IsKept        bool      `json:"kept,omitempty"`      // the last look missed that credential or parameter
	Earlier       []string  `json:"earlier,omitempty"`   // verified before, the last first; their files are kept
	Refused       *Refused  `json:"refused,omitempty"`   // the last site that was not accepted, until one is

	Used string `json:"used,omitempty"` // in status.json: the digest of the site whose plan is in place
}

// Stale says since when no look for a site has succeeded, and where the site is from; "" if the last one has, in this
// boot. It stays the same until a look succeeds. The boot is "" for a machine that does not run.
func (d *Delivery) Stale(bootID string) string {
	switch {
	case d == nil || d.Failed == "" && (bootID == "" || d.BootID == bootID):
		return ""
	case d.LookedAt.IsZero():
		return "no look for a site has succeeded yet"
	}

	at := d.LookedAt.UTC().Format(time.RFC3339)

	return fmt.Sprintf("no look for a site has succeeded since %s (%s)", at, d.Reference)
}

// TakeFailure takes over from a report that a later look has failed, where the record could not be written.
func (d *Delivery) TakeFailure(reported *Delivery) {
	if d != nil && reported != nil && d.Failed == "" && !d.LookedAt.After(reported.LookedAt) &&
		d.BootID == reported.BootID {
		d.Failed = reported.Failed
	}
}

// Refused is a site that was pulled and not accepted.
type Refused struct {
	Digest  string `json:"digest"`
	Content string `json:"content,omitempty"` // SHA-256 of the stored files
	Reason  string `json:"reason"`
}

// Delivery sets the pulled site that the run evaluates, nil on a node without delivery. The site in place stays that of
// the run before.
func (r *Reporter) Delivery(d *Delivery) {
	r.change(func(s *Status) {
		if d != nil {
			shown := *d
			shown.Used = s.SiteInPlace()
			d = &shown
		}
		s.Delivery = d
	})
}

// SiteInPlace sets the digest of the pulled site whose plan is in place; "" for none.
func (r *Reporter) SiteInPlace(digest string) {
	r.change(func(s *Status) {
		if s.Delivery != nil {
			s.Delivery.Used = digest
		}
	})
}

// SiteInPlace returns the digest that this run, or the one before it, has set.
func (s *Status) SiteInPlace() string {
	if s == nil || s.Delivery == nil {
		return ""
	}

	return s.Delivery.Used
}

// ReplaceDelivery replaces the pulled site in the status of the last run of this boot, once that has ended, but for the
// digest of the site in place.
func ReplaceDelivery(dir, bootID string, d Delivery) error {
	s, err := changeEnded(dir, bootID, func(s *Status) {
		if s.Delivery != nil {
			d.Used = s.Delivery.Used
		}
		s.Delivery = &d
	})

	return errors.Join(err, s.WriteMetrics(dir))
}

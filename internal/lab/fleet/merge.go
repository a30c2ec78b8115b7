package fleet

import (
	"encoding/json"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
)

// Shard is the part of the recordings that a partial result is of.
type Shard struct {
	Index int `json:"index"` // from 0
	Of    int `json:"of"`
}

// MaxPart is the largest size of a partial result that is read, in bytes. One of 10,000 machines has 2 MB.
const MaxPart = 64 << 20

// partBounds are those of a partial result: a group lists its machines, and each machine may have its own group.
var partBounds = tape.Bounds{Members: 250_000, Elements: 1_000_000, Depth: 64}

// Decode reads a partial result of at most MaxPart bytes.
func Decode(text []byte) (*FleetEffect, error) {
	var head struct {
		FormatVersion int    `json:"format_version"`
		Kind          string `json:"kind"`
	}
	if err := partBounds.Check(text); err != nil {
		return nil, fault.RecordingInvalid.Errorf("%s", err)
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fault.RecordingInvalid.Errorf("this is not a partial result of --shard: %s", tape.ExplainJSON(err))
	}
	switch {
	case head.Kind != "fleet":
		return nil, fault.RecordingInvalid.Errorf("this is not a partial result of --shard")
	case head.FormatVersion > FormatVersion:
		return nil, fault.RecordingInvalid.Errorf("it is of a newer prelet; use that one to merge")
	case head.FormatVersion < 1:
		return nil, fault.RecordingInvalid.Errorf("it has no format version")
	}

	var r FleetEffect
	if err := codec.DecodeStrict(text, &r, nil); err != nil {
		return nil, fault.RecordingInvalid.Errorf("%s", err)
	}
	if s := r.Shard; s == nil || s.Index < 0 || s.Index >= s.Of {
		return nil, fault.RecordingInvalid.Errorf("it is not of a shard; run `prelet plan --shard I/N -o json`")
	}

	return &r, r.check()
}

// check refuses a report whose groups do not have the machines that they count.
func (r *FleetEffect) check() error {
	for _, g := range r.Groups {
		isState := g.State == Changed || g.State == Unchanged || g.State == Unknown || g.State == Failed
		isCounted := g.Count > 0 && g.Count == len(g.Machines)
		isWithin := isUpTo(g.Degraded, g.Count) &&
			isUpTo(g.Restarts, g.Count) && isUpTo(g.Drains, g.Count) &&
			isUpTo(g.Waits, g.Count) && isUpTo(g.MayBeHeld, g.Count)
		if g.ID == "" || !isState || !isCounted || !isWithin {
			return fault.RecordingInvalid.Errorf("group %q is damaged", g.ID)
		}
	}
	for _, f := range r.Declares.Features {
		if !isUpTo(f.Nodes, r.Declares.Nodes) {
			return fault.RecordingInvalid.Errorf("declared feature %q is damaged", f.Name)
		}
	}

	return nil
}

func isUpTo(n, limit int) bool { return n >= 0 && n <= limit }

// Merge returns the report of a whole fleet from the partial results of all its shards. names are those of the files,
// for errors.
func Merge(parts []*FleetEffect, names []string) (*FleetEffect, error) {
	seen := map[int]string{}
	first := parts[0]
	out := NewReport(first.PreletVersion)
	out.Against = first.Against
	out.Site = first.Site
	out.AgainstSite = first.AgainstSite

	for i, part := range parts {
		if err := first.checkSame(part, names[0], names[i]); err != nil {
			return nil, err
		}
		if other, isSeen := seen[part.Shard.Index]; isSeen {
			return nil, fault.RecordingInvalid.Errorf(
				"%s: shard %d/%d is also in %s",
				names[i],
				part.Shard.Index,
				part.Shard.Of,
				other,
			)
		}
		seen[part.Shard.Index] = names[i]
		for _, g := range part.Groups {
			out.addGroup(g)
		}
		out.addAssumed(part.Assumed)
		out.addCauses(part.Causes)
		out.Declares.merge(part.Declares)
	}
	for i := range first.Shard.Of {
		if seen[i] == "" {
			return nil, fault.RecordingInvalid.Errorf(
				"shard %d/%d is missing, so the report would not be of all recordings", i, first.Shard.Of)
		}
	}
	out.Finish()

	return out, nil
}

// checkSame refuses a part that was made with other options than the first one.
func (r *FleetEffect) checkSame(part *FleetEffect, name, partName string) error {
	for _, c := range []struct{ what, first, other string }{
		{"prelet version", r.PreletVersion, part.PreletVersion},
		{"site (hash)", r.Site, part.Site},
		{"--against", r.Against, part.Against},
		{"site of --against (hash)", r.AgainstSite, part.AgainstSite},
		{"--from, --var, --objects or --kubelet-version (hash)", r.Inputs, part.Inputs},
		{"number of shards", fmt.Sprint(r.Shard.Of), fmt.Sprint(part.Shard.Of)},
	} {
		if c.first != c.other {
			return fault.RecordingInvalid.Errorf(
				"%s: its %s is %q, and that of %s is %q: the parts do not belong together",
				partName, c.what, c.other, name, c.first)
		}
	}

	return nil
}

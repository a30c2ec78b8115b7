package app

import (
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
)

// maxPart bounds a partial result, in bytes.
const maxPart = 1 << 30

// MergeFleet merges the partial results of `plan --shard` into one report.
func (e *Env) MergeFleet(paths []string) (*fleet.Report, error) {
	var parts []*fleet.Report
	for _, path := range paths {
		text, err := userfile.ReadInput(path, maxPart)
		if err != nil {
			return nil, failure(fault.Usage, "%s: %s", path, err)
		}
		part, err := fleet.Decode(text)
		if err != nil {
			return nil, failure(fault.RecordingInvalid, "%s: %s", path, err)
		}
		parts = append(parts, part)
	}

	return fleet.Merge(parts, paths)
}

package app

import (
	"errors"
	"io"
	"os"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/report/fleet"
)

// maxPart bounds a partial result, in bytes.
const maxPart = 1 << 30

// MergeFleet merges the partial results of `plan --shard` into one report.
func (e *Env) MergeFleet(paths []string) (*fleet.Report, error) {
	var parts []*fleet.Report
	for _, path := range paths {
		text, err := readPart(path)
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

func readPart(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, errors.New("no such file")
		}
		return nil, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxPart+1))
	if len(text) > maxPart {
		return nil, errors.New("it is larger than 1 GiB")
	}
	return text, err
}

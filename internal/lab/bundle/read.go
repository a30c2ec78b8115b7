package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
)

// IsNamed reports whether a path names a bundle, as prelet bundle requires it.
func IsNamed(path string) bool { return strings.HasSuffix(path, suffix) }

// maxExpanded limits the expanded size of a bundle, in bytes: a bundle may come from anyone.
const maxExpanded = 8 * tape.MaxRecording

// readFile returns a file of a bundle, if it has at most limit bytes.
func readFile(path, name string, limit int64) ([]byte, error) {
	f, err := userfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("not a bundle: %w", err)
	}

	expanded := &io.LimitedReader{R: zip, N: maxExpanded}
	archive := tar.NewReader(expanded)
	for {
		header, err := archive.Next()
		switch {
		case err != nil && expanded.N == 0:
			return nil, fmt.Errorf("it expands to more than %d bytes, and %s is behind that", int64(maxExpanded), name)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: %w", name, errNotBundled)
		case err != nil:
			return nil, fmt.Errorf("not a bundle: %w", err)
		case header.Name != folder+name:
			continue
		}

		if header.Size > limit {
			return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, header.Size, limit)
		}

		return io.ReadAll(archive)
	}
}

// errNotBundled is the error of a file that a bundle does not have.
var errNotBundled = errors.New("the bundle does not contain it; missing.txt in it has the reason")

// ReadStatus returns the status in the bundle at a path. It fails without a status that this version can read.
func ReadStatus(path string) (*report.Status, error) {
	text, err := readFile(path, report.StatusFile, report.StatusLimit)
	if err != nil {
		return nil, err
	}
	s, err := report.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the plan is not affected", report.StatusFile, err)
	}

	return s, nil
}

// ReadRecording returns the recording in a bundle, or in a file of its own.
func ReadRecording(path string) (*tape.Recording, error) {
	if !IsNamed(path) {
		f, err := userfile.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()

		text, err := tape.Decompress(f)
		if err != nil {
			return nil, err
		}

		return decodeEdited(text)
	}

	text, err := readFile(path, RecordingName, tape.MaxRecording)
	if err != nil {
		return nil, err
	}

	return tape.Decode(bytes.NewReader(text))
}

// decodeEdited decodes a recording that a person may have edited. It also refuses misspelt facts, and facts of a wrong
// type, with their places.
func decodeEdited(text []byte) (*tape.Recording, error) {
	out, err := tape.DecodeText(text)
	switch isBounded := tape.RecordingBounds.Check(text) == nil; {
	case err == nil:
		err = checkFacts(out, text)
	case isBounded && !errors.Is(err, tape.ErrNewer) && !errors.Is(err, tape.ErrNoFormat):
		if at := codec.CheckStrict(text, 0, reflect.TypeFor[tape.Document]()); at != nil {
			err = fmt.Errorf("not a recording: %w", at)
		}
	}
	if err != nil {
		return nil, err
	}

	return out, nil
}

// checkFacts returns the place of a mistake in the facts of a recording.
func checkFacts(r *tape.Recording, text []byte) error {
	for _, e := range r.Entries {
		if e.Kind != tape.Hardware.Kind || e.Answer.Fault != nil {
			continue
		}
		fast := json.NewDecoder(bytes.NewReader(e.Answer.Value))
		fast.DisallowUnknownFields()
		if fast.Decode(new(tape.Facts)) == nil {
			continue
		}

		var d tape.Document
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		for _, a := range d.Answers {
			if a.Kind != e.Kind || a.Answer.Value == nil {
				continue
			}
			err := codec.CheckStrict(text, bytes.Index(text, a.Answer.Value), reflect.TypeFor[tape.Facts]())
			if err != nil {
				return err
			}
		}
	}

	return nil
}

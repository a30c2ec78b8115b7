package generation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// A document is a small JSON file of the store, or the first line of a generation. It is one line, and its last member
// is the SHA-256 of all bytes before that member, so that a flipped bit anywhere in it is detected:
//
//	{"version":2,...,"sha256":"0123..."}
//
// Documents of format 1 have no checksum. They can be read, and are always written again in format 2.
//
// A change of a document, also a new member, needs a new format. Later formats must keep the checksum, so that a
// damaged document is not taken for a newer one, and should keep the meaning of the members of this one: an earlier
// prelet reads them, opens the gate if the files are those of the manifest, and writes nothing (see Store.Newer). What
// it cannot decode it does not check, except for the journal: a publish that it cannot rule out keeps the gate shut.
const (
	formatVersion = 2 // the format that is written; of a higher one the known members are read, and nothing is written
	unsealed      = 1 // the last format without a checksum
)

// The bytes around the checksum at the end of a document.
const (
	sealBegin = `,"sha256":"`
	sealEnd   = "\"}\n"
	sealSize  = len(sealBegin) + 64 + len(sealEnd)
)

// ErrNewer reports that a file was written by a later version.
var ErrNewer = errors.New("written by a newer version of prelet")

// errSum reports a document that differs from the written one.
var errSum = errors.New("its checksum does not match its content")

// encode returns the document of a struct with a version.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		// Cannot happen: the documents have no map keys, floats or foreign types that JSON refuses.
		panic(fmt.Sprintf("generation: cannot encode a document: %v", err))
	}

	body := b[:len(b)-1] // without the closing brace
	seal := sealBegin + Checksum(body) + sealEnd

	return append(body, seal...)
}

// openSeal returns a document without its checksum. whole reports whether the checksum is right. A document without a
// checksum is returned unchanged.
func openSeal(b []byte) (doc []byte, sealed, whole bool) {
	at := len(b) - sealSize
	if at < 0 {
		return b, false, false
	}

	body := b[:at:at]
	seal, hasBegin := strings.CutPrefix(string(b[at:]), sealBegin)
	seal, hasEnd := strings.CutSuffix(seal, sealEnd)
	if !hasBegin || !hasEnd {
		return b, false, false
	}

	return append(body, '}', '\n'), true, Checksum(body) == seal
}

// decode reads a document. version is the version field of into; it becomes formatVersion, also for an older format. A
// newer format keeps its version, and its unknown members are ignored.
func decode(b []byte, into any, version *int) error {
	doc, sealed, whole := openSeal(b)
	if sealed && !whole {
		return errSum
	}

	invalid := decodeStrict(doc, into)
	found := *version
	if invalid != nil { // a later version may have members that are unknown here, so look only at its number
		var v struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		found = v.Version
	}

	switch {
	case isNewer(found) && sealed:
		return explainNewer(found, json.Unmarshal(doc, into))
	case isNewer(found):
		return reportNewer(found)
	case found == formatVersion && !sealed:
		return errSum
	case sealed && found != formatVersion, !sealed && found != unsealed:
		return fmt.Errorf("invalid format version %d", found)
	}
	*version = formatVersion

	return invalid
}

// decodeStrict decodes one JSON value and refuses unknown members and trailing data.
func decodeStrict(doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()

	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("unexpected data after the document")
	}

	return nil
}

// readDocument reads and parses a file of the store. It returns nil if the file does not exist. A file that cannot be
// parsed needs a person.
func readDocument[T any](
	s *Store,
	dir *folder,
	base string,
	parse func([]byte) (*T, error),
) (*T, error) {
	if err := checkOwner(dir, base); err != nil {
		return nil, s.stuckDocument(dir.name(base), err)
	}

	b, err := readFile(dir, base)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrapRead(dir.name(base), err)
	}

	v, err := parse(b)
	if err != nil {
		return nil, s.stuckDocument(dir.name(base), err)
	}

	return v, nil
}

// wrapRead returns an error of reading a file of the store. It needs a person if it is about the file itself: a folder
// or a link of its name, or a block that cannot be read. A file that is missing, or that this user may not read, is not
// damaged.
func (s *Store) wrapRead(p string, err error) error {
	for _, damage := range []error{
		errNotFile, errTooLarge, unix.EISDIR, unix.ELOOP, unix.ENXIO, unix.EIO, unix.EBADMSG, unix.EUCLEAN,
	} {
		if errors.Is(err, damage) {
			return s.stuckDocument(p, damage)
		}
	}

	return wrapIO("read", p, err)
}

func (s *Store) stuckDocument(p string, err error) error {
	if errors.Is(err, ErrNewer) {
		const next = "install the newer version again, or let it finish before you downgrade"

		return Stuck(p, "this version cannot read it", next, err)
	}

	return s.stuckOnFile(p, "it is damaged", err)
}

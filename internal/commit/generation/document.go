package generation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// A document is a small JSON file of ours, or the first line of a generation. It is one line, and its last member is
// the SHA-256 of all bytes before that member, so that a bit that flips anywhere in it is found:
//
//	{"version":2,...,"sha256":"0123..."}
//
// Documents of format 1 have no such sum. They are read as they are, and whatever is written again is of format 2. A
// prelet that knows only format 1 refuses format 2 as written by a newer version. Later formats keep the seal, so
// that a damaged document is not taken for a newer one.
const (
	formatVersion = 2 // of what is written; a higher one is refused, because it may mean something else
	unsealed      = 1 // the last format without a sum
)

// The bytes around the sum at the end of a document.
const (
	sealBegin = `,"sha256":"`
	sealEnd   = "\"}\n"
	sealSize  = len(sealBegin) + 64 + len(sealEnd)
)

// ErrNewer says that a file was written by a later version.
var ErrNewer = errors.New("written by a newer version of prelet")

// errSum says that a document is not what was written.
var errSum = errors.New("its checksum does not match its content")

// encode makes a document of v, a struct with a version.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("generation: a document of ours does not encode: %v", err)) // no map keys, floats or foreign types
	}

	body := b[:len(b)-1] // without the closing brace
	seal := sealBegin + sum(body) + sealEnd

	return append(body, seal...)
}

// openSeal returns a document without its sum. whole says that the sum is right; without a sum b is returned as it is.
func openSeal(b []byte) (doc []byte, sealed, whole bool) {
	at := len(b) - sealSize
	if at < 0 || !bytes.HasPrefix(b[at:], []byte(sealBegin)) || !bytes.HasSuffix(b, []byte(sealEnd)) {
		return b, false, false
	}

	body, have := b[:at:at], b[at+len(sealBegin):len(b)-len(sealEnd)]

	return append(body, '}', '\n'), true, sum(body) == string(have)
}

// decode reads a document; version is the field of into, and is formatVersion afterwards, whichever format was read.
func decode(b []byte, into any, version *int) error {
	doc, sealed, whole := openSeal(b)
	if sealed && !whole {
		return errSum
	}

	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()

	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the document")
		}
	}

	found := *version
	if err != nil { // a later version may hold what this one does not know, so that only its version is asked for
		var v struct {
			Version int `json:"version"`
		}

		if wrong := json.Unmarshal(b, &v); wrong != nil {
			return wrong
		}
		found = v.Version
	}

	switch {
	case found > formatVersion:
		return fmt.Errorf("%w (format %d, this one knows %d)", ErrNewer, found, formatVersion)
	case found == formatVersion && !sealed:
		return errSum
	case sealed && found != formatVersion, !sealed && found != unsealed:
		return fmt.Errorf("no format version (found %d)", found)
	}

	*version = formatVersion

	return err
}

// readDocument reads and parses one of our files; (nil, nil) when there is none. What cannot be parsed needs a person.
func readDocument[T any](s *Store, dir *folder, base string, parse func([]byte) (*T, error)) (*T, []byte, error) {
	if err := checkOwner(dir, base); err != nil {
		return nil, nil, s.stuckDocument(dir.name(base), err)
	}
	b, err := readFile(dir, base)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	v, err := parse(b)
	if err != nil {
		return nil, nil, s.stuckDocument(dir.name(base), err)
	}
	return v, b, nil
}

func (s *Store) stuckDocument(p string, err error) error {
	if errors.Is(err, ErrNewer) {
		return Stuck(p, "this version cannot read it", "install the newer version again, or finish with it before going back", err)
	}
	return s.stuckAside(p, "it is damaged", err)
}

package generation

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A document is a small JSON file of the store, or the first line of a generation. It is one line, and its last member
// is the SHA-256 of all bytes before that member, so that a flipped bit anywhere in it is detected:
//
//	{"version":2,...,"sha256":"0123..."}
//
// A change of a document, also a new member, needs a new format. Later formats must keep the checksum, so that a
// damaged document is not taken for a newer one, and should keep the meaning of the members of this one: an earlier
// prelet reads them, opens the gate if the files are those of the manifest, and writes nothing (see Store.Newer). It
// does not check documents that it cannot decode, except for the journal: a publish that it cannot rule out keeps the
// gate shut.
//
// The checksum is the only check of a document: a document with a checksum was written by prelet. Before format 2,
// which 0.1.0 wrote, documents had none.
const formatVersion = 2 // the format that is written; of a higher one nothing is written

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

// openSeal returns a document without its checksum. ok is false if the checksum is missing or wrong.
func openSeal(b []byte) (doc []byte, ok bool) {
	at := len(b) - sealSize
	if at < 0 || string(b[at:]) != sealBegin+Checksum(b[:at])+sealEnd {
		return nil, false
	}

	return append(b[:at:at], "}\n"...), true
}

// decode reads a document. Of a newer format it reads the known members.
func decode[T any](b []byte) (*T, error) {
	doc, isWhole := openSeal(b)
	if !isWhole {
		return nil, errSum
	}

	var v struct {
		Version int `json:"version"`
	}
	err := json.Unmarshal(doc, &v)
	if err == nil && v.Version < formatVersion {
		err = fmt.Errorf("invalid format version %d", v.Version)
	}
	if err != nil {
		return nil, err
	}

	out := new(T)
	if err := json.Unmarshal(doc, out); err != nil {
		return nil, explainNewer(v.Version, err)
	}

	return out, nil
}

// readDocument reads and parses a file of the store. It returns nil if the file does not exist. A file that cannot be
// parsed needs a person.
func readDocument[T any](
	s *Store,
	dir *folder,
	base string,
	parse func([]byte) (*T, error),
) (*T, error) {
	b, err := readOwned(dir, base)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrapRead(dir.name(base), err)
	}

	v, err := parse(b)
	if err != nil {
		return nil, s.stuck(dir.name(base), err)
	}

	return v, nil
}

// wrapRead returns an error of reading a file of the store. It needs a person if it is about the file itself: a folder
// or a link of its name, or a block that cannot be read. A file that is missing, or that this user may not read, is not
// damaged.
func (s *Store) wrapRead(p string, err error) error {
	if errors.Is(err, errForeignOwner) {
		return s.stuck(p, err)
	}
	for _, damage := range []error{
		errNotFile, errTooLarge, unix.EISDIR, unix.ENOTDIR, unix.ELOOP, unix.ENXIO,
		unix.EIO, unix.EBADMSG, unix.EUCLEAN,
	} {
		if errors.Is(err, damage) {
			return s.stuck(p, damage)
		}
	}

	return wrapIO("read", p, err)
}

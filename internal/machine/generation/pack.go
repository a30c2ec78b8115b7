package generation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// A generation is one file, generations/N: its manifest on the first line, followed by the bytes of everything that it
// keeps, in the order of manifest.Parts, without separators. A single file needs one fsync, and exists either whole or
// not at all. It is written as N.staged; once the journal records the commit it is renamed to N.

const stagedSuffix = ".staged"

// part is a content of a target, or a blob of the caller.
type part struct {
	Blob   string `json:"blob,omitempty"` // the name of a blob; empty for a content
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
}

// pack is the file of a generation without the bytes of its parts.
type pack struct {
	m     *manifest
	name  string // in the folder of generations
	sha   string // of the first line
	begin int64  // offset of the first part
	file  fingerprint
}

// maxManifest is the size in bytes above which a manifest is not read.
const maxManifest = 16 << 20

// pack reads the manifest of a generation, committed or staged.
func (s *Store) pack(n int) (*pack, error) {
	if err := s.openGens(); err != nil {
		return nil, err
	}

	if s.gens != nil && n > 0 {
		for _, name := range []string{itoa(n), itoa(n) + stagedSuffix} {
			p, err := s.readPack(n, name)
			if !errors.Is(err, unix.ENOENT) {
				return p, err
			}
		}
	}

	return nil, refuse("open generation", itoa(n), ErrNoGeneration, nextHistory)
}

// readPack reads the manifest in a file, unless it is the last file that was read: a run asks for the generation in
// place about twenty times. No caller changes a pack.
func (s *Store) readPack(n int, name string) (*pack, error) {
	at := s.gens.name(name)
	st, err := statOwned(s.gens, name)
	if err != nil {
		return nil, s.wrapRead(at, err)
	}
	file := newFingerprint(&st)
	if last := s.lastPack.Load(); last != nil && last.name == name && last.file == file {
		return last, nil
	}

	f, total, err := openFile(s.gens, name)
	if err != nil {
		return nil, s.wrapRead(at, err)
	}
	defer f.Close()

	head, err := bufio.NewReader(io.LimitReader(f, maxManifest)).ReadBytes('\n')
	if err != nil && err != io.EOF { // without a line break the manifest cannot be parsed
		return nil, s.wrapRead(at, err)
	}
	m, err := decode[manifest](head)
	if errors.Is(err, ErrNewer) {
		return &pack{
			m:    &manifest{Version: unknownFormat, Gen: n},
			name: name,
			sha:  Checksum(head),
		}, nil
	}
	if err != nil {
		return nil, s.stuck(at, err)
	}
	if m.Gen != n {
		return nil, s.stuck(at, fmt.Errorf("it contains generation %d", m.Gen))
	}

	p := &pack{
		m:     m,
		name:  name,
		sha:   Checksum(head),
		begin: int64(len(head)),
		file:  file,
	}
	if size := p.offset(len(m.Parts)); size != total && !isNewer(m.Version) {
		cause := fmt.Errorf("it has %d bytes instead of %d", total, size)
		return nil, s.stuck(at, cause)
	}
	s.lastPack.Store(p)

	return p, nil
}

// offset returns where the i-th part begins in the file.
func (p *pack) offset(i int) int64 {
	at := p.begin
	for _, q := range p.m.Parts[:i] {
		at += q.Size
	}

	return at
}

// find returns the index of a content by its checksum, or of a blob by its name; -1 if the generation does not have it.
func (p *pack) find(blob, sha string) int {
	return slices.IndexFunc(p.m.Parts, func(q part) bool {
		return q.Blob == blob && (blob != "" || q.SHA256 == sha)
	})
}

// readPart reads the i-th part and compares its checksum with the manifest.
func (s *Store) readPart(p *pack, i int) ([]byte, error) {
	at := s.gens.name(p.name)
	q := p.m.Parts[i]
	f, err := openToRead(s.gens, p.name)
	if err != nil {
		return nil, wrapIO("read", at, err)
	}
	defer f.Close()

	b := make([]byte, q.Size)
	n, err := f.ReadAt(b, p.offset(i))
	if err != nil && err != io.EOF {
		return nil, s.wrapRead(at, err)
	}
	if Checksum(b[:n]) != q.SHA256 {
		return nil, s.stuck(at, errors.New("its content differs from the stored one"))
	}

	return b, nil
}

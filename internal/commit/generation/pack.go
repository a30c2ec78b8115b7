package generation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// A generation is one file, generations/N: its manifest on the first line, and behind it the bytes of everything that it
// keeps, in the order of manifest.Parts, with nothing in between. One file is one fsync, and is there whole or not at all.
// It is written as N.staged; the commit that the journal records makes it N.

const stagedSuffix = ".staged"

// part is one thing that a generation keeps: a content of a target, or a blob of the caller's.
type part struct {
	Blob   string `json:"blob,omitempty"` // its name; empty for a content
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
}

// pack is a generation's file, as far as it was read: everything but the parts.
type pack struct {
	m     *manifest
	name  string // in the folder of generations
	sha   string // of the first line
	begin int64  // offset of the first part
}

// headChunk is how much of a generation's file is read to find its manifest, and maxHead what a manifest may take.
const (
	headChunk = 8 << 10
	maxHead   = 16 << 20
)

// pack reads the manifest of a generation, staged or committed.
func (s *Store) pack(n int) (*pack, error) {
	none := NewFault(fault.CannotWrite, "open generation", itoa(n), ErrNoGeneration, "history lists those that there are")
	if err := s.openGens(); err != nil {
		return nil, err
	}
	if s.gens == nil || n < 1 {
		return nil, none
	}
	for _, name := range []string{itoa(n), itoa(n) + stagedSuffix} {
		p, err := s.readPack(n, name)
		if !errors.Is(err, unix.ENOENT) {
			return p, err
		}
	}
	return nil, none
}

func (s *Store) readPack(n int, name string) (*pack, error) {
	at := s.gens.name(name)
	if err := checkOwner(s.gens, name); err != nil {
		return nil, s.stuckDocument(at, err)
	}
	fd, err := unix.Openat(s.gens.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "read", at, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, wrap(fault.CannotWrite, "read", at, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, s.stuckDocument(at, errors.New("it is not a file"))
	}
	head, err := firstLine(fd)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "read", at, err)
	}
	m, err := parseManifest(head)
	if err == nil && m.Gen != n {
		err = fmt.Errorf("it is generation %d", m.Gen)
	}
	if err == nil {
		size := int64(len(head))
		for _, p := range m.Parts {
			size += p.Size
		}
		if size != st.Size {
			err = fmt.Errorf("it has %d bytes, and should have %d", st.Size, size)
		}
	}
	if err != nil {
		return nil, s.stuckDocument(at, err)
	}
	return &pack{m: m, name: name, sha: sum(head), begin: int64(len(head))}, nil
}

// firstLine reads up to and with the first line break; without one all that there is, which no parser takes.
func firstLine(fd int) ([]byte, error) {
	b := make([]byte, 0, headChunk)
	for len(b) < maxHead {
		b = slices.Grow(b, headChunk)
		n, err := unix.Pread(fd, b[len(b):cap(b)], int64(len(b)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		from := len(b)
		b = b[:from+n]
		if i := bytes.IndexByte(b[from:], '\n'); i >= 0 {
			return b[:from+i+1], nil
		}
		if n == 0 {
			break
		}
	}
	return b, nil
}

// where says at which offset of the file the i-th part begins.
func (p *pack) where(i int) int64 {
	at := p.begin
	for _, q := range p.m.Parts[:i] {
		at += q.Size
	}
	return at
}

// content and blob find a part; -1 when the generation has it not.
func (p *pack) content(sha string) int {
	return slices.IndexFunc(p.m.Parts, func(q part) bool { return q.Blob == "" && q.SHA256 == sha })
}

func (p *pack) blob(name string) int {
	return slices.IndexFunc(p.m.Parts, func(q part) bool { return q.Blob == name && name != "" })
}

// read reads the i-th part. Bytes that do not have the sum that the manifest tells are an error.
func (s *Store) read(p *pack, i int) ([]byte, error) {
	at, q := s.gens.name(p.name), p.m.Parts[i]
	fd, err := unix.Openat(s.gens.fd, p.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "read", at, err)
	}
	defer unix.Close(fd)
	b := make([]byte, q.Size)
	for from, off := 0, p.where(i); from < len(b); {
		n, err := unix.Pread(fd, b[from:], off+int64(from))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, wrap(fault.CannotWrite, "read", at, err)
		}
		if n == 0 {
			b = b[:from] // shorter than it was: the sum tells
		}
		from += n
	}
	if sum(b) != q.SHA256 {
		return nil, s.stuckAside(at, "its bytes are no longer those that were stored", nil)
	}
	return b, nil
}

// contentOf reads one content of a generation. The error of a content that it does not have is unix.ENOENT.
func (s *Store) contentOf(n int, sha string) ([]byte, error) {
	p, err := s.pack(n)
	if err != nil {
		return nil, err
	}
	i := p.content(sha)
	if i < 0 {
		return nil, wrap(fault.CannotWrite, "find content in", s.gens.name(p.name), unix.ENOENT)
	}
	return s.read(p, i)
}

// extract is a line for a shell that prints a content of a generation, for a person who has to put it back.
func (s *Store) extract(n int, sha string) (string, bool) {
	p, err := s.pack(n)
	if err != nil {
		return "", false
	}
	i := p.content(sha)
	if i < 0 {
		return "", false
	}
	return fmt.Sprintf("tail -c +%d %s | head -c %d", p.where(i)+1, quoted(s.gens.name(p.name)), p.m.Parts[i].Size), true
}

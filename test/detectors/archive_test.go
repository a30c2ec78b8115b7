package detectors

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

// packaged is one file of a package.
type packaged struct {
	Mode   int64
	Owner  string
	SHA256 string
	text   []byte // of a deb's only: the payload of an rpm is not unpacked, its header has the sums
}

// archive is what a package holds and says.
type archive struct {
	control map[string]string // a deb's fields and scripts; an rpm's, under the deb's names
	files   map[string]packaged
}

// readDeb reads a deb: an ar archive of two compressed tars.
func readDeb(file string) (a archive, err error) {
	a = archive{map[string]string{}, map[string]packaged{}}
	b, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	rest, ok := bytes.CutPrefix(b, []byte("!<arch>\n"))
	if !ok {
		return a, fmt.Errorf("%s is not an ar archive", file)
	}
	for len(rest) >= 60 {
		name := strings.TrimRight(strings.TrimSpace(string(rest[:16])), "/")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || len(rest) < 60+size {
			return a, fmt.Errorf("%s: %s: its size is %q", file, name, rest[48:58])
		}
		member := rest[60 : 60+size]
		rest = rest[min(60+size+size%2, len(rest)):]
		kind, compressed := strings.CutSuffix(name, ".tar.gz")
		if !compressed {
			continue // debian-binary
		}
		err = eachFile(member, func(h *tar.Header, text []byte) {
			name := path.Join("/", h.Name)
			switch {
			case kind == "data":
				sum := sha256.Sum256(text)
				a.files[name] = packaged{h.Mode & 0o7777, h.Uname, hex.EncodeToString(sum[:]), text}
			case name == "/control":
				for line := range strings.Lines(string(text)) {
					if k, v, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
						a.control[k] = strings.TrimSpace(v)
					}
				}
			default:
				a.control[strings.TrimPrefix(name, "/")] = string(text)
			}
		})
		if err != nil {
			return a, fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	return a, nil
}

func eachFile(compressed []byte, f func(*tar.Header, []byte)) error {
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			f(h, text)
		}
	}
}

// Tags of an rpm's header (rpmtag.h).
const (
	tagName, tagArch, tagPostin, tagPostun                               = 1000, 1022, 1024, 1026
	tagFileModes, tagFileDigests, tagFileUser                            = 1030, 1035, 1039
	tagRequires, tagDirIndexes, tagBaseNames, tagDirNames, tagRecommends = 1049, 1116, 1117, 1118, 5046
)

// readRPM reads the header of an rpm: a lead of 96 bytes, a header of signatures, the header.
func readRPM(file string) (a archive, err error) {
	a = archive{map[string]string{}, map[string]packaged{}}
	b, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	at := 96
	if _, at, err = rpmHeader(b, at); err == nil {
		var tags map[int]any
		if tags, _, err = rpmHeader(b, (at+7)&^7); err == nil {
			return rpmArchive(a, tags)
		}
	}
	return a, fmt.Errorf("%s: %w", file, err)
}

func rpmArchive(a archive, tags map[int]any) (archive, error) {
	list := func(tag int) []string { l, _ := tags[tag].([]string); return l }
	for tag, name := range map[int]string{tagName: "Package", tagArch: "Architecture", tagPostin: "postinst", tagPostun: "postrm", tagRequires: "Depends", tagRecommends: "Recommends"} {
		if v := list(tag); len(v) > 0 {
			a.control[name] = strings.Join(v, ", ")
		}
	}
	modes, _ := tags[tagFileModes].([]uint32)
	folders, _ := tags[tagDirIndexes].([]uint32)
	for i, name := range list(tagBaseNames) {
		if modes[i]&0o170000 == 0o100000 {
			a.files[list(tagDirNames)[folders[i]]+name] = packaged{
				Mode:   int64(modes[i] & 0o7777),
				Owner:  list(tagFileUser)[i],
				SHA256: list(tagFileDigests)[i],
			}
		}
	}
	if len(a.files) == 0 {
		return a, fmt.Errorf("no files in the header")
	}
	return a, nil
}

// rpmHeader reads one: a magic, the number of entries, the size of their values; 16 bytes an entry.
func rpmHeader(b []byte, at int) (tags map[int]any, end int, err error) {
	if len(b) < at+16 || !bytes.HasPrefix(b[at:], []byte{0x8e, 0xad, 0xe8, 1}) {
		return nil, 0, fmt.Errorf("no header at %d", at)
	}
	word := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
	entries, size := word(at+8), word(at+12)
	index, store := at+16, at+16+16*entries
	if end = store + size; end > len(b) {
		return nil, 0, fmt.Errorf("the header at %d is cut off", at)
	}
	tags = map[int]any{}
	for i := range entries {
		e := index + 16*i
		tag, kind, from, count := word(e), word(e+4), store+word(e+8), word(e+12)
		switch kind {
		case 3, 4: // int16, int32
			var v []uint32
			for j := range count {
				if kind == 3 {
					v = append(v, uint32(binary.BigEndian.Uint16(b[from+2*j:])))
				} else {
					v = append(v, binary.BigEndian.Uint32(b[from+4*j:]))
				}
			}
			tags[tag] = v
		case 6, 8, 9: // one text or several, each with a zero behind it
			tags[tag] = strings.SplitN(string(b[from:end]), "\x00", count+1)[:count]
		}
	}
	return tags, end, nil
}

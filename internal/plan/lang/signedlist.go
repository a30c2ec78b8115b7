package lang

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

// signedList has the files of a signed site.
type signedList struct {
	counter uint64            // at least 1; higher for each later version of the site
	hashes  map[string]string // SHA-256 in hexadecimal, by the file's name without folder
}

// listedFile is a line of sha256sum: the hash, a space, a space or an asterisk, and the name.
var listedFile = texts.LazyRegexp(`^([0-9a-f]{64}) [ *](.+)$`)

// listedCounter is the line with the counter.
var listedCounter = texts.LazyRegexp(`^# counter: ([0-9]+)$`)

// parseList parses lines as sha256sum prints them, and a comment with the counter. Files that no site reads, such as
// tests, are left out.
func parseList(text []byte) (*signedList, error) {
	list := &signedList{hashes: map[string]string{}}
	switch {
	case strings.HasPrefix(string(text), "\ufeff"):
		return nil, errors.New("it begins with a byte order mark: write it as plain UTF-8, and sign it again")
	case strings.Contains(string(text), "\r"):
		return nil, errors.New("its lines end with a carriage return: write it with line feeds only, and sign it again")
	}

	for number, s := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if m := listedCounter().FindStringSubmatch(s); m != nil {
			n, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil || n == 0 || list.counter != 0 {
				return nil, fmt.Errorf("line %d: write one counter, a number from 1 to %d", number+1, uint64(1<<64-1))
			}
			list.counter = n
			continue
		}
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}

		m := listedFile().FindStringSubmatch(s)
		if m == nil {
			return nil, fmt.Errorf("line %d is not of the form that sha256sum prints for a name without \\ and newline",
				number+1)
		}
		name := path.Base(m[2])
		if list.hashes[name] != "" {
			return nil, fmt.Errorf("line %d: %s is listed twice", number+1, name)
		}
		if IsSiteFile(name) {
			list.hashes[name] = m[1]
		}
	}

	if list.counter == 0 {
		return nil, errors.New("there is no line \"# counter: 1\" with a number from 1; " +
			"the counter must be higher for each later version")
	}

	return list, nil
}

// compare returns how files differ from the list, nil if they are exactly the listed ones. The folder of a file is not
// compared: it does not change the meaning of the file.
func (l *signedList) compare(files []tape.SiteFile) []string {
	missing := maps.Clone(l.hashes)
	var differences []string

	for _, f := range files {
		sum := sha256.Sum256([]byte(f.Text))
		name := path.Base(f.Name)
		want, isListed := missing[name]
		delete(missing, name)

		switch {
		case !isListed:
			differences = append(differences, f.Name+" is not listed")
		case want != hex.EncodeToString(sum[:]):
			differences = append(differences, f.Name+" was changed")
		}
	}

	for _, name := range slices.Sorted(maps.Keys(missing)) {
		differences = append(differences, name+" is listed, and is missing or hidden")
	}

	return differences
}

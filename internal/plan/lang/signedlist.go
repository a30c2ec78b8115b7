package lang

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

// SignedList is a signed list of the files of one layer. A list without a name was signed by hand, as for prelet 0.2:
// it has the files of all layers, those that are in effect.
type SignedList struct {
	Name       string    `json:"name,omitempty"`
	Ring       string    `json:"ring,omitempty"`       // of the nodes that it is for
	Repository string    `json:"repository,omitempty"` // HOST/PATH that it is for; "": a folder, and no registry
	Counter    uint64    `json:"counter"`              // at least 1; higher for each later version
	NotBelow   uint64    `json:"not_below,omitempty"`  // the lowest counter that a node accepts after this list
	Expires    time.Time `json:"expires,omitzero"`     // a node does not pull it later

	hashes map[string]string // SHA-256 in hexadecimal, by the file's name without folder
	masks  []string          // the names of links to /dev/null
}

// Form of the lines: of a file, as sha256sum prints them, and of what else the list says.
var (
	listedFile   = texts.LazyRegexp(`^([0-9a-f]{64}) [ *](.+)$`)
	listedHeader = texts.LazyRegexp(`^# (name|ring|repository|counter|not-below|expires|mask): (.*)$`)
	listedName   = texts.LazyRegexp(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	listedPlace  = texts.LazyRegexp(`^[a-z0-9.:\[\]-]+(/[a-z0-9._-]+)+$`)
)

// ParseList parses a list. Files that no site reads, such as tests, are left out; comments are too.
func ParseList(text []byte) (*SignedList, error) {
	switch {
	case strings.HasPrefix(string(text), "\ufeff"):
		return nil, errors.New("it begins with a byte order mark: write it as plain UTF-8, and sign it again")
	case strings.Contains(string(text), "\r"):
		return nil, errors.New("its lines end with a carriage return: write it with line feeds only, and sign it again")
	}

	list := &SignedList{hashes: map[string]string{}}
	headers := map[string]bool{}
	for number, s := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var err error
		if m := listedHeader().FindStringSubmatch(s); m != nil {
			err = list.addHeader(headers, m[1], m[2])
		} else if s != "" && !strings.HasPrefix(s, "#") {
			err = list.addFile(s)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
	}

	if err := list.check(headers); err != nil {
		return nil, err
	}

	return list, nil
}

func (l *SignedList) addFile(line string) error {
	m := listedFile().FindStringSubmatch(line)
	if m == nil {
		return errors.New("it is not of the form that sha256sum prints for a name without \\ and newline")
	}
	name := path.Base(m[2])
	if l.hashes[name] != "" {
		return fmt.Errorf("%s is listed twice", name)
	}
	if IsSiteFile(name) {
		l.hashes[name] = m[1]
	}

	return nil
}

// addHeader adds a line "# KEY: VALUE". headers has the keys before it.
func (l *SignedList) addHeader(headers map[string]bool, key, value string) (err error) {
	isSecond := headers[key] && key != "mask"
	headers[key] = true

	switch key {
	case "name":
		l.Name, err = value, checkListed(listedName(), key, value)
	case "ring":
		l.Ring, err = value, checkListed(listedName(), key, value)
	case "repository":
		l.Repository, err = value, checkListed(listedPlace(), key, value)
	case "counter":
		l.Counter, err = parseCounter(key, value)
	case "not-below":
		l.NotBelow, err = parseCounter(key, value)
	case "expires":
		l.Expires, err = time.Parse(time.RFC3339, value)
		if err != nil {
			err = fmt.Errorf("%q is not a time as 2027-01-31T12:00:00Z", value)
		}
	case "mask":
		l.masks = append(l.masks, value)
	}
	if err == nil && isSecond {
		err = fmt.Errorf("write one %s", key)
	}

	return err
}

// checkListed checks the value of a header by its form.
func checkListed(form interface{ MatchString(string) bool }, key, value string) error {
	if form.MatchString(value) {
		return nil
	}
	if key == "repository" {
		return fmt.Errorf("invalid repository %q: write HOST/PATH, without a tag", value)
	}

	return fmt.Errorf("invalid %s %q: write up to 63 letters, digits, dots, - and _", key, value)
}

func parseCounter(key, value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("write one %s, a number from 1 to %d", key, uint64(1<<64-1))
	}

	return n, nil
}

// check checks a list as a whole.
func (l *SignedList) check(headers map[string]bool) error {
	slices.Sort(l.masks)
	switch {
	case l.Counter == 0:
		return errors.New("there is no line \"# counter: 1\" with a number from 1; " +
			"the counter must be higher for each later version")
	case l.NotBelow > l.Counter:
		return fmt.Errorf("not-below is %d, above the counter %d: no node would accept the list", l.NotBelow, l.Counter)
	case l.Name != "":
		return nil
	}

	for _, key := range []string{"ring", "repository", "not-below", "expires", "mask"} {
		if headers[key] {
			return fmt.Errorf("there is a line \"# %s:\", and none \"# name:\"; sign the layer: %s", key, signLayer)
		}
	}

	return nil
}

// String names the list in messages.
func (l *SignedList) String() string {
	return fmt.Sprintf("%s, counter %d", cmp.Or(l.Name, "all layers"), l.Counter)
}

// Files returns the number of files in the list, masks too.
func (l *SignedList) Files() int { return len(l.hashes) + len(l.masks) }

// Add adds files of a layer, and the names of its masks: links to /dev/null.
func (l *SignedList) Add(files []tape.SiteFile, masks ...string) {
	if l.hashes == nil {
		l.hashes = map[string]string{}
	}
	for _, f := range files {
		l.hashes[path.Base(f.Name)] = hash(f.Text)
	}
	l.masks = slices.Sorted(slices.Values(append(l.masks, masks...)))
}

// Format returns the text of a list, or why it cannot be one.
func (l *SignedList) Format() ([]byte, error) {
	var b strings.Builder
	line := func(isThere bool, key string, value any) {
		if isThere {
			fmt.Fprintf(&b, "# %s: %v\n", key, value)
		}
	}

	line(l.Name != "", "name", l.Name)
	line(l.Ring != "", "ring", l.Ring)
	line(l.Repository != "", "repository", l.Repository)
	line(true, "counter", l.Counter)
	line(l.NotBelow > 0, "not-below", l.NotBelow)
	line(!l.Expires.IsZero(), "expires", l.Expires.UTC().Format(time.RFC3339))
	for _, name := range l.masks {
		line(true, "mask", name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.hashes)) {
		fmt.Fprintf(&b, "%s  %s\n", l.hashes[name], name)
	}

	for _, name := range slices.Concat(slices.Sorted(maps.Keys(l.hashes)), l.masks) {
		if strings.ContainsAny(name, "\\\n\r") {
			return nil, fmt.Errorf("the name of %q has a \\ or the end of a line: rename it", name)
		}
	}
	text := []byte(b.String())
	if _, err := ParseList(text); err != nil {
		return nil, err
	}

	return text, nil
}

// Compare returns how the files and masks of a layer differ from the list, nil if they are exactly the listed ones. The
// folder of a file is not compared: it does not change the meaning of the file.
func (l *SignedList) Compare(files []tape.SiteFile, masks ...string) []string {
	missing := maps.Clone(l.hashes)
	var differences []string

	for _, f := range files {
		name := path.Base(f.Name)
		want, isListed := missing[name]
		delete(missing, name)

		switch {
		case !isListed:
			differences = append(differences, f.Name+" is not listed")
		case want != hash(f.Text):
			differences = append(differences, f.Name+" was changed")
		}
	}
	for _, name := range masks {
		if !slices.Contains(l.masks, path.Base(name)) {
			differences = append(differences, name+" masks a file, and is not listed as a mask")
		}
	}

	how := " is listed, and is missing"
	if l.Name == "" {
		how += " or hidden"
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		differences = append(differences, name+how)
	}
	for _, name := range l.masks {
		if !slices.ContainsFunc(masks, func(m string) bool { return path.Base(m) == name }) {
			differences = append(differences, name+" is listed as a mask, and is not one")
		}
	}

	return differences
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))

	return hex.EncodeToString(sum[:])
}

// Wanted has the conditions of a node for a site that it pulls.
type Wanted struct {
	Name         string    // "": any
	Ring         string    // "": a list without a ring
	Repositories []string  // those that the node asks, each HOST/PATH
	IsFolder     bool      // it comes from a folder; otherwise it must be for one of Repositories
	NotBelow     uint64    // the highest that the node has accepted of a list of this name
	Now          time.Time // zero: the clock is not set, so nothing has expired
}

// CheckWanted returns why a node must not take a site with this list from a place. It does not judge a layer that
// root or the image has put there.
func (l *SignedList) CheckWanted(w Wanted) error {
	const again = "sign the site again: " + signLayer
	switch {
	case l.Name == "":
		return fmt.Errorf("%s has no line \"# name:\", so it is not of one layer; %s", ListFile, again)
	case w.Name != "" && l.Name != w.Name:
		return fmt.Errorf("the site is signed as %q, and this node wants %q", l.Name, w.Name)
	case l.Ring != w.Ring && l.Ring == "":
		return fmt.Errorf("the site is signed for no ring, and this node is of the ring %q; %s --ring %s",
			w.Ring, again, w.Ring)
	case l.Ring != w.Ring && w.Ring == "":
		return fmt.Errorf("the site is signed for the ring %q, and this node has no ring in its delivery block", l.Ring)
	case l.Ring != w.Ring:
		return fmt.Errorf("the site is signed for the ring %q, and this node is of the ring %q", l.Ring, w.Ring)
	case !w.takes(l.Repository) && l.Repository == "":
		return fmt.Errorf("the site is signed for a folder, and not for a registry; %s --repository %s",
			again, strings.Join(w.Repositories, " or "))
	case !w.takes(l.Repository):
		return fmt.Errorf("the site is signed for the repository %s, and this node asks %s",
			l.Repository, strings.Join(w.Repositories, " and "))
	case l.Counter < w.NotBelow:
		return fmt.Errorf("the counter of the site %s is %d, and this node has accepted one with not-below %d: "+
			"sign the next one with that counter or a higher one", l.Name, l.Counter, w.NotBelow)
	case !l.Expires.IsZero() && !w.Now.IsZero() && w.Now.After(l.Expires):
		return fmt.Errorf("the signature of the site expired at %s; %s", l.Expires.UTC().Format(time.RFC3339), again)
	}

	return nil
}

// takes reports whether a list of a repository, "" for none, may come from this place. A folder may have the site of
// any repository if the node asks folders only.
func (w Wanted) takes(repository string) bool {
	isAny := repository == "" || len(w.Repositories) == 0

	return w.IsFolder && isAny || slices.Contains(w.Repositories, repository)
}

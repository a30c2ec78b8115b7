package nodefile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// MaxGlobbed is how many names of folders one glob may look at.
const MaxGlobbed = 10_000

// IsGlob reports whether a path has signs of a glob.
func IsGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?[") }

// Glob returns the existing paths below the root that a glob means, by name, as glob(3): a * does not match a name that
// begins with a dot. Below a folder that cannot be read nothing matches. enter returns why a folder, which has no
// links, must not be searched. The error is that of enter, or of a glob that looks at more than MaxGlobbed names; paths
// found before it are returned, too.
func (r Root) Glob(folder, pattern string, enter func(folder string) error) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, errors.New("a bracket is not closed")
	}
	if path.IsAbs(pattern) {
		folder = "/"
	}

	g := globber{root: r, enter: enter, left: MaxGlobbed}
	found := []string{folder}
	for part := range strings.SplitSeq(strings.Trim(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			names, err := g.match(dir, part)
			for _, name := range names {
				next = append(next, path.Join(dir, name))
			}
			if err != nil {
				return next, err
			}
		}
		found = next
	}

	return found, nil
}

type globber struct {
	root  Root
	enter func(folder string) error
	left  int // names to look at
}

// match returns the names in a folder that a part of a glob means.
func (g *globber) match(dir, part string) ([]string, error) {
	if !IsGlob(part) {
		look, err := g.look(path.Join(dir, part))
		if err != nil {
			return nil, nil //nolint:nilerr // what cannot be found is not matched
		}
		look.Close()

		return []string{part}, nil
	}

	look, err := g.look(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	defer look.Close()
	if look.Mode()&fs.ModeDir == 0 {
		return nil, nil
	}
	if g.enter != nil {
		if err := g.enter(look.Path()); err != nil {
			return nil, err
		}
	}
	names, _ := look.Names(g.left + 1) // none in a folder that cannot be read
	if g.left -= len(names); g.left < 0 {
		return nil, fmt.Errorf("it would search more than %d names", MaxGlobbed)
	}

	part = strings.ReplaceAll(part, "[!", "[^")
	names = slices.DeleteFunc(names, func(name string) bool {
		isMatch, err := path.Match(part, name)
		return !isMatch || err != nil || name[0] == '.' && part[0] != '.'
	})
	slices.Sort(names)

	return names, nil
}

// look finds a file that is below the root, or, of this machine, relative to the working folder.
func (g *globber) look(name string) (*Look, error) {
	if g.root == "" {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		name = abs
	}

	return g.root.Look(name, FollowAll)
}

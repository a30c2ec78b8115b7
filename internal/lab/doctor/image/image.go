// Package image examines the root folder of an image that does not run. Find returns the leftovers of the machine on
// which it was built: identity, secrets and state, by one table of paths. Remove removes them. Every path stays below
// the root, links included. Only Remove and WriteFile write.
package image

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Action is how Remove treats a leftover.
type Action string

// The actions.
const (
	Delete Action = "remove" // a folder with all that it contains
	Empty  Action = "empty"
	ByHand Action = "by hand" // nothing: the file may be needed
	Keep   Action = "keep"    // nothing, and the image may be sealed with it
	// Restore is for files that prelet wrote: they become as before prelet. Remove does not do it.
	Restore Action = "restore"
)

// IsRemoved reports whether Remove changes something.
func (a Action) IsRemoved() bool { return a == Delete || a == Empty }

// Leftover is a file or a folder that an image must not contain.
type Leftover struct {
	Path   string `json:"path"` // on the node, without links
	Check  string `json:"check"`
	Why    string `json:"why"`
	Action Action `json:"action"`
	Do     string `json:"do,omitempty"` // the next step, for ByHand and Keep
}

// Next returns the next step for a leftover.
func (l Leftover) Next() string {
	switch l.Action {
	case ByHand, Keep:
		return l.Do
	case Empty:
		return "prelet seal --yes empties it"
	case Restore:
		return "prelet seal --yes puts back what was before prelet"
	}

	return "prelet seal --yes removes it"
}

// Kubelet is the kubelet that was found in an image.
type Kubelet struct {
	Path    string `json:"path"`    // "" for none
	Version string `json:"version"` // "" where it is not known
	Unread  error  `json:"-"`       // why a place where there may be one could not be looked at
}

// Unread is a file or folder that could not be examined.
type Unread struct {
	Check string
	Err   error
}

// Found has the leftovers of an image.
type Found struct {
	Leftovers []Leftover // in the order in which Remove must remove them
	Unread    []Unread
}

// Subject is the image, and what its site knows.
type Subject struct {
	Root nodefile.Root
	Now  func() time.Time
	// IsPublic reports whether a variable of the site is not a secret, so that its credential may be in the image.
	IsPublic func(variable string) bool
	// SiteFolders contain the site.
	SiteFolders []string
	// Mounts is the text of /proc/self/mountinfo. MountsErr is why it could not be read.
	Mounts    []byte
	MountsErr error
	// OnMachine is set if this process is neither in a container nor in a chroot, so that Mounts has all mounts.
	OnMachine bool
	// Written are the files that prelet wrote, and Unread is why they are not known; nil: they are.
	Written []Leftover
	Unread  error
}

// Limits of the examination. A folder or file beyond them is reported as unread.
const (
	maxNames = 100_000
	maxText  = 16 << 20 // bytes of one file
)

// below is the last part of a pattern that matches all files in a folder and below it.
const below = "**"

// notSearched are folders that such a pattern leaves out: they are in memory, or have the files of containers.
var notSearched = []string{
	"/dev", "/proc", "/run", "/sys", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker",
}

// Find returns the files and folders that an image must not contain.
func Find(o Subject) Found {
	s := &search{
		Subject: o,
		seen:    map[string]bool{},
	}
	mounts, err := parseMounts(string(o.Root), o.Mounts)
	s.mounts = mounts
	s.mounts.isWhole = o.OnMachine
	if err = cmp.Or(o.MountsErr, err); err != nil {
		s.addUnread("state", fmt.Errorf("the mounts are not known: %w", err))
	}
	node := joined.Reader{Root: o.Root, Now: o.Now}
	identity := rule{check: "identity", action: Delete, why: whyIdentity}
	for _, file := range node.Files(node.Identity()) {
		s.matchAll(file, identity)
	}
	for _, r := range o.rules() {
		s.matchAll(r.pattern, r)
	}
	for _, l := range o.Written {
		if !s.seen[l.Path] {
			s.found.Leftovers = append(s.found.Leftovers, l)
		}
	}
	if o.Unread != nil {
		s.addUnread("state", o.Unread)
	}

	return s.found
}

// search looks for the files of rules.
type search struct {
	Subject
	found  Found
	seen   map[string]bool
	mounts mounts
}

// matchAll looks for the paths that match a pattern, and for those of /etc also in /usr/etc, where an OSTree image has
// it.
func (s *search) matchAll(pattern string, r rule) {
	s.match("/", splitPattern(pattern), r)
	if strings.HasPrefix(pattern, "/etc/") {
		s.match("/", splitPattern("/usr"+pattern), r)
	}
}

// match looks for the paths below a folder that match the parts of a pattern. It follows links to folders.
func (s *search) match(dir string, parts []string, r rule) {
	look, err := s.Root.Look(dir, nodefile.FollowAll)
	if err != nil {
		s.note(r, err)
		return
	}
	defer look.Close()
	if !look.Mode().IsDir() {
		return
	}

	names := parts[:1]
	switch {
	case parts[0] == below:
		s.matchBelow(look, r)
		return
	case strings.Contains(parts[0], "*"):
		names = s.list(look, r)
	}
	for _, name := range names {
		matches, _ := path.Match(parts[0], name) // the patterns are well formed: a test parses all of them
		switch file := path.Join(look.Path(), name); {
		case !matches:
		case len(parts) == 1:
			s.check(file, r)
		default:
			s.match(file, parts[1:], r)
		}
	}
}

// list returns the names in a folder, sorted.
func (s *search) list(folder *nodefile.Look, r rule) []string {
	names, err := folder.Names(maxNames)
	if err == nil && len(names) == maxNames {
		err = fmt.Errorf("%s has too many files: %d were examined", folder.Path(), maxNames)
	}
	s.note(r, err)
	slices.Sort(names)

	return names
}

// matchBelow applies a rule to each regular file in a folder and below it. A link is left out, so that each file is
// seen once, at its own path.
func (s *search) matchBelow(folder *nodefile.Look, r rule) {
	for _, name := range s.list(folder, r) {
		file := path.Join(folder.Path(), name)
		if s.seen[file] || slices.Contains(notSearched, file) || s.mounts.isOfOthers(file) {
			continue
		}
		look, err := s.Root.Look(file, nodefile.FollowNone)
		if err != nil {
			s.note(r, err)
			continue
		}
		switch {
		case look.Mode().IsDir():
			s.matchBelow(look, r)
		case look.Mode().IsRegular():
			s.apply(look, file, r)
		}
		look.Close()
	}
}

// check adds a file, link or folder if the rule applies to it. The path has no links, except the last name. With a link
// its target is added too.
func (s *search) check(file string, r rule) {
	look, err := s.Root.Look(file, nodefile.FollowNone)
	if err != nil {
		s.note(r, err)
		return
	}
	defer look.Close()

	isLink := look.Mode()&fs.ModeSymlink != 0
	if isLink {
		s.checkTarget(file, r)
		if r.action != Delete || path.Base(file) == path.Base(machineID) {
			return
		}
	}
	s.apply(look, file, r)
}

// apply adds a file if the rule applies to it.
func (s *search) apply(look *nodefile.Look, file string, r rule) {
	why, err := r.apply(look)
	s.note(r, err)
	if why != "" && !s.seen[file] {
		s.seen[file] = true
		s.found.Leftovers = append(s.found.Leftovers, s.newLeftover(file, why, r))
	}
}

// newLeftover returns a leftover. A file on a mount that may not belong to the image is not removed.
func (s *search) newLeftover(file, why string, r rule) Leftover {
	l := Leftover{
		Path:   file,
		Check:  r.check,
		Why:    why,
		Action: r.action,
		Do:     r.do,
	}
	if place := s.mounts.findForeign(file); place != "" && l.Action.IsRemoved() {
		l.Action = ByHand
		l.Do = "a mount may show files from outside of the image: umount " + place + " and run the command again; " +
			"if it is a part of the image, remove the file yourself"
	}

	return l
}

// checkTarget checks the file that a link leads to.
func (s *search) checkTarget(link string, r rule) {
	target, err := s.Root.Look(link, nodefile.FollowAll)
	if err != nil {
		s.note(r, err)
		return
	}
	defer target.Close()

	if target.Mode().IsRegular() && target.Path() != link && target.Path() != machineID {
		s.check(target.Path(), r)
	}
}

// note keeps the error of a file that a rule could not examine; nil is none. A missing file, and a path through a file,
// are not errors.
func (s *search) note(r rule, err error) {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
	case errors.Is(err, nodefile.ErrNoProc):
		s.addUnread(r.check, nodefile.ErrNoProc) // once, not for each file
	default:
		s.addUnread(r.check, err)
	}
}

// addUnread adds an error unless the check has it already.
func (s *search) addUnread(check string, err error) {
	isKnown := func(u Unread) bool {
		return u.Check == check && u.Err.Error() == err.Error()
	}
	if !slices.ContainsFunc(s.found.Unread, isKnown) {
		s.found.Unread = append(s.found.Unread, Unread{check, err})
	}
}

// readText returns the text of a regular file, "" of any other.
func readText(look *nodefile.Look) (string, error) {
	if !look.Mode().IsRegular() {
		return "", nil
	}
	text, err := look.Read(maxText)

	return string(bytes.TrimSpace(text)), err
}

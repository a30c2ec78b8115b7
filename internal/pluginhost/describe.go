package pluginhost

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/world"
)

// Bounds on a description, beside its size.
const (
	maxListed = 256
	maxWords  = 4 << 10
)

// pciID is VENDOR:DEVICE or VENDOR:DEVICE:CLASS, as detector.v1 has it.
var pciID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{4}:([0-9a-f]{4}|\*)(:[0-9a-f]{2}([0-9a-f]{2})?)?$`)
})

// domain is one of DNS: labels of lower-case letters, digits and -.
var domain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
})

// CheckDescription refuses a description that breaks detector.v1, whoever it comes from: a detector, or the file that keeps
// what it said.
func CheckDescription(d world.Description) error {
	switch {
	case !world.IsName(d.Name, '-'):
		return fmt.Errorf("%q is no name of a detector: a lower-case letter, then letters, digits and -, at most 63", clip(d.Name))
	case d.Version == "" || len(d.Version) > 63 || !plain(d.Version):
		return errors.New("its version has no, or more than 63, or odd characters")
	case len(d.Vendor) > maxWords || len(d.Doc) > maxWords || !plain(d.Vendor):
		return errors.New("vendor or doc is too long, or holds control characters")
	case len(d.Config) > maxListed || len(d.Facts) > maxListed || len(d.LabelDomains) > maxListed:
		return fmt.Errorf("it declares more than %d attributes, facts or domains", maxListed)
	}
	for what, l := range map[string][]world.Attribute{"config": d.Config, "facts": d.Facts} {
		if err := (world.ValueType{Kind: world.ObjectKind, Attributes: l}).Check(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	for _, s := range d.LabelDomains {
		if !domain().MatchString(s) || len(s) > 253 {
			return fmt.Errorf("%q is no domain for labels", clip(s))
		}
	}
	for _, id := range d.Match.PCIIDs {
		if !pciID().MatchString(id) {
			return fmt.Errorf("match: %q is no PCI id; VENDOR:DEVICE or VENDOR:DEVICE:CLASS, in lower case", clip(id))
		}
	}
	if len(d.Match.PCIIDs) > maxListed {
		return fmt.Errorf("match: more than %d PCI ids", maxListed)
	}
	if len(d.Match.PCIIDs)+len(d.Match.Paths) == 0 && !d.Match.Always {
		return errors.New("match: it has nothing to do on any machine")
	}
	if err := checkPaths(d.Match.Paths); err != nil {
		return fmt.Errorf("match: %w", err)
	}
	for what, g := range map[string]world.Grants{"needs": d.Needs, "wants": d.Wants} {
		if err := CheckGrants(g); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// CheckGrants refuses what cannot be granted.
func CheckGrants(g world.Grants) error {
	for _, l := range [][]string{g.Devices, g.Read, g.Execute, g.Sockets} {
		if err := checkPaths(l); err != nil {
			return err
		}
	}
	for _, d := range g.Devices {
		if !strings.HasPrefix(d, "/dev/") {
			return fmt.Errorf("%q is no device file: those are in /dev", clip(d))
		}
	}
	for _, n := range g.Groups {
		if n == "" || len(n) > 32 || strings.ContainsAny(n, ":/ \t\n") {
			return fmt.Errorf("%q is no name of a group", clip(n))
		}
	}
	return nil
}

func checkPaths(l []string) error {
	if len(l) > maxListed {
		return fmt.Errorf("more than %d paths", maxListed)
	}
	for _, p := range l {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > maxWords || !plain(p) {
			return fmt.Errorf("%q is no absolute, plain path", clip(p))
		}
		if _, err := path.Match(p, "x"); err != nil || strings.ContainsAny(p, "?[\\") {
			return fmt.Errorf("%q: a pattern has * and no other wildcard", clip(p))
		}
	}
	return nil
}

// plain says that a text can be shown as it is: UTF-8 without control characters.
func plain(s string) bool {
	return !strings.ContainsFunc(s, control) && strings.ToValidUTF8(s, "") == s
}

func control(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xe000 || r == 0xe001 || r == 0x2028 || r == 0x2029
}

func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

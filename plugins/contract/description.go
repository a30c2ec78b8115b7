package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check says what is wrong with a description. The paths of its problems are those of its JSON.
func (d Description) Check() Problems {
	var c checker
	if !isName(d.Name) {
		c.add("name", fmt.Sprintf("%q is no name of a detector", d.Name), "Lower-case letters, digits and dashes, a letter first, at most %d.", MaxName)
	}
	if !isVersion(d.Version) {
		c.add("version", fmt.Sprintf("%q is no version", d.Version), "Letters, digits and . + - _ ~, at most %d, for instance 1.4.0.", MaxName)
	}
	c.text("vendor", d.Vendor)
	c.text("doc", d.Doc)
	c.attributes("config", d.Config, 0, true)
	c.attributes("facts", d.Facts, 0, false)
	c.count("label_domains", len(d.LabelDomains), MaxAsks)
	for i, domain := range d.LabelDomains {
		c.domain(element("label_domains", i), domain)
	}
	c.match(d.Match)
	c.needs("needs", d.Needs)
	c.needs("wants", d.Wants)
	return c.problems
}

// attributes checks declarations. Only a configuration has required ones and defaults.
func (c *checker) attributes(path string, list []Attribute, depth int, config bool) {
	c.count(path, len(list), MaxEntries)
	if depth >= MaxDepth {
		c.add(path, "nested too deep", "At most %d levels.", MaxDepth)
		return
	}
	seen := map[string]bool{}
	for i, a := range list {
		p := element(path, i)
		if !isAttribute(a.Name) {
			c.add(p+".name", fmt.Sprintf("%q is no name of an attribute", a.Name), "Lower-case letters, digits and underscores, a letter first, at most %d.", MaxName)
		}
		if seen[a.Name] {
			c.add(p+".name", fmt.Sprintf("%q is declared twice", a.Name), "")
		}
		seen[a.Name] = true
		c.text(p+".doc", a.Doc)
		c.text(p+".unit", a.Unit)
		c.typ(p+".type", a.Type, depth+1, config)
		scalar := a.Type
		for scalar.Element != nil && (scalar.Kind == List || scalar.Kind == Map) {
			scalar = *scalar.Element
		}
		if scalar.Kind == "" { // told already
			continue
		}
		if len(a.OneOf) > 0 && scalar.Kind != String {
			c.add(p+".one_of", "only strings can be one of some", "")
		}
		if (a.Minimum != nil || a.Maximum != nil || a.Unit != "") && scalar.Kind != Number {
			c.add(p, "only numbers have a minimum, a maximum or a unit", "")
		}
		c.count(p+".one_of", len(a.OneOf), MaxEntries)
		for j, s := range a.OneOf {
			c.text(element(p+".one_of", j), s)
		}
		c.texts(p+".default", a.Default)
		switch {
		case !config && (a.Required || a.Default != nil):
			c.add(p, "a fact is neither required nor has it a default", "What is not known is null.")
		case a.Required && a.Default != nil:
			c.add(p+".default", "required, and with a default", "One of the two.")
		case a.Default != nil && len(c.problems) == 0: // its type is known to be one
			inner := checker{}
			inner.value(p+".default", a, a.Default, true)
			c.problems = append(c.problems, inner.problems...)
		}
	}
}

func (c *checker) typ(path string, t Type, depth int, config bool) {
	if depth > MaxDepth {
		c.add(path, "nested too deep", "At most %d levels.", MaxDepth)
		return
	}
	switch t.Kind {
	case String, Number, Bool:
		if t.Element != nil || len(t.Attributes) > 0 {
			c.add(path, fmt.Sprintf("a %s holds nothing", t.Kind), "Leave element and attributes out.")
		}
	case List, Map:
		if t.Element == nil {
			c.add(path+".element", fmt.Sprintf("a %s of what?", t.Kind), "Name the type of its elements.")
			return
		}
		c.typ(path+".element", *t.Element, depth+1, config)
	case Object:
		c.attributes(path+".attributes", t.Attributes, depth, config)
	default:
		c.add(path+".kind", fmt.Sprintf("%q is no kind of type", t.Kind), "One of string, number, bool, list, map, object.")
	}
}

func (c *checker) match(m Match) {
	c.count("match.pci_ids", len(m.PCIIDs), MaxEntries)
	c.count("match.paths", len(m.Paths), MaxAsks)
	if !m.Always && len(m.PCIIDs)+len(m.Paths) == 0 {
		c.add("match", "nothing to match", "Without pci_ids, paths or always it would never be started.")
	}
	for i, id := range m.PCIIDs {
		if !isPCIID(id) {
			c.add(element("match.pci_ids", i), fmt.Sprintf("%q is no PCI id", id), "VENDOR:DEVICE or VENDOR:DEVICE:CLASS in lower-case hexadecimal digits, DEVICE may be *, CLASS has two or four: 10de:*:03.")
		}
	}
	for i, p := range m.Paths {
		at := element("match.paths", i)
		if c.path(at, p) && !isBounded(p) {
			c.add(at, fmt.Sprintf("%q would be looked for in too many places", p),
				"A path without *; or with at most %d, below %s.", MaxStars, strings.Join(PatternFolders(), ", "))
		}
	}
}

func (c *checker) needs(path string, n Needs) {
	for _, list := range []struct {
		name  string
		paths []string
	}{{"devices", n.Devices}, {"read", n.Read}, {"execute", n.Execute}, {"sockets", n.Sockets}} {
		c.count(path+"."+list.name, len(list.paths), MaxAsks)
		for i, p := range list.paths {
			at := element(path+"."+list.name, i)
			c.path(at, p)
			if list.name == "devices" && !strings.HasPrefix(p, "/dev/") {
				c.add(at, fmt.Sprintf("%q is no device", p), "A path below /dev.")
			}
		}
	}
	c.count(path+".groups", len(n.Groups), MaxAsks)
	for i, g := range n.Groups {
		if !isGroup(g) {
			c.add(element(path+".groups", i), fmt.Sprintf("%q is no name of a group", g), "")
		}
	}
}

// path wants what needs no interpretation: absolute, clean, and no wildcard but the star.
func (c *checker) path(at, p string) bool {
	clean := strings.HasPrefix(p, "/") && p != "/" && len(p) < MaxText && printable(p) && !strings.ContainsAny(p, "?[]{}\\")
	for part := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		clean = clean && part != "" && part != "." && part != ".."
	}
	if !clean {
		c.add(at, fmt.Sprintf("%q is no path that can be granted", p), "Absolute, without . .. or //; * is the only wildcard, and stands for any part of one name.")
	}

	return clean
}

func (c *checker) domain(at, d string) {
	if !isDomain(d) || !strings.Contains(d, ".") {
		c.add(at, fmt.Sprintf("%q is no domain", d), "A DNS name in lower case, for instance example.com.")
		return
	}
	for _, taken := range []string{"kubernetes.io", "k8s.io"} {
		if within(d, taken) {
			c.add(at, fmt.Sprintf("%s belongs to Kubernetes", d), "Recommend labels in a domain of your own.")
		}
	}
}

func (c *checker) text(at, s string) {
	if len(s) > MaxText || !printable(s) {
		c.add(at, "not a text of one line", "At most %d bytes of UTF-8, without control characters and such that nobody sees.", MaxText)
	}
}

// texts checks all strings in a value that people are shown.
func (c *checker) texts(at string, v any) {
	switch v := v.(type) {
	case string:
		c.text(at, v)
	case []any:
		for i, e := range v {
			c.texts(element(at, i), e)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			c.text(at, k)
			c.texts(key(at, shorten(k, MaxName)), v[k])
		}
	}
}

func (c *checker) count(at string, n, most int) {
	if n > most {
		c.add(at, "too many", "%d; at most %d.", n, most)
	}
}

// within tells whether a domain is another one or below it.
func within(domain, above string) bool {
	return domain == above || strings.HasSuffix(domain, "."+above)
}

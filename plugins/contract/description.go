package contract

import (
	"fmt"
	"slices"
	"strings"
)

// Check returns the problems of a description, with the paths of its JSON.
func (d Description) Check() Problems {
	var c checker
	c.form("name", "detector name", d.Name, IsDetectorName(d.Name),
		"Lower-case letters, digits and dashes, beginning with a letter.")
	c.form("version", "version", d.Version, matches(versionForm, d.Version),
		"Letters, digits and . + - _ ~, for example 1.4.0.")
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
	c.count("timeout_seconds", d.TimeoutSeconds, MaxSeconds)

	return c.problems
}

// attributes checks declarations. Only attributes of a configuration can be required or have a default.
func (c *checker) attributes(path string, list []Attribute, depth int, isConfig bool) {
	c.count(path, len(list), MaxEntries)
	if depth >= MaxDepth {
		c.add(path, "nested too deep", fmt.Sprintf("At most %d levels.", MaxDepth))
		return
	}

	seen := map[string]bool{}
	for i, a := range list {
		at := element(path, i)
		c.form(at+".name", "attribute name", a.Name, matches(attributeName, a.Name),
			"Lower-case letters, digits and underscores, beginning with a letter.")
		if seen[a.Name] {
			c.add(at+".name", fmt.Sprintf("duplicate attribute %q", a.Name), "")
		}
		seen[a.Name] = true

		c.text(at+".doc", a.Doc)
		c.text(at+".unit", a.Unit)
		c.attributeType(at+".type", a.Type, depth+1, isConfig)
		c.restrictions(at, a)
		c.texts(at+".default", a.Default)
		c.defaultValue(at, a, isConfig)
	}
}

// restrictions checks what an attribute says about its scalars. An invalid type is reported elsewhere.
func (c *checker) restrictions(path string, a Attribute) {
	scalar := a.Type
	for scalar.Element != nil && (scalar.Kind == List || scalar.Kind == Map) {
		scalar = *scalar.Element
	}

	hasBounds := a.Minimum != nil || a.Maximum != nil || a.Unit != ""
	if len(a.OneOf) > 0 && scalar.Kind != String && scalar.Kind != "" {
		c.add(path+".one_of", "one_of is for strings only", "")
	}
	if hasBounds && scalar.Kind != Number && scalar.Kind != "" {
		c.add(path, "minimum, maximum and unit are for numbers only", "")
	}
	c.textList(path+".one_of", a.OneOf, MaxEntries)
}

func (c *checker) defaultValue(path string, a Attribute, isConfig bool) {
	switch {
	case !isConfig && (a.Required || a.Default != nil):
		c.add(path, "a fact cannot be required or have a default", "A fact without a value is null.")
	case a.Required && a.Default != nil:
		c.add(path+".default", "a required attribute cannot have a default", "Remove one of the two.")
	case a.Default != nil && len(c.problems) == 0: // else its type may be invalid
		inner := checker{}
		inner.value(path+".default", a, a.Default, true)
		c.problems = append(c.problems, inner.problems...)
	}
}

func (c *checker) attributeType(path string, t Type, depth int, isConfig bool) {
	if depth > MaxDepth {
		c.add(path, "nested too deep", fmt.Sprintf("At most %d levels.", MaxDepth))
		return
	}

	switch t.Kind {
	case String, Number, Bool:
		if t.Element != nil || len(t.Attributes) > 0 {
			c.add(
				path,
				fmt.Sprintf("a %s has neither element nor attributes", t.Kind),
				"Remove them.",
			)
		}
	case List, Map:
		if t.Element == nil {
			c.add(path+".element", fmt.Sprintf("a %s needs the type of its elements", t.Kind), "")
			return
		}
		c.attributeType(path+".element", *t.Element, depth+1, isConfig)
	case Object:
		c.attributes(path+".attributes", t.Attributes, depth, isConfig)
	default:
		c.invalid(
			path+".kind",
			"kind of type",
			string(t.Kind),
			"Valid kinds: string, number, bool, list, map, object.",
		)
	}
}

func (c *checker) match(m Match) {
	c.count("match.pci_ids", len(m.PCIIDs), MaxEntries)
	c.count("match.paths", len(m.Paths), MaxAsks)
	if !m.Always && len(m.PCIIDs)+len(m.Paths) == 0 {
		c.add(
			"match",
			"nothing to match",
			"Without pci_ids, paths or always the detector would never be started.",
		)
	}

	for i, id := range m.PCIIDs {
		if !pciID().MatchString(id) {
			c.invalid(
				element("match.pci_ids", i),
				"PCI id",
				id,
				"VENDOR:DEVICE or VENDOR:DEVICE:CLASS in lower-case "+
					"hexadecimal digits. DEVICE may be *, CLASS has two or four digits, for example 10de:*:03.",
			)
		}
	}
	for i, p := range m.Paths {
		at := element("match.paths", i)
		if c.path(at, p) && !isCheapPattern(p) {
			folders := strings.Join(PatternFolders(), ", ")
			detail := fmt.Sprintf(
				"A path may have at most %d stars, and only below %s.",
				MaxStars,
				folders,
			)
			c.add(at, fmt.Sprintf("the pattern %q would be searched in too many places", p), detail)
		}
	}
}

func (c *checker) needs(path string, n Needs) {
	c.paths(path+".devices", n.Devices)
	c.paths(path+".read", n.Read)
	c.paths(path+".execute", n.Execute)
	c.paths(path+".sockets", n.Sockets)
	for i, p := range n.Devices {
		if !strings.HasPrefix(p, "/dev/") {
			c.invalid(element(path+".devices", i), "device", p, "A path below /dev.")
		}
	}

	c.count(path+".groups", len(n.Groups), MaxAsks)
	for i, g := range n.Groups {
		if len(g) > 32 || !groupName().MatchString(g) {
			c.invalid(element(path+".groups", i), "group name", g, "")
		}
	}
}

func (c *checker) paths(path string, list []string) {
	c.count(path, len(list), MaxAsks)
	for i, p := range list {
		c.path(element(path, i), p)
	}
}

// path checks a path that needs no interpretation: absolute, clean, and no wildcard other than the star.
func (c *checker) path(at, p string) bool {
	isValid := strings.HasPrefix(p, "/") && len(p) < MaxText && isPrintable(p) &&
		!strings.ContainsAny(p, `?[]{}\`)
	for part := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		if slices.Contains([]string{"", ".", ".."}, part) {
			isValid = false
		}
	}
	if !isValid {
		c.invalid(
			at,
			"path",
			p,
			"An absolute path below /, without . .. or //. The only wildcard is *, for any part of one name.",
		)
	}

	return isValid
}

func (c *checker) domain(at, d string) {
	if !isDomain(d) {
		c.invalid(at, "domain", d, "A DNS name in lower case, for example example.com.")
		return
	}
	if isBelowDomain(d, "kubernetes.io") || isBelowDomain(d, "k8s.io") {
		c.add(at, d+" belongs to Kubernetes", "Recommend labels in a domain of your own.")
	}
}

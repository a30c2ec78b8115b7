package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

type checker struct {
	problems Problems
	scalars  int // in the value that is checked
}

// add adds a problem, unless there are enough. Its texts are cut, because they may quote a whole answer.
func (c *checker) add(path, summary, detail string) {
	const limit = 500
	if len(c.problems) >= MaxNotes {
		return
	}
	summary = Shorten(summary, limit)
	detail = Shorten(detail, limit)
	c.problems = append(c.problems, Problem{path, summary, detail})
}

// invalid adds a problem with a value that has not the right form.
func (c *checker) invalid(path, what string, value any, detail string) {
	summary := fmt.Sprintf("invalid %s %v", what, value)
	if s, isText := value.(string); isText {
		summary = fmt.Sprintf("invalid %s %q", what, s)
	}
	c.add(path, summary, detail)
}

// count checks the length of a list.
func (c *checker) count(path string, n, limit int) {
	if n > limit {
		c.add(path, "too many", fmt.Sprintf("%d; at most %d.", n, limit))
	}
}

// form checks a name of at most MaxName bytes.
func (c *checker) form(path, what, value string, isValid bool, detail string) {
	if !isValid {
		detail = fmt.Sprintf("%s At most %d bytes.", detail, MaxName)
		c.invalid(path, what, value, detail)
	}
}

// text checks a text that people see.
func (c *checker) text(path, s string) {
	if len(s) > MaxText || !isPrintable(s) {
		detail := "At most %d bytes of UTF-8 on one line, without control and invisible characters."
		c.add(path, "not a printable text", fmt.Sprintf(detail, MaxText))
	}
}

// texts checks all strings in a value that people see.
func (c *checker) texts(path string, v any) {
	switch v := v.(type) {
	case string:
		c.text(path, v)
	case []any:
		for i, e := range v {
			c.texts(element(path, i), e)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			c.text(path, k)
			c.texts(key(path, Shorten(k, MaxName)), v[k])
		}
	}
}

// textList checks a list of texts that people see.
func (c *checker) textList(path string, list []string, limit int) {
	c.count(path, len(list), limit)
	for i, s := range list {
		c.text(element(path, i), s)
	}
}

// isDomain reports whether a text is a DNS name with at least two parts.
func isDomain(s string) bool { return len(s) <= 253 && domainName().MatchString(s) }

// isBelowDomain reports whether a domain is another one or below it.
func isBelowDomain(domain, above string) bool {
	return domain == above || strings.HasSuffix(domain, "."+above)
}

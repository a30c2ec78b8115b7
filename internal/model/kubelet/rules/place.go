package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// value is the value at a place: of a field as it is set, or of a flag.
type value struct {
	*checker

	path []string // of a flag: its name with dashes
	raw  any      // nil: not set
}

// places returns the places that a text names, which spaces separate: logging.format is a field, even if it is not set;
// clusterDNS.* are the elements of a list or the members of an object; --node-ip is a flag if it is given, and --* is
// every flag.
func (c *checker) places(where string) (paths [][]string) {
	for _, place := range strings.Fields(where) {
		name, isFlag := strings.CutPrefix(place, "--")
		if !isFlag {
			paths = append(paths, c.expandStars(strings.Split(place, "."))...)
			continue
		}
		for given := range c.given {
			if name == "*" || name == given {
				paths = append(paths, []string{"--" + given})
			}
		}
	}

	return paths
}

// expandStars replaces each * of a path with the names of members, or the indices of elements. An element that must be
// a text by the tables and is not is left out: config-wrong-type reports it.
func (c *checker) expandStars(path []string) (paths [][]string) {
	star := slices.Index(path, "*")
	if star < 0 {
		return [][]string{path}
	}

	outer, inner := path[:star], path[star+1:]
	field, _ := known.FieldAt(strings.Join(outer, "."), c.minor)
	container := dig(c.config, outer...)
	for _, name := range namesIn(container) {
		member := dig(container, name)
		_, isText := member.(string)
		if isText || member == nil || memberType(field.Type) != known.String {
			paths = append(paths, c.expandStars(slices.Concat(outer, []string{name}, inner))...)
		}
	}

	return paths
}

// namesIn returns the sorted names of an object's members, or the indices of a list.
func namesIn(container any) (names []string) {
	switch v := container.(type) {
	case map[string]any:
		return sortedKeys(v)
	case []any:
		for i := range v {
			names = append(names, strconv.Itoa(i))
		}
	}

	return names
}

// dig returns the value at a path through objects and lists, nil if there is none.
func dig(outer any, path ...string) any {
	for _, name := range path {
		outer, _ = kubelet.Member(outer, name)
	}

	return outer
}

func (v value) key() string { return v.path[len(v.path)-1] }

func (v value) index() int {
	i, _ := strconv.Atoi(v.key())

	return i
}

// text and the following return a value if it has the right type. The rule config-wrong-type reports others. The
// kubelet reads null as an empty text.
func (v value) text() string {
	text, _ := v.raw.(string)

	return text
}

func (v value) number() (int64, bool) { return parseNumber(v.raw) }

func (v value) duration() (time.Duration, bool) {
	d, err := time.ParseDuration(v.text())

	return d, err == nil
}

// amount parses a text or a number as resource.Quantity.UnmarshalJSON does.
func (v value) amount() (resource.Quantity, error) {
	return kubelet.ParseQuantity(strings.TrimSpace(fmt.Sprint(v.raw)))
}

// fails reports whether there is an error, which is {why}.
func (v value) fails(err error) bool {
	return err != nil && v.because("", "%s", err)
}

// because sets {why}, in which names in braces are replaced too, and the hint unless it is empty. It returns true.
func (v value) because(hint, format string, args ...any) bool {
	v.hint = hint
	v.why = v.expand(fmt.Sprintf(format, args...))

	return true
}

// expand replaces the names in braces of a message or hint. {field} is the full name of the place, {key} its last part,
// {value} its value, and {why} is set by the condition.
func (v value) expand(text string) string {
	field := strings.Join(v.path, ".")
	printed := ""
	if v.raw != nil {
		printed = fmt.Sprint(v.raw)
	}

	return strings.NewReplacer("{value}", printed, "{field}", field, "{key}", v.key(), "{why}", v.why,
		"{kubelet}", v.describeKubelet()).Replace(text)
}

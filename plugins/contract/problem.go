package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is an error at a place in a description, a configuration or an answer.
type Problem struct {
	Path    string `json:"path,omitempty"`   // firmware.minimum, ports[1].speed, limits["gpu"]; empty for the whole
	Summary string `json:"summary"`          // the error, one sentence
	Detail  string `json:"detail,omitempty"` // why, and what to write instead
}

// Error implements error.
func (p Problem) Error() string {
	s := strings.TrimSuffix(p.Summary, ".")
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Detail != "" {
		s += ". " + p.Detail
	}

	return s
}

// Problems is an error with one line for each problem.
type Problems []Problem

// Error implements error.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}

	return strings.Join(lines, "\n")
}

// Err returns ps as an error, or nil if it is empty.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}

	return ps
}

// Step is one step of a problem's path. Exactly one field is set.
type Step struct {
	Name  string // of an attribute
	Key   *string
	Index *int
}

// pathStep is the beginning of the rest of a path: .NAME, [INDEX] or ["KEY"].
var pathStep = newForm(`^(?:\.([^.\[]+)|\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\])`)

// ParsePath returns the steps of a problem's path, to find the place in a site's file. The empty path has no steps.
func ParsePath(path string) ([]Step, error) {
	var steps []Step
	rest := path
	if path != "" && path[0] != '[' {
		rest = "." + path
	}

	for rest != "" {
		found := pathStep().FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf("invalid path %q: want NAME, [INDEX] or [\"KEY\"] at %q", path, rest)
		}

		step := Step{Name: found[1]}
		var err error
		switch {
		case found[2] != "":
			step.Index = new(int)
			*step.Index, err = strconv.Atoi(found[2])
		case found[3] != "":
			step.Key = new(string)
			*step.Key, err = strconv.Unquote(found[3])
		}
		if err != nil {
			return nil, fmt.Errorf("invalid path %q: %w", path, err)
		}
		steps = append(steps, step)
		rest = rest[len(found[0]):]
	}

	return steps, nil
}

// attribute returns the path of an attribute. A name with special characters, of an answer that ignores its
// description, is written as a key.
func attribute(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, `.[]"`):
		return key(path, name)
	case path == "":
		return name
	}

	return path + "." + name
}

func key(path, k string) string {
	return path + "[" + strconv.Quote(k) + "]"
}
func element(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// nearest returns the valid name that was probably meant, as a sentence, or nothing.
func nearest(name string, valid []string) string {
	if len(name) > 2*MaxName { // the distance takes time by its length
		return ""
	}

	best := ""
	limit := max(2, len(name)/3)
	for _, n := range slices.Sorted(slices.Values(valid)) {
		if len(name)-len(n) > limit {
			continue
		}
		if d := distance(name, n); d <= limit {
			best = n
			limit = d - 1
		}
	}
	if best == "" {
		return ""
	}

	return fmt.Sprintf("Did you mean %q?", best)
}

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}

	return row[len(b)]
}

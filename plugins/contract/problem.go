package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong, and where.
type Problem struct {
	Path    string `json:"path,omitempty"`   // firmware.minimum, ports[1].speed, limits["gpu"]; empty: the whole
	Summary string `json:"summary"`          // what is wrong, a sentence
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

// Problems is an error of one line a problem.
type Problems []Problem

// Error implements error.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns ps, or nil if there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Step is one step of a problem's path: an attribute's name, a key of a map, or an index of a list.
type Step struct {
	Name  string // an attribute
	Key   *string
	Index *int
}

// ParsePath reads a problem's path, so that the place can be found in the file of a site. The empty path has no steps.
func ParsePath(path string) ([]Step, error) {
	var out []Step
	rest := path
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "[\""):
			quoted, err := strconv.QuotedPrefix(rest[1:])
			if err != nil || !strings.HasPrefix(rest[1+len(quoted):], "]") {
				return nil, fmt.Errorf("path %q: a key that does not end", path)
			}
			key, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("path %q: key %s: %w", path, quoted, err)
			}
			out, rest = append(out, Step{Key: &key}), rest[len(quoted)+2:]
		case rest[0] == '[':
			digits, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(digits)
			if !ok || err != nil || n < 0 {
				return nil, fmt.Errorf("path %q: %q is no index", path, digits)
			}
			out, rest = append(out, Step{Index: &n}), after
		default:
			if len(out) > 0 {
				if rest[0] != '.' {
					return nil, fmt.Errorf("path %q: want a dot before %q", path, rest)
				}
				rest = rest[1:]
			}
			n := strings.IndexAny(rest, ".[")
			if n < 0 {
				n = len(rest)
			}
			if n == 0 {
				return nil, fmt.Errorf("path %q: an empty name", path)
			}
			out, rest = append(out, Step{Name: rest[:n]}), rest[n:]
		}
	}
	return out, nil
}

// JoinPath writes steps as a path.
func JoinPath(steps ...Step) string {
	var b strings.Builder
	for _, s := range steps {
		switch {
		case s.Key != nil:
			b.WriteString("[" + strconv.Quote(*s.Key) + "]")
		case s.Index != nil:
			b.WriteString("[" + strconv.Itoa(*s.Index) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Name)
		}
	}
	return b.String()
}

func attribute(path, name string) string {
	if strings.ContainsAny(name, ".[]\"") || name == "" { // of who does not read the description
		return key(path, name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func key(path, k string) string         { return path + "[" + strconv.Quote(k) + "]" }
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// nearest returns what of the names was probably meant, as a sentence to append, or nothing.
func nearest(name string, names []string) string {
	if len(name) > 2*MaxName { // it takes time by its length
		return ""
	}
	best, at := "", max(2, len(name)/3)+1
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := distance(name, n); d < at {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("Did you mean %q?", best)
}

// distance is Levenshtein's, by bytes.
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

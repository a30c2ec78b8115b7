package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/reference"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
)

// namesFile lists the names that users of a version may rely on, one on each line.
const namesFile = "names.txt"

// TestNames fails if a name that users of a released version may rely on is missing, or means something else.
func TestNames(t *testing.T) {
	now := listNames(t)
	if *update && inProgress != "" {
		writeFile(t, filepath.Join(stabilityDir, inProgress, namesFile), []byte(strings.Join(now, "\n")+"\n"))
	}

	versions, err := os.ReadDir(stabilityDir)
	must(t, err)
	for _, v := range versions {
		text, err := os.ReadFile(filepath.Join(stabilityDir, v.Name(), namesFile))
		must(t, err)

		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if !slices.ContainsFunc(now, func(name string) bool { return isKept(line, name) }) {
				t.Errorf("version %s has %q, and this one does not; want it kept, because sites and programs use it",
					v.Name(), line)
			}
		}
	}
}

// isKept reports whether a name of this version is one of an earlier version. An argument that took any type may have
// the one that its stage took: others were refused there.
func isKept(before, now string) bool {
	start, end, isAny := strings.Cut(before, " type=dynamic")
	if !isAny {
		return before == now
	}
	rest, hasStart := strings.CutPrefix(now, start)
	isTyped := rest == end || strings.HasPrefix(rest, " type=") // a list has its type in an object

	return hasStart && isTyped && strings.HasSuffix(rest, end)
}

// listNames returns the sorted names of this version: of blocks, arguments with type and default, outputs, functions and
// facts; codes with their exit status; annotations.
func listNames(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(reference.Describe(reference.Collect()))
	must(t, err)
	var document map[string]any
	must(t, json.Unmarshal(text, &document))

	var names []string
	for kind, value := range document {
		names = append(names, nameEach(kind, value)...)
	}
	for _, c := range fault.Codes() {
		names = append(names, fmt.Sprintf("code %s exit=%d", c, c.Exit()))
	}
	for _, s := range fault.ExitStatuses() {
		names = append(names, fmt.Sprintf("exit %d", s.Status))
	}
	for _, a := range []string{annotation.Generation, annotation.Plan, annotation.Revision, annotation.Degraded} {
		names = append(names, "annotation "+a)
	}
	slices.Sort(names)

	return names
}

// nameEach returns a line for each named object in a part of the language's JSON.
func nameEach(prefix string, value any) []string {
	switch v := value.(type) {
	case []any:
		var names []string
		for _, element := range v {
			names = append(names, nameEach(prefix, element)...)
		}
		return names

	case map[string]any:
		name := findName(v)
		if name == "" {
			return nil
		}

		line := prefix + " " + name
		names := []string{line + describeArgument(v)}
		for key, child := range v {
			names = append(names, nameEach(line+" "+key, child)...)
		}
		return names
	}

	return nil
}

// findName returns what an object of the language's JSON is called.
func findName(object map[string]any) string {
	for _, key := range []string{"name", "path", "type"} {
		if name, ok := object[key].(string); ok {
			return name
		}
	}

	return ""
}

// describeArgument returns what must stay the same of an argument, besides its name. A type with attributes may get more
// of them, so only simple types are listed.
func describeArgument(object map[string]any) string {
	var b strings.Builder
	for _, key := range []string{"type", "default", "required"} {
		value, ok := object[key]
		if _, isSimple := value.(string); key == "type" && !isSimple {
			continue
		}
		if ok {
			fmt.Fprintf(&b, " %s=%v", key, value)
		}
	}

	return b.String()
}

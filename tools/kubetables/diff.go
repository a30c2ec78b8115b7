package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// judged has the folders with the kubelet's validation, defaults and flags. Files that a rule names are added.
var judged = []string{
	"cmd/kubelet/app",
	"cmd/kubelet/app/options",
	"pkg/kubelet/apis/config/v1beta1",
	"pkg/kubelet/apis/config/validation",
}

// rule is a rule of internal/model/kubelet/rules/rules.txt.
type rule struct {
	id     string
	names  string // its lines that may name flags, fields and gates
	source string // "FILE, FUNCTION; FOLDER"
}

func readRules(name string) (rules []rule, err error) {
	text, err := os.ReadFile(name)
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n       ", " "), "\n\n") {
		head, body, _ := strings.Cut(paragraph, "\n")
		id, _, isRule := strings.Cut(head, ": ")
		if !isRule || strings.HasPrefix(id, "#") {
			continue
		}
		r := rule{id: id}
		for line := range strings.Lines(body) {
			if source, isSource := strings.CutPrefix(line, "source "); isSource {
				r.source = strings.TrimSpace(source)
			} else {
				r.names += line
			}
		}
		rules = append(rules, r)
	}

	return rules, err
}

func (r rule) isFrom(file, function string) bool {
	for place := range strings.SplitSeq(r.source, "; ") {
		at, name, _ := strings.Cut(place, ", ")
		isFile := file == at || strings.HasPrefix(file, at+"/")
		if isFile && (name == "" || name == function) {
			return true
		}
	}

	return false
}

// hasName reports whether the rule has a name in its places, conditions or messages.
func (r rule) hasName(name string) bool {
	return regexp.MustCompile(`(?:^|[^\w.-])` + regexp.QuoteMeta(name) + `(?:[^\w-]|$)`).MatchString(r.names)
}

// namePattern finds the fields at the places of rules, by their last name.
var namePattern = regexp.MustCompile(`(?m)^(?:at|place) .*?(\w{4,})$`)

// isIn reports whether changed lines of Go have the last name of a field of the rule.
func (r rule) isIn(lines string) bool {
	for _, match := range namePattern.FindAllStringSubmatch(r.names, -1) {
		if strings.Contains(strings.ToLower(lines), strings.ToLower(match[1])) {
			return true
		}
	}

	return false
}

// differ compares two releases.
type differ struct {
	out      io.Writer
	old, new *source
	rules    []rule
	count    int // of changes
}

// diff prints what differs between two releases that were read: flags, fields with defaults and gates, then functions,
// variables and constants, each with the rules to judge again.
func (d *differ) diff() error {
	for _, name := range sortedUnion(d.old.states, d.new.states) {
		before, after := d.old.states[name], d.new.states[name]
		if before == after {
			continue
		}
		kind, item, _ := strings.Cut(name, "\t")
		if kind == "flag" {
			item = "--" + item
		}
		d.print(fmt.Sprintf("%s %s: %s → %s\n", kind, item, cmp.Or(before, "-"), cmp.Or(after, "-")),
			d.filter(func(r rule) bool { return r.hasName(item) }))
	}

	before, err := d.declarations(d.old)
	after, errNew := d.declarations(d.new)
	for _, name := range sortedUnion(before, after) {
		if before[name] != after[name] {
			d.printCode(name, before[name], after[name])
		}
	}
	if d.count == 0 {
		fmt.Fprintln(d.out, "nothing to judge")
	}

	return errors.Join(err, errNew)
}

func sortedUnion(a, b map[string]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)

	return slices.Sorted(maps.Keys(all))
}

// filter returns the ids of the rules that a function selects.
func (d *differ) filter(isSelected func(rule) bool) (ids []string) {
	for _, r := range d.rules {
		if isSelected(r) {
			ids = append(ids, r.id)
		}
	}

	return ids
}

// maxRules and maxLines bound the output for one change.
const (
	maxRules = 8
	maxLines = 40
)

// print prints a change, and its rules.
func (d *differ) print(text string, ids []string) {
	d.count++
	rules := "    rules: " + strings.Join(ids, ", ") + "\n"
	switch {
	case len(ids) == 0:
		rules = ""
	case len(ids) > maxRules:
		rules = fmt.Sprintf("    %d rules were read there\n", len(ids))
	}
	fmt.Fprint(d.out, text, rules)
}

// printCode prints the lines that differ in a declaration, with the rules that were read there. If some of these have
// a field of these lines, only those are printed. Outside of the judged folders it needs a rule.
func (d *differ) printCode(name, before, after string) {
	lines := append(listOthers("    - ", before, after), listOthers("    + ", after, before)...)
	changed := strings.Join(lines, "")
	file, function, _ := strings.Cut(name, ": ")
	isFrom := func(r rule) bool { return r.isFrom(file, function) }
	ids := d.filter(func(r rule) bool { return isFrom(r) && r.isIn(changed) })
	if ids == nil {
		ids = d.filter(isFrom)
	}
	if changed == "" || ids == nil && !slices.Contains(judged, path.Dir(file)) {
		return
	}

	if more := len(lines) - maxLines; more > 0 {
		lines = append(lines[:maxLines], fmt.Sprintf("    … %d more lines\n", more))
	}

	verb := "changed"
	switch {
	case before == "":
		verb = "added"
	case after == "":
		verb = "removed"
	}
	d.print(name+" "+verb+"\n"+strings.Join(lines, ""), ids)
}

// plumbing matches the parts of a line that may differ without another meaning: loggers, contexts, space.
var plumbing = regexp.MustCompile(`\b(?:logger klog\.Logger|ctx context\.Context|logger|ctx)\b(?:, )?|\s+`)

// listOthers returns the lines of a text that another text does not have, without braces and log messages.
func listOthers(sign, text, other string) (lines []string) {
	left := map[string]int{}
	for line := range strings.Lines(other) {
		left[plumbing.ReplaceAllString(line, "")]++
	}
	for line := range strings.Lines(text) {
		short := plumbing.ReplaceAllString(line, "")
		left[short]--
		isLog := strings.HasPrefix(short, ".") || strings.Contains(line, "klog.")
		if left[short] < 0 && strings.Trim(short, "{}()") != "" && !isLog {
			lines = append(lines, sign+strings.TrimSpace(line)+"\n")
		}
	}

	return lines
}

// declarations returns the functions, variables and constants of the judged files as text without comments, by
// "FILE: NAME".
func (d *differ) declarations(s *source) (map[string]string, error) {
	places := slices.Clone(judged)
	for _, r := range d.rules {
		for place := range strings.SplitSeq(r.source, "; ") {
			at, _, _ := strings.Cut(place, ", ")
			places = append(places, at)
		}
	}
	slices.Sort(places)

	found := map[string]string{}
	var errs error
	for _, at := range slices.Compact(places) {
		root := filepath.Join(s.gopath, "src")
		if !strings.HasPrefix(at, "k8s.io/") {
			root = filepath.Join(root, kubernetes)
		}
		files, err := fs.Glob(os.DirFS(root), path.Join(at, "*.go"))
		if path.Ext(at) == ".go" {
			files, err = fs.Glob(os.DirFS(root), at)
		}
		errs = errors.Join(errs, err)
		for _, file := range files {
			errs = errors.Join(errs, addDeclarations(found, root, file))
		}
	}

	return found, errs
}

// otherFiles matches files that are not of a kubelet on Linux, and generated ones.
var otherFiles = regexp.MustCompile(`(_test|_windows|_others|_unsupported|/zz_generated.*)\.go$`)

func addDeclarations(found map[string]string, root, file string) error {
	if otherFiles.MatchString(file) {
		return nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}

	add := func(name string, node ast.Node) {
		var text strings.Builder
		err = errors.Join(err, format.Node(&text, set, node))
		found[file+": "+name] = text.String()
	}
	for _, declaration := range parsed.Decls {
		switch declared := declaration.(type) {
		case *ast.FuncDecl:
			name := declared.Name.Name
			if declared.Recv != nil {
				name = "(" + types.ExprString(declared.Recv.List[0].Type) + ") " + name
			}
			add(name, declared)
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				if value, isValue := spec.(*ast.ValueSpec); isValue {
					add(value.Names[0].Name, value)
				}
			}
		}
	}

	return err
}

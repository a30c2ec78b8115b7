package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/testing/script"
)

// facts are what scripts see of the node.
func (n *scriptNode) facts(disk script.Disk) map[string]script.Fact {
	facts := script.Merge(disk.Facts(), map[string]script.Fact{
		"json":    {Args: 2, Get: n.json},
		"times":   {Args: 2, Get: n.times},
		"blob":    {Args: 2, Get: func(a []string) (string, error) { return n.blob(n.Number(a[0], 10), a[1]), nil }},
		"kept":    {Args: 2, Get: n.kept},
		"litter":  {Get: n.litter},
		"logged":  {Get: n.logged},
		"unit":    {Args: 2, Get: n.property},
		"object":  {Args: 1, Get: n.nodeObject},
		"patched": {Args: 1, Get: n.patched},
	})
	for name := range n.state() {
		facts[name] = script.Fact{Get: func([]string) (string, error) { return fmt.Sprint(n.state()[name]), nil }}
	}

	return facts
}

// state is the facts that are there without a search.
func (n *scriptNode) state() map[string]any {
	return map[string]any{
		"out":        n.last.out,
		"err":        n.last.errors,
		"took":       n.now - n.began,
		"verified":   strings.Replace(fmt.Sprint(n.verify.exit), "-1", "none", 1),
		"verify-out": n.verify.out,
		"verify-err": n.verify.errors,
		"identity":   cmp.Or(n.node(), "none"),
		"gate":       cmp.Or(generations(n.gateSays()), "shut"),
		"started-on": cmp.Or(generations(n.starts...), "none"),
		"starts":     len(n.starts) - n.before.starts,
		"flags":      strings.Join(n.args, " "),
		"acts":       cmp.Or(strings.Join(n.acts, ", "), "none"),
		"asked":      n.asked,
		"notified":   n.status,
		"extended":   n.longestExtension() > 0 && n.longestExtension() >= n.now-n.began,
		"console":    endLines(n.console),
		"requests":   len(n.server.Requests()) - n.before.requests,
		"authorized": n.server.Authorizations(),
	}
}

// generations returns those that the gate was open on.
func generations(gates ...string) string {
	return strings.ReplaceAll(strings.Join(gates, " "), "PRELET_GENERATION=", "")
}

// endLines returns texts with a new line after each.
func endLines(texts []string) (all string) {
	for _, text := range texts {
		all += text + "\n"
	}

	return all
}

// source returns the text of a fact without arguments, or of a file.
func (n *scriptNode) source(name string) (string, error) {
	if fact, isFact := n.Facts[name]; isFact && fact.Args == 0 {
		return fact.Get(nil)
	}
	text, err := os.ReadFile(n.path(name))

	return string(text), err
}

// json FILE|FACT PATH: a place of a JSON document.
func (n *scriptNode) json(a []string) (string, error) {
	text, err := n.source(a[0])
	if err != nil {
		return "", err
	}
	doc, err := parseDocument(text)
	if err != nil {
		return "", err
	}

	return textAt(doc, a[1]), nil
}

// textAt returns a place of a document as its text or JSON, or absent.
func textAt(doc any, path string) string {
	value, isFound := lookUp(doc, path)
	if text, isText := value.(string); isText {
		return text
	}
	if !isFound {
		return "absent"
	}

	return string(must(json.Marshal(value)))
}

// times FILE|FACT EXPRESSION: how often a regular expression matches.
func (n *scriptNode) times(a []string) (string, error) {
	text, err := n.source(a[0])

	return fmt.Sprint(len(regexp.MustCompile("(?m)"+a[1]).FindAllString(text, -1))), err
}

// kept FOLDER FILE: whether a file in the folder contains the text of the file.
func (n *scriptNode) kept(a []string) (string, error) {
	text, err := os.ReadFile(n.path(a[1]))
	if err != nil {
		return "", err
	}

	found, err := isKept(n.path(a[0]), text)

	return fmt.Sprint(found), err
}

// litter is the files that a publication has left, or none.
func (n *scriptNode) litter([]string) (string, error) {
	var names []string
	err := filepath.WalkDir(n.root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".prelet-") {
			names = append(names, strings.TrimPrefix(path, n.root))
		}
		return err
	})

	return cmp.Or(strings.Join(names, " "), "none"), err
}

// unit NAME FIELD: a field of activation.Unit. unit NAME runs: whether it is active, or a job starts it.
func (n *scriptNode) property(a []string) (string, error) {
	unit := n.unit(a[0])
	if a[1] != "runs" {
		return fmt.Sprint(reflect.ValueOf(unit).Elem().FieldByName(a[1]).Interface()), nil
	}

	return fmt.Sprint(unit.Active == "active" || unit.Job != 0), nil
}

// logged is the journal of systemd: a line for each entry, with its message and its fields as KEY=VALUE.
func (n *scriptNode) logged([]string) (string, error) {
	var out []string
	for _, entry := range n.entries("") {
		line := entry["MESSAGE"]
		delete(entry, "MESSAGE")
		for _, key := range slices.Sorted(maps.Keys(entry)) {
			line += " " + key + "=" + entry[key]
		}
		out = append(out, strings.Join(strings.Fields(line), " "))
	}

	return endLines(out), nil
}

// object PATH: a place of the Node.
func (n *scriptNode) nodeObject(a []string) (string, error) {
	taints := []string{}
	for _, t := range n.taints {
		taints = append(taints, t.String())
	}
	doc, err := parseDocument(string(must(json.Marshal(map[string]any{
		"labels": n.labels, "taints": taints, "annotations": n.annotations, "conditions": n.conditions,
	}))))

	return textAt(doc, a[0]), err
}

// patched taints|conditions|annotations|labels|events: what was sent since the last look at it, or none.
func (n *scriptNode) patched(a []string) (string, error) {
	sent := n.sent[a[0]]
	delete(n.sent, a[0])
	if len(sent) == 0 {
		return "none", nil
	}

	return strings.Join(sent, "\n"), nil
}

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
	text := func(get func() string) script.Fact {
		return script.Fact{Get: func([]string) (string, error) { return get(), nil }}
	}
	number := func(get func() int) script.Fact { return text(func() string { return fmt.Sprint(get()) }) }

	return map[string]script.Fact{
		// Of the last command, and of prelet-verify.service of the last boot.
		"out":        text(func() string { return n.last.out }),
		"err":        text(func() string { return n.last.errors }),
		"took":       text(func() string { return (n.now - n.began).String() }),
		"verified":   text(func() string { return strings.Replace(fmt.Sprint(n.verify.exit), "-1", "none", 1) }),
		"verify-out": text(func() string { return n.verify.out }),
		"verify-err": text(func() string { return n.verify.errors }),

		"file":  {Args: 1, Get: n.readFile(disk.Facts()["file"].Get)},
		"json":  {Args: 2, Get: n.json},
		"times": {Args: 2, Get: n.times},
		"blob":  {Args: 2, Get: func(a []string) (string, error) { return n.blob(n.Number(a[0], 10), a[1]), nil }},
		"kept":  {Args: 2, Get: n.kept},

		"litter":   {Get: n.litter},
		"identity": text(func() string { return cmp.Or(n.node(), "none") }),

		"gate":       text(func() string { return cmp.Or(strings.TrimPrefix(n.gateSays(), gateKey), "shut") }),
		"started-on": text(n.startedOn),
		"starts":     number(func() int { return len(n.starts) - n.before.starts }),
		"flags":      text(func() string { return strings.Join(n.args, " ") }),
		"unit":       {Args: 2, Get: n.property},
		"acts":       text(n.requested),
		"asked":      number(func() int { return n.asked }),
		"notified":   text(func() string { return n.status.String() }),
		"extended":   text(n.isExtended),
		"console":    text(func() string { return lines(n.console) }),
		"logged":     {Get: n.logged},

		"requests":   number(func() int { return len(n.server.Requests()) - n.before.requests }),
		"authorized": number(n.server.Authorizations),
		"object":     {Args: 1, Get: n.nodeObject},
		"patched":    {Args: 1, Get: n.patched},
	}
}

const gateKey = "PRELET_GENERATION="

// lines returns texts with a new line after each.
func lines(texts []string) (all string) {
	for _, text := range texts {
		all += text + "\n"
	}

	return all
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}

	return "no"
}

// readFile refuses that a script finds a text missing from a file that is absent.
func (n *scriptNode) readFile(read func([]string) (string, error)) func([]string) (string, error) {
	return func(a []string) (string, error) {
		text, err := read(a)
		if text == "absent" && n.Line.Not && n.Line.Words[0] != "is" {
			return "", fmt.Errorf("%s is absent", a[0])
		}

		return text, err
	}
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

	return yesOrNo(found), err
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

// startedOn is the generations on which the kubelet has started since the reboot, or none.
func (n *scriptNode) startedOn() string {
	var gens []string
	for _, start := range n.starts {
		gens = append(gens, strings.TrimPrefix(start, gateKey))
	}

	return cmp.Or(strings.Join(gens, " "), "none")
}

// unit NAME FIELD: a field of activation.Unit. unit NAME runs: whether it is active, or a job starts it.
func (n *scriptNode) property(a []string) (string, error) {
	unit := n.unit(a[0])
	if a[1] != "runs" {
		return fmt.Sprint(reflect.ValueOf(unit).Elem().FieldByName(a[1]).Interface()), nil
	}

	return yesOrNo(unit.Active == "active" || unit.Job != 0), nil
}

// requested is the starts that were requested of systemd, or none.
func (n *scriptNode) requested() string {
	var acts []string
	for _, unit := range n.wanted {
		acts = append(acts, "start "+unit)
	}

	return cmp.Or(strings.Join(acts, " "), "none")
}

// isExtended reports whether systemd was asked for the time that the last command took, before it took it.
func (n *scriptNode) isExtended() string {
	if len(n.extend) > 0 && slices.Max(n.extend) >= n.now-n.began {
		return "yes"
	}

	return fmt.Sprintf("asked for %s, took %s", n.extend, n.now-n.began)
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

	return lines(out), nil
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

	return strings.Join(sent, ", "), nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/hardware"
	"github.com/prelet/prelet/internal/testing/canary"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/script"
)

// targets are the files below the root that are not prelet's own.
func targets(ts *testscript.TestScript) map[string]osfile.Inode {
	disk, err := osfile.Look(ts.MkAbs("root"))
	ts.Check(err)
	return withoutOwn(disk)
}

func cmdSnapshot(ts *testscript.TestScript, _ bool, _ []string) { of(ts).before = targets(ts) }

// same: the targets are as `snapshot` saw them. `! same`: they are not.
func cmdSame(ts *testscript.TestScript, neg bool, _ []string) {
	if d := cmp.Diff(of(ts).before, targets(ts)); (d == "") == neg {
		ts.Fatalf("targets (-before +after), want changes: %t\n%s", neg, d)
	}
}

// tells REGEXP: a paragraph of stderr, with its lines joined, matches. With `!`, no paragraph does.
func cmdTells(ts *testscript.TestScript, neg bool, args []string) {
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	found := false
	for _, p := range strings.Split(ts.ReadFile("stderr"), "\n\n") {
		found = found || re.MatchString(strings.Join(strings.Fields(p), " "))
	}
	if found == neg {
		ts.Fatalf("match of %s in stderr: %t", args[0], found)
	}
}

// out TEXT: stdout contains the text, wherever its lines are broken.
func cmdOut(ts *testscript.TestScript, neg bool, args []string) { wantText(ts, neg, "stdout", args[0]) }

// err TEXT: the same of stderr.
func cmdErr(ts *testscript.TestScript, neg bool, args []string) { wantText(ts, neg, "stderr", args[0]) }

func wantText(ts *testscript.TestScript, neg bool, stream, text string) {
	if script.Mentions(ts.ReadFile(stream), text) == neg {
		ts.Fatalf("%s contains %q: got %t, want %t", stream, text, neg, !neg)
	}
}

// document is stdout as the one JSON document that it must be.
func document(ts *testscript.TestScript) map[string]any { return readDocument(ts, "stdout") }

func readDocument(ts *testscript.TestScript, file string) map[string]any {
	doc, err := parseDocument(ts.ReadFile(file))
	if err != nil {
		ts.Fatalf("%s: %v", file, err)
	}
	return doc
}

// parseDocument returns the one JSON document that a text must be.
func parseDocument(text string) (doc map[string]any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("got %w, want a JSON document: %.200q", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("got more after the JSON document, want its end: %.200q", text)
	}
	return doc, nil
}

// lookUp returns a place of a document: keys and indexes parted by "/", with "~1" for a slash in a key; the key length
// of a list or map is how many members it has.
func lookUp(v any, path string) (value any, isFound bool) {
	if path == "" {
		return v, true
	}
	for _, k := range strings.Split(path, "/") {
		k = strings.ReplaceAll(k, "~1", "/")
		isFound = false
		switch x := v.(type) {
		case map[string]any:
			size := len(x)
			if v, isFound = x[k]; !isFound && k == "length" {
				v, isFound = size, true
			}
		case []any:
			i, err := strconv.Atoi(k)
			if isFound = err == nil && i < len(x); isFound {
				v = x[i]
			} else if isFound = k == "length"; isFound {
				v = len(x)
			}
		}
		if !isFound {
			return nil, false
		}
	}
	return v, true
}

// json [-in FILE] PATH [VALUE]: a place of the document of stdout, or of a file, keys and indexes parted by "/", is
// that text or JSON. `json PATH contains TEXT`: it contains the text. `json PATH length N`: it has so many members.
// `json PATH -> NAME`: it becomes a variable of the environment. `! json PATH`: it is not there.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	file := "stdout"
	if len(args) > 1 && args[0] == "-in" {
		file, args = args[1], args[2:]
	}
	doc := readDocument(ts, file)
	if len(args) == 0 {
		return
	}
	v, found := lookUp(doc, args[0])
	if neg {
		if found {
			ts.Fatalf("%s is there: %v", args[0], v)
		}
		return
	}
	if !found {
		ts.Fatalf("there is no %s", args[0])
	}
	got, ok := v.(string)
	if !ok {
		got = string(must(json.Marshal(v)))
	}
	if len(args) == 3 && args[1] == "length" {
		got = strconv.Itoa(reflect.ValueOf(v).Len())
	}
	switch isEqual := len(args) < 2 || got == args[len(args)-1]; {
	case len(args) == 3 && args[1] == "->":
		ts.Setenv(args[2], got)
	case len(args) == 3 && args[1] == "contains":
		if !script.Mentions(got, args[2]) {
			ts.Fatalf("%s is %s, want it to contain %q", args[0], got, args[2])
		}
	case !isEqual:
		ts.Fatalf("%s is %s, want %s", args[0], got, strings.Join(args[1:], " "))
	}
}

// columns N: no line of stdout and stderr is longer. Exempt are lines of a shown file ("+", "-" or " " at column six)
// plain: stdout and stderr have no escape sequence.
func cmdPlain(ts *testscript.TestScript, _ bool, _ []string) {
	for _, f := range []string{"stdout", "stderr"} {
		if text := ts.ReadFile(f); strings.ContainsRune(text, '\x1b') {
			ts.Fatalf("%s: got an escape sequence, want none: %q", f, text)
		}
	}
}

// secret TEXT: from now on nothing that is printed may hold it.
func cmdSecret(ts *testscript.TestScript, _ bool, args []string) {
	s := of(ts)
	s.secrets = append(s.secrets, args[0])
}

// hidden DIR|FILE [EXCEPT...]: no file there holds a secret, in any form, but those whose path ends in one of the
// exceptions; each exception must hold one.
func cmdHidden(ts *testscript.TestScript, _ bool, args []string) {
	found := map[string]bool{}
	n := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		n++
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, e := range args[1:] {
			if strings.HasSuffix(p, e) || strings.HasSuffix(e, "/") && strings.Contains(p, e) {
				found[e] = found[e] || canary.NewFinder(of(ts).secrets...).Find(b) != ""
				return nil
			}
		}
		noSecret(ts, p, b)
		return nil
	}))
	if n == 0 {
		ts.Fatalf("there is no file in %s", args[0])
	}
	for _, e := range args[1:] {
		if !found[e] {
			ts.Fatalf("no secret is in %s, where one belongs", e)
		}
	}
}

func noSecret(ts *testscript.TestScript, where string, b []byte) {
	if found := canary.NewFinder(of(ts).secrets...).Find(b); found != "" {
		ts.Fatalf("a secret is in %s, %s", where, found)
	}
}

// mode FILE OCTAL
func cmdMode(ts *testscript.TestScript, _ bool, args []string) {
	st, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", st.Mode().Perm()); got != args[1] {
		ts.Fatalf("mode %s, want %s", got, args[1])
	}
}

// isKept reports whether a file below a folder contains a text.
func isKept(folder string, text []byte) (found bool, err error) {
	err = filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		found = found || bytes.Contains(b, text)
		return err
	})
	return found, err
}

// blob ROOT GENERATION NAME: writes what a generation keeps under that name to a file of that name.
func cmdBlob(ts *testscript.TestScript, _ bool, args []string) {
	root := ts.MkAbs(args[0])
	s, err := generation.OpenReadOnly(generation.StoreConfig{Root: root, Dir: filepath.Join(root, "var/lib/prelet")})
	ts.Check(err)
	defer s.Close()
	b, err := s.Blob(must(strconv.Atoi(args[1])), args[2])
	ts.Check(err)
	if len(b) == 0 {
		ts.Fatalf("%s is empty", args[2])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), b, 0o600))
}

// facts DIR: stdout's facts are those of the machine in a folder, and the GPUs among its accelerators once more.
func cmdFacts(ts *testscript.TestScript, _ bool, args []string) {
	facts, err := hardware.Detect(context.Background(), hardware.ReadOptions{Root: ts.MkAbs(args[0])})
	ts.Check(err)
	b, err := json.Marshal(facts)
	ts.Check(err)
	var want map[string]any
	ts.Check(json.Unmarshal(b, &want))
	got, ok := document(ts)["facts"].(map[string]any)
	if !ok {
		ts.Fatalf("there are no facts")
	}
	gpus := []any{}
	for _, a := range want["accelerators"].([]any) {
		if a.(map[string]any)["kind"] == "gpu" {
			gpus = append(gpus, a)
		}
	}
	want["gpus"] = gpus
	if d := cmp.Diff(want, got); d != "" {
		ts.Fatalf("facts (-want +got):\n%s", d)
	}
}

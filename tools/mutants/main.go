// Command mutants changes the code of packages in small ways, one at a time, and prints which changes no test of the
// changed package fails on.
//
//	mutants [-n 300] [-seed N] [-o FILE] [-than FILE] [-only FILE] PACKAGES...
//
// The tests of the packages must pass before. A test that hangs for five minutes has failed.
//
// A mutant is one changed operator, condition, number, or a statement that is left out. It is laid over its file for
// one run of `go test`, so nothing is written into the repository. -n mutants are chosen by the seed. What does not
// compile does not count, and another mutant takes its place. The result of each, `killed` or `survived`, is a line of
// FILE. -than reads the lines of an earlier run with the same seed and code: it ends with 1 if a mutant survives that
// was killed then. -only reads the lines of such a file, or those that are printed, and tries these mutants alone.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant replaces a part of a file.
type mutant struct {
	Package, File string
	Begin, End    int // bytes
	Line          int
	Text          string // in place of the part
	What          string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d (byte %d): %s", filepath.Base(m.File), m.Line, m.Begin, m.What)
}

func (m mutant) id() string { return m.Package + " " + m.String() }

const (
	killed   = "killed"
	survived = "survived"
	broken   = "does not compile"
)

func main() {
	n := flag.Int("n", 300, "how many mutants")
	seed := flag.Uint64("seed", 1, "chooses them")
	out := flag.String("o", "", "write the results into this file")
	than := flag.String("than", "", "compare with the results in this file")
	only := flag.String("only", "", "try the mutants in this file alone")
	flag.Parse()
	err := run(*n, *seed, *out, *than, *only, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(n int, seed uint64, out, than, only string, packages []string) error {
	before, err := read(than)
	if err != nil {
		return err
	}
	all, err := list(packages)
	if err != nil {
		return err
	}
	all, err = keep(all, only)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	results := io.Discard
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return err
		}
		defer f.Close()
		results = f
	}
	fmt.Printf("%d mutants can be made, seed %d\n", len(all), seed)
	if said, err := test("", packages...); err != nil && n > 0 {
		return fmt.Errorf("without a mutant the tests must pass: %w\n%s", err, said)
	}
	count, worse := map[string]int{}, 0
	for _, m := range all {
		if count[killed]+count[survived] == n {
			break
		}
		result, err := try(m)
		if err != nil {
			return err
		}
		count[result]++
		if result == broken {
			continue
		}
		if _, err := fmt.Fprintf(results, "%s\t%s\n", result, m.id()); err != nil {
			return err
		}
		if result == survived {
			fmt.Println(m.id())
		}
		if result == survived && before[m.id()] == killed {
			worse++
			fmt.Println("  which was killed before")
		}
	}
	fmt.Printf("%d killed, %d survived\n", count[killed], count[survived])
	if worse > 0 {
		return fmt.Errorf("%d mutants survive that were killed before", worse)
	}

	return nil
}

// keep returns the mutants in a file, or all without a file. Each must be one of the packages as they are.
func keep(all []mutant, file string) ([]mutant, error) {
	if file == "" {
		return all, nil
	}
	only, err := read(file)
	if err != nil {
		return nil, err
	}
	var kept []mutant
	for _, m := range all {
		if _, is := only[m.id()]; is {
			kept = append(kept, m)
			delete(only, m.id())
		}
	}
	for id := range only {
		return nil, fmt.Errorf("%s: no such mutant in these packages: %s", file, id)
	}

	return kept, nil
}

// read returns the results in a file, or none without a file. A line without a result has "".
func read(file string) (map[string]string, error) {
	results := map[string]string{}
	if file == "" {
		return results, nil
	}
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		result, id, hasResult := strings.Cut(line, "\t")
		if !hasResult {
			result, id = "", line
		}
		results[id] = result
	}

	return results, err
}

// list returns the mutants of packages, in the order of their files.
func list(packages []string) (all []mutant, err error) {
	args := append([]string{"list", "-json=ImportPath,Dir,GoFiles"}, packages...)
	text, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			found, err := mutantsOf(file, text)
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				m.Package = p.ImportPath
				all = append(all, m)
			}
		}
	}
}

// others are the operators that take the place of one.
var others = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

func mutantsOf(file string, text []byte) (found []mutant, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return nil, err
	}
	add := func(begin, end token.Pos, with, what string) {
		at := set.Position(begin)
		found = append(found, mutant{
			File: file, Begin: at.Offset, End: set.Position(end).Offset, Line: at.Line, Text: with, What: what,
		})
	}
	source := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			if other, ok := others[n.Op]; ok {
				end := n.OpPos + token.Pos(len(n.Op.String()))
				add(n.OpPos, end, other, fmt.Sprintf("%s for %s", other, n.Op))
			}
		case *ast.IfStmt:
			add(n.Cond.Pos(), n.Cond.End(), "!("+source(n.Cond)+")", "a condition is turned round")
		case *ast.BasicLit:
			if number, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
				add(n.Pos(), n.End(), strconv.Itoa(number+1), fmt.Sprintf("%d for %d", number+1, number))
			}
		case *ast.Ident:
			if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
				add(n.Pos(), n.End(), other, other+" for "+n.Name)
			}
		case *ast.BranchStmt:
			if other := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]; other != "" {
				add(n.Pos(), n.Pos()+token.Pos(len(n.Tok.String())), other, fmt.Sprintf("%s for %s", other, n.Tok))
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
			add(n.Pos(), n.End(), "", "left out: "+firstLine(source(n)))
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				add(n.Pos(), n.End(), "", "left out: "+firstLine(source(n)))
			}
		}

		return true
	})

	return found, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")

	return line
}

// try runs the tests of a mutant's package with it, and returns killed, survived or broken.
func try(m mutant) (string, error) {
	text, err := os.ReadFile(m.File)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)

	changed := string(text[:m.Begin]) + m.Text + string(text[m.End:])
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.File: filepath.Join(dir, "mutant.go")}})
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "mutant.go"), []byte(changed), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	if err != nil {
		return "", err
	}
	said, err := test(filepath.Join(dir, "overlay.json"), m.Package)
	switch {
	case err == nil:
		return survived, nil
	case bytes.Contains(said, []byte("[build failed]")), bytes.Contains(said, []byte("[setup failed]")):
		return broken, nil
	}

	return killed, nil
}

// test runs the tests of packages, with the files of an overlay in place of others, and returns their output.
func test(overlay string, packages ...string) ([]byte, error) {
	args := []string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=5m", "-ldflags=-s -w"}
	args = append(args, "-overlay="+overlay)

	return exec.Command("go", append(args, packages...)...).CombinedOutput()
}

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/doctor"
	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/sample"
)

// repository is the folder of the checkout.
const repository = "../.."

// shellBlock is a block of shell commands of a page.
type shellBlock struct {
	page   string // path in the repository
	line   int
	text   string
	reason string // why it is not run; "" for a block that is run
}

// readPages returns the text of each page in Markdown, by its path in the repository.
func readPages(t *testing.T) map[string]string {
	t.Helper()

	pages := map[string]string{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		isSkipped := slices.Contains([]string{"testdata", "node_modules", "bin", "dist"}, d.Name()) ||
			strings.HasPrefix(d.Name(), ".") && path != repository
		switch {
		case err != nil:
			return err
		case d.IsDir() && isSkipped:
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(repository, path)
		pages[name] = string(text)
		return err
	})
	if err != nil || len(pages) < 100 {
		t.Fatalf("read the pages: got %d, %v; want 100 or more", len(pages), err)
	}
	return pages
}

// blockPattern matches a block of shell commands, and the comment before it that gives the reason not to run it.
var blockPattern = regexp.MustCompile("(?ms)(?:^ *<!-- not run: ([^\n]*) -->\n)?^ *```(?:sh|bash|shell)\n(.*?)^ *```$")

// shellBlocks returns the blocks of shell commands of all pages.
func shellBlocks(t *testing.T) (blocks []shellBlock) {
	t.Helper()

	pages := readPages(t)
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		text := pages[page]
		for _, m := range blockPattern.FindAllStringSubmatchIndex(text, -1) {
			b := shellBlock{page: page, line: strings.Count(text[:m[4]], "\n") + 1, text: text[m[4]:m[5]]}
			if m[2] >= 0 {
				b.reason = text[m[2]:m[3]]
			}
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Each block of shell commands in the pages runs without an error, in a folder with a site and recorded machines,
// unless the page gives a reason. The log lists those.
func TestShellBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set, and the blocks start many processes")
	}

	ran, known := 0, 0
	dir := ""
	chosen := sample.New(t)
	for _, b := range shellBlocks(t) {
		if b.reason != "" {
			checked := exec.Command("bash", "-n")
			checked.Stdin = strings.NewReader(b.text)
			if out, err := checked.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: bash -n: got %v, want none\n%s", b.page, b.line, err, out)
			}
			t.Logf("%s:%d is not run: %s", b.page, b.line, b.reason)
			continue
		}

		known++
		if !chosen.Has(sample.Quarter(1), b.page) { // a block may need what one before it on its page has made
			continue
		}
		dir = cmp.Or(dir, makeDocsFolder(t))
		ran++
		folder := dir
		if b.page == "docs/operators/one-node.md" {
			folder = filepath.Join(dir, "node")
		}
		t.Logf("%s:%d:", b.page, b.line)
		runCI(t, folder, []string{"CREDENTIALS_DIRECTORY=" + dir + "/credentials"}, 0, "set -u\n"+b.text)
	}
	if known < 16 {
		t.Errorf("blocks that run: got %d, want 16 or more", known)
	}
	t.Logf("%d of %d blocks ran", ran, known)
}

// makeDocsFolder returns a folder with the files that the pages name: sites, objects, machines, recordings. Its make
// does nothing: CI runs the targets, and TestCommandsOfPages checks their names.
func makeDocsFolder(t *testing.T) string {
	t.Helper()

	dir := t.TempDir()
	repo, err := filepath.Abs(repository)
	noError(t, err)
	for machine, spec := range map[string]string{
		"machines/dgx": "dgx-h100", "bin/machines/dgx-h100": "dgx-h100", "bin/machines/two-sockets": "two-sockets",
	} {
		spec = repository + "/testdata/hardware/spec/" + spec + ".json"
		noError(t, hwtree.BuildFile(spec, filepath.Join(dir, machine)))
	}

	runCI(t, dir, []string{"REPO=" + repo, "CREDENTIALS_DIRECTORY=" + dir + "/credentials"}, 0, "set -u\n"+docsFolder)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))

	return dir
}

// docsFolder makes the files of makeDocsFolder. ./prelet of its folder "node" is prelet on a node that has joined: it
// adds the recorded machine to the commands that read the node. Its doctor finds problems, as on a node without the gate.
const docsFolder = `
ln -s "$(command -v prelet)" bin/prelet
printf '#!/bin/sh\n' >bin/make && chmod +x bin/make
mkdir -p credentials examples site image site3 base prod/tests fleet root
printf 'abcdef.0123456789abcdef' >credentials/bootstrap-token && chmod 400 credentials/bootstrap-token
cp -r "$REPO"/examples/minimal "$REPO"/examples/k3s "$REPO"/examples/objects examples
cp -r examples/objects .
for folder in site image base .; do cp examples/minimal/site.hcl $folder; done
printf 'variable "zone" { default = "az1" }\nstage "label" "a" { labels = { "example.com/zone" = var.zone } }\n' |
  tee site3/zone.hcl prod/zone.hcl >site/zone.hcl
prelet fmt site site3 prod >/dev/null
prelet detect -o json --hardware machines/dgx >machines/dgx.json
for folder in . prod/tests; do
  machine=$(realpath --relative-to=$folder machines/dgx.json)
  printf 'run "a" {\n  hardware = "%s"\n  assert { condition = plan.complete }\n}\n' "$machine" \
    >$folder/a.prelettest.hcl
done
printf 'node.labels\nvar.zone\n' >questions.txt
prelet record --config site --hardware machines/dgx --objects objects --root root node17.prelet 2>/dev/null
prelet bundle --config site --hardware machines/dgx --objects objects --root root bug.tar.gz 2>/dev/null
cp node17.prelet fleet/node17.prelet
cp node17.prelet fleet/node18.prelet
mkdir -p node/root/etc/kubernetes
printf '%s\n' '{"kind": "Config", "apiVersion": "v1", "current-context": "x",' \
  '"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],' \
  '"clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.11:6443",' \
  "\"certificate-authority-data\": \"$(base64 -w0 objects/ca.crt)\"}}]}" >node/root/etc/kubernetes/kubelet.conf
cat >node/prelet <<'END'
#!/bin/sh
case $1 in
detect) set -- "$@" --hardware ../machines/dgx ;;
init) set -- "$@" --root root ;;
doctor) prelet "$@" --root root; [ $? = 3 ]; exit ;;
plan | explain) set -- "$@" --root root --hardware ../machines/dgx --objects ../objects ;;
esac
exec prelet "$@"
END
chmod +x node/prelet
git init -q -b main . && git add site && git -c user.name=a -c user.email=a@example.com commit -q -m site
git update-ref refs/remotes/origin/main main
`

// sitePattern and sessionPattern match the first site and the first session with prelet of a page.
var (
	sitePattern    = regexp.MustCompile("(?s)```hcl\n(.*?)```")
	sessionPattern = regexp.MustCompile("(?s)```console\n(.*?)```")
)

// TestReadme checks that the first screen of README.md shows what prelet prints for the site above it, on a recorded
// machine, and that it names the version that the program is on the way to.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set, and the session starts processes")
	}

	page := readPages(t)["README.md"]
	site, session := sitePattern.FindStringSubmatch(page), sessionPattern.FindStringSubmatch(page)
	if site == nil || session == nil {
		t.Fatal("README.md: got no site or no session, want both")
	}

	dir := makeDocsFolder(t)
	run := func(command string) string {
		env := []string{"CREDENTIALS_DIRECTORY=" + dir + "/credentials"}
		return strings.TrimSpace(runCI(t, filepath.Join(dir, "readme"), env, 0, command))
	}
	noError(t, os.Mkdir(filepath.Join(dir, "readme"), 0o755))
	osfile.Write(t, filepath.Join(dir, "readme/site.hcl"), site[1], 0o644)
	run("prelet record --config site.hcl --hardware ../machines/dgx --objects ../objects --root ../root gpu07.prelet")

	for _, part := range strings.Split("\n"+session[1], "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		// All of the output is read first, and no pipe is between: `head` may close one before all is written.
		plan, rest, isCut := strings.Cut(command, " | ")
		if isCut {
			command = "text=$(" + plan + "); " + rest + " <<<\"$text\""
		}
		if got := run(command); !like(strings.Split(want, "\n"), strings.Split(got, "\n")) {
			t.Errorf("README.md: %s: got\n%s\nwant as on the page:\n%s", command, got, want)
		}
	}

	for machine, kind := range map[string]string{"dgx-h100": "gpu", "two-sockets": "cpu"} {
		where := " --config site.hcl --objects ../objects --root ../root"
		if got := run("prelet plan --hardware ../bin/machines/" + machine + where); !strings.Contains(got, "example.com/kind="+kind+" ") {
			t.Errorf("README.md: its site on %s: got\n%s\nwant the kind %s", machine, got, kind)
		}
	}

	script, err := os.ReadFile(repository + "/tools/version.sh")
	next := regexp.MustCompile(`(?m)^next=(\S+)$`).FindStringSubmatch(string(script))
	if err != nil || next == nil || !strings.Contains(page, "on the way to "+next[1]) {
		t.Errorf("README.md: got another version, want that of tools/version.sh: %q (%v)", next, err)
	}
}

// testsOf returns the tests and fuzz targets of the repository, by name and by FOLDER: NAME, and those that have a
// folder of scripts also as NAME/SCRIPT.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	exists := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "bin", "dist", ".cache"}, d.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(repository, filepath.Dir(path))
		scripts, err := filepath.Glob(filepath.Dir(path) + "/testdata/*/*.txtar")
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			names := []string{m[1]}
			for _, script := range scripts {
				names = append(names, m[1]+"/"+strings.TrimSuffix(filepath.Base(script), ".txtar"))
			}
			for _, name := range names {
				exists[name], exists[folder+": "+name] = true, true
			}
		}
		return err
	})
	noError(t, err)

	return exists
}

// TestTestsOfPages checks that each test that a page names exists, and each script, as in TestNodes/boots.
func TestTestsOfPages(t *testing.T) {
	t.Parallel()

	exists := testsOf(t)
	exists["TestName"] = true // stands for any test
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	pages := readPages(t)
	delete(pages, "CHANGELOG.md")
	checked := 0
	for page, text := range pages {
		for _, name := range named.FindAllString(text, -1) {
			checked++
			if !exists[name] {
				t.Errorf("%s: got no test %s, want one: write its new name", page, name)
			}
		}
		for _, script := range regexp.MustCompile(`Test(?:Nodes|RealNodes|Scripts|Boots)/\w+`).FindAllString(text, -1) {
			if !exists[script] {
				t.Errorf("%s: got no script %s, want one", page, script)
			}
		}
	}
	if checked < 100 {
		t.Errorf("tests on pages: got %d, want 100 or more", checked)
	}
}

// TestShelves checks that each page for users is in one table of docs/README.md, and each page for people who change
// prelet in that of docs/develop/README.md only. The web site's navigation is made from these tables.
func TestShelves(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	for page := range pages {
		shelf := strings.Split(strings.TrimPrefix(page, "docs/"), "/")[0]
		isListed := slices.Contains([]string{"image-builders", "operators", "vendors", "develop"}, shelf)
		if !isListed || page == "docs/develop/README.md" || strings.HasPrefix(page, "docs/develop/decisions/0") {
			continue
		}
		want := map[bool]int{true: 0, false: 1}[shelf == "develop"]
		if got := strings.Count(pages["docs/README.md"], "]("+strings.TrimPrefix(page, "docs/")+")"); got != want {
			t.Errorf("docs/README.md: got %d links to %s, want %d", got, page, want)
		}
		link := "](" + strings.TrimPrefix(page, "docs/develop/") + ")"
		if got := strings.Count(pages["docs/develop/README.md"], link); got != 1-want {
			t.Errorf("docs/develop/README.md: got %d links to %s, want %d", got, page, 1-want)
		}
	}
}

// The page of systemd's versions has the table that doctor reports from, and the packages require its oldest version.
func TestSystemdTable(t *testing.T) {
	t.Parallel()
	table := "| since | what older versions lack | with these |\n|---|---|---|\n"
	for _, u := range doctor.ListSystemdUses() {
		table += fmt.Sprintf("| %d | %s | %s |\n", u.Since, u.What, u.Instead)
	}
	const page = "docs/image-builders/README.md"
	if !strings.Contains(readPages(t)[page], "\n"+table+"\n") {
		t.Errorf("%s: got another table, want\n%s", page, table)
	}

	recipe, err := os.ReadFile(repository + "/packaging/prelet/prelet.yaml")
	want := regexp.MustCompile(fmt.Sprintf(`systemd \(?>= %d\)?\n`, doctor.OldestSystemd))
	if got := want.FindAll(recipe, -1); err != nil || len(got) != 2 {
		t.Errorf("packages that require systemd %d: got %q, %v; want both", doctor.OldestSystemd, got, err)
	}
}

// countWords counts the words with a letter or a digit, outside of comments; the bars of tables are none.
func countWords(page string) int {
	page = regexp.MustCompile("(?s)<!--.*?-->").ReplaceAllString(page, "")

	return len(regexp.MustCompile(`\S*[\pL\pN]\S*`).FindAllString(page, -1))
}

// TestReadmeIsShort limits the words of README.md before its list of pages, outside of blocks of code.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	first, _, hasPages := strings.Cut(readPages(t)["README.md"], "\n## Documentation\n")
	got := countWords(fencePattern.ReplaceAllString(first, ""))
	if !hasPages || got > 600 {
		t.Errorf("README.md, words before Documentation: got %d, want at most 600", got)
	}
}

// TestReadmeCommands checks that the first block of commands of README.md is the demo and the tests.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	block := blockPattern.FindStringSubmatch(readPages(t)["README.md"])
	if want := "make demo\nmake test\n"; block == nil || block[2] != want {
		t.Errorf("README.md, first block of commands: got %q, want %q", block, want)
	}
}

// generatedPart matches the part of a page that a tool writes.
var generatedPart = regexp.MustCompile(`(?s)<!-- made by .*?<!-- end of [^>]*-->`)

// TestPagesAreShort limits the words of the pages in docs with README.md, and of those for operators, without generated
// pages and parts.
func TestPagesAreShort(t *testing.T) {
	t.Parallel()
	all, operators := 0, 0
	for page, text := range readPages(t) {
		words := countWords(generatedPart.ReplaceAllString(text, ""))
		isGenerated := strings.HasPrefix(text, "<!-- Made by make generate")
		if !isGenerated && (page == "README.md" || strings.HasPrefix(page, "docs/")) {
			all += words
		}
		if strings.HasPrefix(page, "docs/operators/") {
			operators += words
		}
	}
	t.Logf("words: %d in all pages, %d in those for operators", all, operators)
	if all > 45_050 || operators > 20_000 {
		t.Errorf("words: got %d in all pages, %d in those for operators; want at most 45050 and 20000", all, operators)
	}
}

// A block that is indented in place of fenced would not be run, so only the pages of codes have those: their commands
// are for a node in trouble.
func TestNoIndentedBlocks(t *testing.T) {
	t.Parallel()
	indented := regexp.MustCompile(`(?m)^\n    \S.*`)
	for page, text := range readPages(t) {
		if strings.HasPrefix(page, "docs/codes/") {
			continue
		}
		for _, block := range indented.FindAllString(fencePattern.ReplaceAllString(text, ""), -1) {
			t.Errorf("%s: got the indented block %q, want it between ```", page, strings.TrimSpace(block))
		}
	}
}

// TestCommandsOfPages checks each command line of prelet and make that a page shows, in a block or in its text, against
// the program: the command, its flags and its formats exist. It also checks the examples of prelet's own help.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	makefile := osfile.Read(t, repository+"/Makefile")

	checked := 0
	pages := readPages(t)
	delete(pages, "CHANGELOG.md")                                           // names what was removed
	pages["README.md"], _, _ = strings.Cut(pages["README.md"], "## Status") // names what does not exist yet
	for path, c := range commandsByPath(t) {
		pages["the help of "+path] = "```sh\n" + c.Example + "\n```\n"
	}
	for page, text := range pages {
		for _, line := range commandLines(text) {
			words := shellWords(line)
			switch {
			case len(words) < 2:
			case words[0] == "make" && strings.HasPrefix(page, "examples/"):
			case words[0] == "make":
				for _, word := range words[1:] {
					isTarget := !strings.ContainsAny(word, "=-A…")
					if isTarget && !strings.Contains(string(makefile), "\n"+word+":") {
						t.Errorf("%s: %s: got no target %q in the Makefile, want one", page, line, word)
					}
				}
			case words[0] == "prelet" || words[0] == "bin/prelet":
				checked++
				if problem := checkCommandLine(words[1:]); problem != "" {
					t.Errorf("%s: %s: %s", page, line, problem)
				}
			}
		}
	}
	if checked < 300 {
		t.Errorf("command lines of prelet in the pages: got %d, want 300 or more", checked)
	}
}

var (
	fencePattern  = regexp.MustCompile("(?ms)^ *```[a-z]*\n.*?^ *```$")
	inlinePattern = regexp.MustCompile("`((?:bin/)?prelet [^`]+|make [^`]+)`")
	indentPattern = regexp.MustCompile(`(?m)^    ((?:bin/)?prelet .*|make .*)$`)
	breakPattern  = regexp.MustCompile(`\$\(|\|\||&&|[|;()]`)
)

// commandLines returns the commands of a page: of its blocks, and those in its text. A pipeline is several.
func commandLines(text string) (lines []string) {
	for _, block := range fencePattern.FindAllString(text, -1) {
		isConsole := strings.HasPrefix(strings.TrimSpace(block), "```console")
		if !isConsole && !blockPattern.MatchString(block) {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			line, isCommand := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if isConsole && !isCommand {
				continue
			}
			line, _, _ = strings.Cut(line, " #")
			for _, part := range breakPattern.Split(line, -1) {
				lines = append(lines, strings.TrimSpace(part))
			}
		}
	}

	text = fencePattern.ReplaceAllString(text, "")
	for _, pattern := range []*regexp.Regexp{inlinePattern, indentPattern} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			for _, part := range breakPattern.Split(strings.ReplaceAll(m[1], "\n", " "), -1) {
				lines = append(lines, strings.TrimSpace(part))
			}
		}
	}
	return lines
}

// shellWords splits a command at spaces outside of quotes, and drops what is redirected.
func shellWords(line string) (words []string) {
	quoted := regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(line, "QUOTED")
	for _, word := range strings.Fields(quoted) {
		if strings.ContainsAny(word, "<>") {
			break
		}
		words = append(words, strings.Trim(word, "[].,:"))
	}
	return words
}

// checkCommandLine returns what is wrong with the arguments of prelet; "" for nothing. Values may be placeholders.
func checkCommandLine(words []string) string {
	root := (&cli{getenv: os.Getenv}).root()
	isPlaceholder := strings.Trim(words[0], "abcdefghijklmnopqrstuvwxyz-") != ""
	if isPlaceholder || strings.HasPrefix(words[0], "-") || words[0] == "help" {
		return ""
	}
	c, rest, err := root.Find(words)
	if err != nil || c == root {
		return "got an unknown command, want one of prelet"
	}
	for i, word := range rest {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case word == "--":
			return ""
		case strings.HasPrefix(name, "--"):
			if name != "--help" && c.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
				return "got the unknown flag " + name
			}
		case name == "-o" && i+1 < len(rest):
			value = rest[i+1]
			fallthrough
		case strings.HasPrefix(name, "-o"):
			if problem := checkOutput(c, value); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// checkOutput returns what is wrong with the format of -o; "" for nothing, and for a placeholder.
func checkOutput(c *cobra.Command, value string) string {
	output := c.Flags().Lookup("output")
	isPlaceholder := strings.ToLower(value) != value || strings.Contains(value, "|")
	switch {
	case output == nil:
		return "got the unknown flag -o"
	case isPlaceholder || value == "":
		return ""
	}
	if err := output.Value.Set(value); err != nil {
		return err.Error()
	}
	return ""
}

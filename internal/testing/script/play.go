package script

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Node plays scripts. It has the commands and the facts of the language that it knows, and no others.
type Node struct {
	Name     string // in the table of words
	Commands map[string]Command
	Facts    map[string]Fact

	Is      func(err error, code string) bool      // an error has this code; nil: its text contains it
	Holds   func(condition string) (bool, error)   // of a line, in brackets; nil: there are none
	Wait    func(what string, check func() string) // until check returns ""; nil: it cannot wait
	Replace func(word string) string               // in each word; nil: nothing
	Begin   func(l Line)                           // before each line that is played, as for a log; nil: nothing
}

// Command carries out its arguments. An error ends the test, unless the script expects it.
type Command func(args []string) error

// Fact can be compared by a script. The first Args words after its name are arguments of Get.
type Fact struct {
	Args int
	Get  func(args []string) (string, error)
}

// Player plays the lines of scripts on a node.
type Player struct {
	Node

	T    testing.TB
	Line Line  // that is played
	Err  error // of the last command

	forms   map[string][]Form // of each command
	mayFail bool
	isOver  bool              // after `stop`
	values  map[string]string // of `set`
}

// New returns a player. Each command and fact of the node must be a word of the language.
func New(t testing.TB, n Node) *Player {
	t.Helper()
	p := &Player{T: t, Node: n, forms: findForms(n.Name), values: map[string]string{}}
	for _, w := range Commands() {
		isOwn := slices.Contains(ownCommands, w.Name)
		if includes(w.In, n.Name) != (isOwn || n.Commands[w.Name] != nil) {
			t.Fatalf("command %q: got one that only the node %s or only the words have, want both", w.Name, n.Name)
		}
	}
	for name := range n.Commands {
		if p.forms[name] == nil || slices.Contains(ownCommands, name) {
			t.Fatalf("command %q: got one of a node, want one of script.Commands that the player does not have", name)
		}
	}
	for _, w := range Facts() {
		if _, isOfNode := n.Facts[w.Name]; includes(w.In, n.Name) != isOfNode {
			t.Fatalf("fact %q: got one that only the node %s or only the words have, want both", w.Name, n.Name)
		}
	}
	facts := Facts()
	for name := range n.Facts {
		if !slices.ContainsFunc(facts, func(w Word) bool { return w.Name == name }) {
			t.Fatalf("fact %q: got none in the language, want one of script.Facts", name)
		}
	}

	return p
}

// Set gives $NAME a value in the lines that follow.
func (p *Player) Set(name, value string) { p.values[name] = value }

// Value returns what $NAME is, or "".
func (p *Player) Value(name string) string { return p.values[name] }

// Play carries out lines. It may be called by a command.
func (p *Player) Play(lines []Line) {
	p.T.Helper()
	outer := p.Line
	defer func() { p.Line = outer }()
	for _, l := range lines {
		if p.Line = p.expand(l); p.isOver || !p.mayPlay() {
			continue
		}
		if p.Begin != nil {
			p.Begin(p.Line)
		}
		p.do()
	}
}

// PlayWords carries out the commands in the rest of the current line.
func (p *Player) PlayWords(words []string) {
	p.T.Helper()
	p.Play(Sequence(p.Line.At, words, nests...))
}

// Later returns the commands in the rest of the current line, to be carried out at another time. They may not fail,
// also where the command that is carried out then may.
func (p *Player) Later(words []string) func() {
	at := p.Line.At

	return func() {
		p.T.Helper()
		outer := p.mayFail
		p.mayFail = false
		defer func() { p.mayFail = outer }()
		p.Play(Sequence(at, words, nests...))
	}
}

// Try carries out the commands in the rest of the current line, of which each may fail, and returns how the last ended.
func (p *Player) Try(words []string) error {
	p.T.Helper()

	return p.TryLines(Sequence(p.Line.At, words, nests...))
}

// TryLines carries out lines, of which each may fail, and returns how the last ended.
func (p *Player) TryLines(lines []Line) error {
	p.T.Helper()
	outer := p.mayFail
	p.mayFail, p.Err = true, nil
	defer func() { p.mayFail = outer }()
	p.Play(lines)

	return p.Err
}

// nests are the commands whose arguments are commands.
var nests = []string{"at", "die", "fails", "on", "refused", "repeat"}

// ownCommands are those of the player. No node has them.
var ownCommands = []string{"fails", "has", "is", "matches", "matrix", "repeat", "set", "skip", "stop", "until"}

// expand replaces $NAME in the words that were not quoted.
func (p *Player) expand(l Line) Line {
	l.Words = slices.Clone(l.Words)
	for i, word := range l.Words {
		isText := i < len(l.isFixed) && l.isFixed[i]
		if !isText && strings.Contains(word, "$") {
			word = p.replaceValues(word)
		}
		if p.Replace != nil {
			word = p.Replace(word)
		}
		if unknown := variable.FindString(word); !isText && unknown != "" && strings.Contains(l.Words[i], unknown) {
			p.T.Fatalf("%s: got %s, want a value that was set, or quotes", l, unknown)
		}
		l.Words[i] = word
	}

	return l
}

func (p *Player) replaceValues(word string) string {
	return variable.ReplaceAllStringFunc(word, func(name string) string {
		value, isKnown := p.values[strings.Trim(name, "${}")]
		if !isKnown {
			return name
		}

		return value
	})
}

// mayPlay reports whether the conditions of the line hold.
func (p *Player) mayPlay() bool {
	p.T.Helper()
	for _, condition := range p.Line.If {
		if p.Holds == nil {
			p.T.Fatalf("%s: got the condition %s, want one of the matrix", p.Line, condition)
		}
		name, isNot := strings.CutPrefix(condition, "!")
		holds, err := p.Holds(name)
		if err != nil {
			p.T.Fatalf("%s: got %v, want a condition", p.Line, err)
		}
		if holds == isNot {
			return false
		}
	}

	return true
}

// do carries out the current line.
func (p *Player) do() {
	p.T.Helper()
	if len(p.Line.Words) == 0 {
		p.T.Fatalf("%s: got no command, want one, also before and after each ;", p.Line.At)
	}
	name, args := p.Line.Words[0], p.Line.Words[1:]
	if p.Commands[name] == nil && !slices.Contains(ownCommands, name) {
		p.T.Fatalf("%s: got an unknown command, want one that this node has", p.Line)
	}
	if wanted := refuse(p.forms[name], args, func(string) bool { return false }); wanted != "" {
		p.T.Fatalf("%s: got other arguments, want %s", p.Line, wanted)
	}
	if p.Line.Not && slices.Contains([]string{"fails", "repeat", "set", "skip", "stop"}, name) {
		p.T.Fatalf("%s: got ! before %s, want it before a look or a command of the node", p.Line, name)
	}
	switch name {
	case "is", "has", "matches":
		if why := p.look(name, args); why != "" {
			p.T.Errorf("%s\n%s", p.Line, why)
		}
	case "until":
		p.until(args)
	case "fails":
		p.fails(args[0], args[1], args[2:])
	case "repeat":
		p.repeat(args[0], args[1:])
	case "set":
		p.values[args[0]] = strings.Join(args[1:], " ")
	case "stop":
		p.isOver = true
	case "skip":
		p.T.Skip(strings.Join(args, " "))
	case "same":
		if err := p.Commands[name](args); (err == nil) == p.Line.Not {
			p.T.Errorf("%s\ngot %v, want the same: %t", p.Line, err, !p.Line.Not)
		}
	default:
		p.end(p.Commands[name](args))
	}
}

// end keeps how a command ended.
func (p *Player) end(err error) {
	p.T.Helper()
	p.Err = err
	switch isWanted := (err == nil) != p.Line.Not; {
	case p.mayFail || isWanted:
	case err == nil:
		p.T.Fatalf("%s: got no error, want one", p.Line)
	default:
		p.T.Fatalf("%s: got %v, want no error", p.Line, err)
	}
}

// look compares a fact, and returns the difference from the line, or "".
func (p *Player) look(how string, args []string) string {
	p.T.Helper()
	fact, isKnown := p.Facts[args[0]]
	if !isKnown {
		p.T.Fatalf("%s: got the fact %s, want one that this node has", p.Line, args[0])
	}
	if len(args) < 2+fact.Args {
		p.T.Fatalf("%s: got %d words after %s, want %d and a text, such as ''", p.Line, len(args)-1, args[0], fact.Args)
	}
	got, err := fact.Get(args[1 : 1+fact.Args])
	if p.Err = err; err != nil {
		if !p.mayFail {
			return fmt.Sprintf("%s: got %v, want no error", args[0], err)
		}

		return ""
	}

	if p.Line.Not && how != "is" && args[0] == "file" && got == "absent" {
		return args[1] + ": got no such file, want one without the text"
	}

	return p.compare(how, args[0], got, args[1+fact.Args:])
}

// compare returns how a fact differs from the line, or "". With "!" it contains none of the texts.
func (p *Player) compare(how, name, got string, texts []string) string {
	p.T.Helper()
	holds := func(text string) bool { return Mentions(got, text) }
	switch how {
	case "is":
		texts = []string{Unescape(strings.Join(texts, " "))}
		holds = func(text string) bool { return got == text || isWithin(got, text) }
	case "matches":
		texts = []string{strings.Join(texts, " ")}
		re, err := regexp.Compile("(?m)" + texts[0])
		if err != nil {
			p.T.Fatalf("%s: got %v, want an expression", p.Line, err)
		}
		holds = func(string) bool { return re.MatchString(got) }
	}
	for _, text := range texts {
		if holds(text) == p.Line.Not {
			not := map[bool]string{true: "! "}[p.Line.Not]

			return fmt.Sprintf("%s: got %q, want %s%s %q", name, got, not, how, text)
		}
	}

	return ""
}

// isWithin reports whether a number or a duration is within a range, such as 1..3, ..3s or 2m.. .
func isWithin(got, want string) bool {
	least, most, isRange := strings.Cut(want, "..")
	value, ok := parseQuantity(got)
	if !isRange || !ok || want == ".." {
		return false
	}
	from, hasFrom := parseQuantity(least)
	to, hasTo := parseQuantity(most)

	return hasFrom != (least == "") && hasTo != (most == "") && (!hasFrom || value >= from) && (!hasTo || value <= to)
}

// parseQuantity returns a number, or the nanoseconds of a duration.
func parseQuantity(text string) (float64, bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, true
	}
	d, err := time.ParseDuration(text)

	return float64(d), err == nil
}

// Mentions reports whether a text contains another one, wherever their lines are broken.
func Mentions(text, part string) bool {
	return strings.Contains(text, part) || strings.Contains(unfold(text), unfold(part))
}

func unfold(text string) string { return strings.Join(strings.Fields(text), " ") }

// until [!] LOOK: waits until a look at a fact holds.
func (p *Player) until(args []string) {
	p.T.Helper()
	if p.Wait == nil {
		p.T.Fatalf("%s: got until, want a node that can wait", p.Line)
	}
	isNot := p.Line.Not
	if len(args) > 0 && args[0] == "!" {
		isNot, args = !isNot, args[1:]
	}
	if len(args) < 2 || !slices.Contains([]string{"is", "has", "matches"}, args[0]) {
		p.T.Fatalf("%s: got something else to wait for, want `is`, `has` or `matches`", p.Line)
	}
	outer := p.Line
	defer func() { p.Line = outer }()
	p.Line.Not = isNot
	p.Wait(strings.Join(args, " "), func() string { return p.look(args[0], args[1:]) })
}

// fails CODE TEXT COMMAND: the command ends with this code, and the text in its message.
func (p *Player) fails(code, text string, words []string) {
	p.T.Helper()
	line := p.Line
	err := p.Try(words)
	has := p.Is
	if has == nil {
		has = func(err error, code string) bool { return strings.Contains(err.Error(), code) }
	}
	if err == nil || code != "any" && !has(err, code) || !strings.Contains(err.Error(), text) {
		p.T.Errorf("%s\ngot %v, want %s and %q", line, err, code, text)
	}
}

// repeat N|VALUE,... COMMAND: so often, or with each value for % in the command.
func (p *Player) repeat(values string, words []string) {
	p.T.Helper()
	if n, err := strconv.Atoi(values); err == nil {
		if n < 1 {
			p.T.Fatalf("%s: got %d times, want 1 at least", p.Line, n)
		}
		for range n {
			p.PlayWords(words)
		}
		return
	}
	for _, value := range strings.Split(values, ",") {
		with := make([]string, len(words))
		for i, word := range words {
			with[i] = strings.ReplaceAll(word, "%", value)
		}
		p.PlayWords(with)
	}
}

// Number returns a number of the line, to a base; 8 for modes.
func (p *Player) Number(text string, base int) int {
	p.T.Helper()
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		p.T.Fatalf("%s: got %v, want a number", p.Line, err)
	}

	return int(n)
}

// Duration returns a duration of the line.
func (p *Player) Duration(text string) time.Duration {
	p.T.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		p.T.Fatalf("%s: got %v, want a duration", p.Line, err)
	}

	return d
}

// Assign sets fields of a struct, each as FIELD=VALUE: a text, a duration, or JSON.
func Assign(to any, assignments []string) error {
	for _, assignment := range assignments {
		name, text, _ := strings.Cut(assignment, "=")
		field := reflect.ValueOf(to).Elem().FieldByName(name)
		if !field.IsValid() {
			return Unknown("field", name)
		}
		var err error
		switch v := field.Addr().Interface().(type) {
		case *time.Duration:
			*v, err = time.ParseDuration(text)
		case *string:
			*v = text
		default:
			err = json.Unmarshal([]byte(text), v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", assignment, err)
		}
	}

	return nil
}

// Must ends the test if a step that a command needs has failed.
func (p *Player) Must(err error) {
	p.T.Helper()
	if err != nil {
		p.T.Fatalf("%s: got %v, want no error", p.Line, err)
	}
}

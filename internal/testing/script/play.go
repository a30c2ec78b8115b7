package script

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Node plays scripts. It has the commands and the facts of the language that it knows, and no others.
type Node struct {
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

	mayFail bool
	isOver  bool              // after `stop`
	values  map[string]string // of `set`
}

// New returns a player. Each command and fact of the node must be a word of the language.
func New(t testing.TB, n Node) *Player {
	t.Helper()
	commands, facts := Commands(), Facts()
	for name := range n.Commands {
		if !slices.ContainsFunc(commands, func(w Word) bool { return w.Name == name }) {
			t.Fatalf("command %q: got none in the language, want one of script.Commands", name)
		}
	}
	for name := range n.Facts {
		if !slices.ContainsFunc(facts, func(w Word) bool { return w.Name == name }) {
			t.Fatalf("fact %q: got none in the language, want one of script.Facts", name)
		}
	}

	return &Player{T: t, Node: n, values: map[string]string{}}
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

// Words carries out the commands in the rest of the current line.
func (p *Player) Words(words []string) {
	p.T.Helper()
	p.Play(Sequence(p.Line.At, words, nests...))
}

// Later returns the commands in the rest of the current line, to be carried out at another time.
func (p *Player) Later(words []string) func() {
	at := p.Line.At

	return func() {
		p.T.Helper()
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
var nests = []string{"at", "die", "fails", "on", "refused", "repeat", "until"}

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
		l.Words[i] = word
	}

	return l
}

var variable = regexp.MustCompile(`\$(\w+|\{\w+\})`)

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
	name, args := p.Line.Words[0], p.Line.Words[1:]
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
	default:
		command := p.Commands[name]
		if command == nil {
			p.T.Fatalf("%s: got an unknown command, want one that this node has", p.Line)
		}
		p.end(command(args))
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
	if len(args) <= fact.Args {
		p.T.Fatalf("%s: got %d arguments of %s, want %d", p.Line, len(args)-1, args[0], fact.Args)
	}
	got, err := fact.Get(args[1 : 1+fact.Args])
	if p.Err = err; err != nil {
		if !p.mayFail {
			return fmt.Sprintf("%s: got %v, want no error", args[0], err)
		}

		return ""
	}
	want := args[1+fact.Args:]
	holds := false
	switch how {
	case "is":
		text := Unescape(strings.Join(want, " "))
		holds = got == text || isWithin(got, text)
	case "has":
		holds = !slices.ContainsFunc(want, func(text string) bool { return !Mentions(got, text) })
	case "matches":
		holds = regexp.MustCompile("(?m)" + strings.Join(want, " ")).MatchString(got)
	}
	if holds != p.Line.Not {
		return ""
	}

	return fmt.Sprintf("%s: got %q, want %s %q: %t", args[0], got, how, want, !p.Line.Not)
}

// isWithin reports whether a number or a duration is within a range, such as 1..3, ..3s or 2m.. .
func isWithin(got, want string) bool {
	least, most, isRange := strings.Cut(want, "..")
	value, ok := quantity(got)
	if !isRange || !ok {
		return false
	}
	from, hasFrom := quantity(least)
	to, hasTo := quantity(most)

	return hasFrom != (least == "") && hasTo != (most == "") && (!hasFrom || value >= from) && (!hasTo || value <= to)
}

// quantity returns a number, or the nanoseconds of a duration.
func quantity(text string) (float64, bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, true
	}
	d, err := time.ParseDuration(text)

	return float64(d), err == nil
}

// Mentions reports whether a text contains another one, wherever their lines are broken.
func Mentions(text, part string) bool {
	return strings.Contains(text, part) || strings.Contains(oneLine(text), oneLine(part))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// until CHECK: waits until a look at a fact holds.
func (p *Player) until(args []string) {
	p.T.Helper()
	if p.Wait == nil {
		p.T.Fatalf("%s: got until, want a node that can wait", p.Line)
	}
	isNot := p.Line.Not
	if args[0] == "!" {
		isNot, args = !isNot, args[1:]
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
		for range n {
			p.Words(words)
		}
		return
	}
	for _, value := range strings.Split(values, ",") {
		with := make([]string, len(words))
		for i, word := range words {
			with[i] = strings.ReplaceAll(word, "%", value)
		}
		p.Words(with)
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

// Must ends the test if a step that a command needs has failed.
func (p *Player) Must(err error) {
	p.T.Helper()
	if err != nil {
		p.T.Fatalf("%s: got %v, want no error", p.Line, err)
	}
}

// Package failure recognises in a kubelet's log why it does not start, does not join, or cannot start pods. Callers get
// one sentence and the items of the plan that it concerns; the patterns are from the logs of real kubelets (testdata,
// v1.36) and the source of older ones. The log is not an API, so the kubelet's own words are always returned as well.
// The package must not read anything itself.
package failure

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/plugins/contract"
)

// Cause is why a kubelet fails.
type Cause struct {
	ID       string // of the row that matched
	Sentence string // the cause, without a full stop
	// Items are the possible items of the plan, the likeliest first, as explain names them: label/KEY, taint/KEY,
	// flag/NAME, config/a.b, file/PATH; also cluster/token, and label-value/VALUE or config-value/VALUE if the log has
	// no more.
	Items []string
	Final bool   // each start with these files fails with it
	Words string // the kubelet's own, at most maxWords
}

// secrets matches bootstrap tokens, bearer tokens and JSON Web Tokens.
const secrets = `\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\bBearer\s+\S+|\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`

const (
	maxWords = 400     // bytes of a quoted text
	maxLine  = 8 << 10 // bytes of a line that are searched
)

// Recognise finds the cause in the lines of a log, oldest first. Causes that stop a kubelet win over those that only
// delay it, then the first row that matches, then the last line.
func Recognise(lines []string) (Cause, bool) { return recognise(lines, false) }

// RecogniseInPods finds in the log of a healthy kubelet why it can start no pod at all.
func RecogniseInPods(lines []string) (Cause, bool) { return recognise(lines, true) }

func recognise(lines []string, podsOnly bool) (Cause, bool) {
	entries := joinEntries(lines)
	for _, r := range parseRows() {
		if podsOnly && !r.pods {
			continue
		}
		pattern := regexp.MustCompile(r.pattern)
		for _, entry := range slices.Backward(entries) {
			if match := pattern.FindStringSubmatchIndex(entry); match != nil {
				expand := func(template string) string {
					return strings.TrimSpace(string(pattern.ExpandString(nil, template, entry, match)))
				}

				return r.makeCause(entry, expand), true
			}
		}
	}

	return Cause{}, false
}

// makeCause returns the cause of a matching entry. expand replaces $1 and the like by the entry's submatches.
func (r row) makeCause(entry string, expand func(string) string) Cause {
	c := Cause{
		ID:       r.id,
		Sentence: redact(expand(r.sentence)),
		Final:    r.final,
		Words:    redact(quoteEntry(entry)),
	}
	for _, item := range r.items {
		kind, template, _ := strings.Cut(item, "/")
		names := []string{expand(template)}
		if kind == "labels" {
			kind = "label"
			isSeparator := func(r rune) bool { return r == ' ' || r == ',' }
			names = strings.FieldsFunc(names[0], isSeparator)
		}
		for _, name := range names {
			if name != "" {
				c.Items = append(c.Items, kind+"/"+name)
			}
		}
	}

	return c
}

// LastError returns the last error of a log in which nothing was recognised; "" if it has none.
func LastError(lines []string) string { return shorten(LastErrorWhole(lines)) }

// LastErrorWhole returns the text of LastError without a limit of its length, except that of a line.
func LastErrorWhole(lines []string) string {
	for _, entry := range slices.Backward(joinEntries(lines)) {
		if isError(entry) && !isHarmless(entry) {
			return hideSecrets(quoteEntry(entry))
		}
	}

	return ""
}

// LastLine returns the last line of the log of any unit; "" if it has none.
func LastLine(lines []string) string {
	for _, line := range slices.Backward(lines) {
		line = strings.ToValidUTF8(contract.Shorten(line, maxLine), "?")
		if text := strings.Join(strings.Fields(line), " "); text != "" {
			return redact(text)
		}
	}

	return ""
}

// joinEntries returns each entry as one text: klog writes a value with line breaks as err=< … >, with a tab before
// each line, and escapes quotes within quotes.
func joinEntries(lines []string) []string {
	var entries []string
	isOpen := false
	for _, line := range lines {
		line = strings.TrimRight(line, "\r\n")
		line = strings.ToValidUTF8(contract.Shorten(line, maxLine), "?")
		line = strings.ReplaceAll(readJSON(line), `\"`, `"`)
		switch {
		case isOpen && strings.TrimSpace(line) == ">":
			isOpen = false
		case isOpen:
			entries[len(entries)-1] += " " + strings.TrimSpace(line)
		default:
			isOpen = strings.HasSuffix(line, "=<")
			entries = append(entries, line)
		}
	}

	return entries
}

// readJSON returns an error in klog's JSON form as klog's text; another line unchanged.
func readJSON(line string) string {
	var entry struct{ Msg, Err string }
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &entry) != nil || entry.Err == "" {
		return line
	}

	return `E0101 ] "` + entry.Msg + `" err="` + entry.Err + `"`
}

// errorStart matches klog's E and F, Go's panics, and cobra's errors.
var errorStart = texts.LazyRegexp(`^([EF][0-9]{4}.|panic: |Error: |fatal error: )`)

func isError(entry string) bool {
	return errorStart().MatchString(entry)
}

// isHarmless reports whether every healthy kubelet logs this error in its first seconds.
func isHarmless(entry string) bool {
	return slices.ContainsFunc([]string{
		"Image garbage collection failed once",
		"Unable to register mirror pod because node is not registered yet",
		"Failed to read data from checkpoint",
		"eviction manager: failed",
		"Eviction manager: failed",
		"Skipping pod synchronization",
		"Error getting the current node from lister",
		"rlimit on max file handles",
		"OOM events will not be reported",
		"oom score",
		"Unable to write event",
		"nodes have not yet been read at least once",
	}, func(part string) bool { return strings.Contains(entry, part) })
}

// quoteEntry returns an entry without klog's head, and the error of `"command failed" err="…"` alone. The kubelet
// prints the configuration itself behind some errors.
func quoteEntry(e string) string {
	head, rest, isLong := strings.Cut(e, "] ")
	if isLong && len(head) < 80 && isError(e) {
		e = rest
	}
	if rest, ok := strings.CutPrefix(e, `"command failed" err=`); ok {
		e = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(rest, "<"), `"`), `"`)
	}
	e, _, _ = strings.Cut(e, ", path: &TypeMeta{")
	return strings.Join(strings.Fields(e), " ")
}

// redact replaces what looks like a secret, and shortens a text.
func redact(s string) string { return shorten(hideSecrets(s)) }

func hideSecrets(s string) string { return regexp.MustCompile(secrets).ReplaceAllString(s, "(secret)") }

// shorten cuts a text to maxWords.
func shorten(s string) string { return contract.Shorten(s, maxWords-len("…")) }

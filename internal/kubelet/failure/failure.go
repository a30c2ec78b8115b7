// Package failure knows what a kubelet says when it does not start, starts and does not join, or joins and can start no pod: it
// turns lines of its log into one sentence, and names the items of the plan that it is about. It touches nothing.
//
// The words are the kubelet's own, taken from real ones (testdata; v1.36, and older ones from the source). They are no API: a
// line that no row knows is handed on as it is, so a kubelet of tomorrow costs the sentence and not the message.
package failure

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Cause is what a kubelet fails of.
type Cause struct {
	ID       string // of the row that knew it
	Sentence string // what it is, without a full stop
	// Items are what it may be about, the likeliest first, as explain names them: label/KEY, taint/KEY, flag/NAME, config/a.b,
	// file/PATH; and cluster/token, and, where the kubelet tells no more, label-value/VALUE and config-value/VALUE.
	Items []string
	Final bool   // each start of the kubelet on these files ends so
	Words string // the kubelet's own, bounded
}

// secrets are a bootstrap token's secret half with its id, a bearer token, and a JSON Web Token.
const secrets = `\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\bBearer\s+\S+|\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`

const (
	maxWords = 400     // of what is quoted, in bytes
	maxLine  = 8 << 10 // of a line that is looked at
)

// Recognise finds the cause in the lines of a log, oldest first: what ends a kubelet before what only keeps it waiting, and of
// those the first row that knows a line, the last line first.
func Recognise(lines []string) (Cause, bool) { return recognise(lines, false) }

// OfPods finds in the log of a kubelet that is well why it can start no pod. What one pod alone may fail of, it does not know.
func OfPods(lines []string) (Cause, bool) { return recognise(lines, true) }

func recognise(lines []string, podsOnly bool) (Cause, bool) {
	entries := entriesOf(lines)
	for _, r := range rows() {
		if podsOnly && !r.pods {
			continue
		}
		re := regexp.MustCompile(r.says)
		for i := len(entries) - 1; i >= 0; i-- {
			m := re.FindStringSubmatchIndex(entries[i])
			if m == nil {
				continue
			}
			expand := func(t string) string { return strings.TrimSpace(string(re.ExpandString(nil, t, entries[i], m))) }
			c := Cause{ID: r.id, Sentence: bounded(expand(r.sentence)), Final: r.final, Words: bounded(wordsOf(entries[i]))}
			for _, item := range r.items {
				kind, name, _ := strings.Cut(item, "/")
				names := []string{expand(name)}
				if kind == "labels" {
					kind, names = "label", strings.FieldsFunc(names[0], func(r rune) bool { return r == ' ' || r == ',' })
				}
				for _, n := range names {
					if n != "" {
						c.Items = append(c.Items, kind+"/"+n)
					}
				}
			}
			return c, true
		}
	}
	return Cause{}, false
}

// LastError is the last line that is an error, bounded, for a log in which nothing was recognised; "" when there is none.
func LastError(lines []string) string {
	entries := entriesOf(lines)
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; isError(e) && !isNoise(e) {
			return bounded(wordsOf(e))
		}
	}
	return ""
}

// entriesOf makes one text of each entry: klog writes a value with line breaks as err=< … >, with a tab before each line, and
// quotes within others with backslashes.
func entriesOf(lines []string) (out []string) {
	open := false
	for _, l := range lines {
		l = strings.TrimRight(l, "\r\n")
		if len(l) > maxLine {
			l = l[:maxLine]
		}
		l = strings.ToValidUTF8(l, "?")
		switch {
		case open && strings.TrimSpace(l) == ">":
			open = false
		case open && len(out) > 0:
			out[len(out)-1] += " " + unquoted(strings.TrimSpace(l))
		default:
			open = strings.HasSuffix(l, "=<")
			out = append(out, unquoted(l))
		}
	}
	return out
}

func unquoted(l string) string { return strings.ReplaceAll(l, `\"`, `"`) }

// isError: klog's E and F, its JSON form, what Go prints when it panics, and what cobra does.
func isError(e string) bool {
	klog := len(e) > 5 && (e[0] == 'E' || e[0] == 'F') && strings.Trim(e[1:5], "0123456789") == ""
	return klog || strings.HasPrefix(e, "panic: ") || strings.HasPrefix(e, "Error: ") || strings.HasPrefix(e, "fatal error: ") || strings.Contains(e, `"err":"`)
}

// isNoise are errors that every healthy kubelet has in its first seconds.
func isNoise(e string) bool {
	for _, harmless := range []string{"Image garbage collection failed once", "Unable to register mirror pod because node is not registered yet",
		"Failed to read data from checkpoint", "eviction manager: failed", "Eviction manager: failed", "Skipping pod synchronization",
		"Error getting the current node from lister", "rlimit on max file handles", "OOM events will not be reported", "oom score",
		"Unable to write event", "nodes have not yet been read at least once"} {
		if strings.Contains(e, harmless) {
			return true
		}
	}
	return false
}

// wordsOf is an entry without klog's head: E1120 12:26:29.019072 61 run.go:72] "command failed" err="…" gives "command failed: …".
func wordsOf(e string) string {
	if head, rest, ok := strings.Cut(e, "] "); ok && len(head) < 80 && isError(e) {
		e = rest
	}
	if rest, ok := strings.CutPrefix(e, `"command failed" err=`); ok {
		e = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(rest, "<"), `"`), `"`)
	}
	e = strings.TrimSuffix(e, ", path: &TypeMeta{Kind:,APIVersion:,}")
	return strings.Join(strings.Fields(e), " ")
}

// bounded leaves out what looks like a secret, and cuts a text between runes. A kubelet logs no token, but this is told further.
func bounded(s string) string {
	s = regexp.MustCompile(secrets).ReplaceAllString(s, "(secret)")
	if len(s) <= maxWords {
		return s
	}
	cut := maxWords - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

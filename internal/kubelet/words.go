package kubelet

// Argv returns the words that systemd makes of an environment variable's value where a unit's ExecStart= has
// $VARIABLE as a word of its own, as kubeadm's 10-kubeadm.conf has $KUBELET_EXTRA_ARGS.
//
// The rule is that of systemd.service(5), "Command lines": the value is split at whitespace, "quotes are
// respected when splitting into words, and afterwards removed". In detail, from systemd's extract_first_word()
// with EXTRACT_RELAX|EXTRACT_UNQUOTE (the same from v229 to v257):
//
//   - whitespace is space, tab, newline and carriage return; any run of it separates;
//   - ' and " quote, also in the middle of a word; "" is an empty word;
//   - a backslash, inside quotes of either kind too, makes the next byte literal and is dropped;
//   - a quote that is never closed ends with the value; a backslash that ends the value is dropped,
//     and standing alone there it leaves an empty word behind;
//   - there are no comments: a # is a word like any other;
//   - $ is nothing special: what came out of a variable is not expanded again.
func Argv(value string) []string {
	words := splitWords(value)
	if len(words) == 0 {
		return nil
	}
	argv := make([]string, len(words))
	for i, w := range words {
		argv[i] = w.text
	}
	return argv
}

// valueWord is one word of a value: what the process gets, and the bytes of the value that say so.
type valueWord struct {
	text       string
	start, end int // half open, quotes included
}

func isSeparator(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func splitWords(value string) []valueWord {
	var words []valueWord
	for i := 0; i < len(value); {
		if isSeparator(value[i]) {
			i++
			continue
		}
		text, end := firstWord(value, i)
		words = append(words, valueWord{text, i, end})
		i = end
	}
	return words
}

// firstWord reads the word that begins at start, which is no separator, and says where it ends.
func firstWord(value string, start int) (text string, end int) {
	var word []byte
	var quote byte
	i := start
	for ; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\':
			if i++; i < len(value) {
				word = append(word, value[i])
			}
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word = append(word, c)
			}
		case c == '\'' || c == '"':
			quote = c
		case isSeparator(c):
			return string(word), i
		default:
			word = append(word, c)
		}
	}
	return string(word), min(i, len(value))
}

// quoteWord spells text so that splitWords gives back exactly it. A plain word is spelled as it is; in others
// the special bytes get a backslash, which works alike inside and outside of quotes. empty spells the empty word.
func quoteWord(text, empty string) string {
	if text == "" {
		return empty
	}
	out := make([]byte, 0, len(text)+4)
	for i := range len(text) {
		if c := text[i]; isSeparator(c) || c == '\'' || c == '"' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, text[i])
	}
	return string(out)
}

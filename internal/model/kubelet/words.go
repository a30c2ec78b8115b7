package kubelet

import "strings"

// Argv splits the value of an environment variable into words, as systemd does where ExecStart= has $VARIABLE as a
// separate word, like kubeadm's $KUBELET_EXTRA_ARGS (systemd.service(5), "Command lines"). In detail, from systemd's
// extract_first_word() with EXTRACT_RELAX|EXTRACT_UNQUOTE, v229 to v257:
//
//   - whitespace is space, tab, newline and carriage return;
//   - ' and " quote, also in the middle of a word; "" is an empty word;
//   - a backslash is removed and makes the next byte literal, also within quotes;
//   - the end of the value closes a quote; a backslash there is removed, and is an empty word if it is alone;
//   - # and $ are ordinary characters.
func Argv(value string) []string {
	var argv []string
	for _, w := range splitWords(value) {
		argv = append(argv, w.Text)
	}

	return argv
}

func isSeparator(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// splitWords returns the words with their bytes in the value: with quotes, the end exclusive.
func splitWords(value string) []word {
	var words []word
	for i := 0; i < len(value); {
		if isSeparator(value[i]) {
			i++
			continue
		}
		text, end := readWord(value, i)
		words = append(words, word{Word{Text: text}, i, end, bare})
		i = end
	}
	return words
}

// readWord reads the word that begins at start, and returns its end.
func readWord(value string, start int) (text string, end int) {
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

// joinQuoted returns words as a value that splitWords splits again. empty is the spelling of an empty word.
func joinQuoted(words []string, empty string) string {
	quoted := make([]string, len(words))
	for i, text := range words {
		quoted[i] = quoteWord(text, empty)
	}

	return strings.Join(quoted, " ")
}

// quoteWord escapes a word so that splitWords returns it. A backslash works within and outside of quotes.
func quoteWord(text, empty string) string {
	if text == "" {
		return empty
	}

	return escapeBytes(text, " \t\n\r'\"\\")
}

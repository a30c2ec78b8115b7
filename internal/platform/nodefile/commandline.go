package nodefile

import "strings"

// ReadCommandLine returns the parameters of the kernel command line (/proc/cmdline) by name, nil if it cannot be read.
func (r Root) ReadCommandLine() map[string]string {
	text, f := r.Text("/proc/cmdline")
	if f != nil {
		return nil
	}

	return parseCommandLine(text)
}

// parseCommandLine returns the parameters of a kernel command line by name. Double quotes keep spaces together, as the
// kernel reads them (next_arg in lib/cmdline.c). The last value of a repeated parameter counts. A parameter without a
// value has "".
func parseCommandLine(s string) map[string]string {
	parameters := map[string]string{}
	var word strings.Builder
	quoted := false

	endWord := func() {
		if word.Len() > 0 {
			name, value, _ := strings.Cut(word.String(), "=")
			parameters[name] = value
		}
		word.Reset()
	}

	for _, c := range s {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\n'):
			endWord()
		default:
			word.WriteRune(c)
		}
	}
	endWord()

	return parameters
}

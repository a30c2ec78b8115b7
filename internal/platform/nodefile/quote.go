package nodefile

import "strings"

const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@="

// QuoteWord returns a text as one word of a shell.
func QuoteWord(s string) string {
	if s != "" && strings.Trim(s, shellSafe) == "" {
		return s
	}

	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Word returns the path on this machine of a node's path, as one word of a shell: for a command that is printed.
func (r Root) Word(p string) string { return QuoteWord(r.Path(p)) }

package hardware

import "strings"

// parseTOML reads the part of TOML that a few settings of a container runtime need: tables with quoted parts, dotted keys,
// strings in both quotes, booleans and numbers as text, arrays of strings over several lines. It is tolerant: a line that
// it does not understand is passed over, for judging the file is the runtime's. Strings over several lines are skipped.
func parseTOML(s string) table {
	values := table{}
	var section []string
	lines := strings.Split(s, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			// [[a]] is an array of tables: a new path that no setting of ours has.
			parts, rest, ok := tomlKey(strings.TrimLeft(line, "["))
			section = []string{"?"} // what follows a header that cannot be read belongs nowhere
			if ok && strings.HasPrefix(rest, "]") {
				section = parts
				if strings.HasPrefix(line, "[[") {
					section = append([]string{"[]"}, parts...)
				}
			}
			continue
		}
		parts, rest, ok := tomlKey(line)
		value, isAssignment := strings.CutPrefix(rest, "=")
		if !ok || !isAssignment {
			continue
		}
		value = strings.TrimSpace(value)
		for _, quotes := range []string{`"""`, "'''"} {
			if strings.HasPrefix(value, quotes) {
				for closed := strings.Contains(value[3:], quotes); !closed && i+1 < len(lines); {
					i++
					closed = strings.Contains(lines[i], quotes)
				}
				value = "" // not a setting that is looked for
			}
		}
		path := key(append(append([]string{}, section...), parts...))
		if strings.HasPrefix(value, "[") {
			list, closed := tomlArray(nil, value[1:])
			for !closed && i+1 < len(lines) {
				i++
				list, closed = tomlArray(list, lines[i])
			}
			values[path] = list
			continue
		}
		if text, _, ok := tomlScalar(value); ok {
			values[path] = []string{text}
		}
	}
	return values
}

// tomlKey reads a dotted key: bare parts, and parts in either quotes.
func tomlKey(s string) (parts []string, rest string, ok bool) {
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return nil, "", false
		}
		var part string
		if s[0] == '"' || s[0] == '\'' {
			if part, s, ok = tomlScalar(s); !ok {
				return nil, "", false
			}
		} else {
			end := 0
			for end < len(s) && isBareKey(s[end]) {
				end++
			}
			if end == 0 {
				return nil, "", false
			}
			part, s = s[:end], s[end:]
		}
		parts = append(parts, part)
		s = strings.TrimLeft(s, " \t")
		if !strings.HasPrefix(s, ".") {
			return parts, s, true
		}
		s = s[1:]
	}
}

func isBareKey(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// tomlScalar reads one value at the front of s. Of escapes in double quotes only \" and \\ are undone: the settings are
// paths and names.
func tomlScalar(s string) (value, rest string, ok bool) {
	if s == "" {
		return "", "", false
	}
	switch s[0] {
	case '\'':
		value, rest, ok = strings.Cut(s[1:], "'")
		return value, rest, ok
	case '"':
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '"':
				return b.String(), s[i+1:], true
			case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
				i++
			}
			b.WriteByte(s[i])
		}
		return "", "", false
	}
	end := strings.IndexAny(s, "#,] \t\r")
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], end > 0
}

// tomlArray reads on in an array, and says whether it was closed.
func tomlArray(list []string, s string) ([]string, bool) {
	for {
		s = strings.TrimLeft(s, " \t\r,")
		switch {
		case s == "" || s[0] == '#':
			return list, false
		case s[0] == ']':
			return list, true
		}
		value, rest, ok := tomlScalar(s)
		if !ok || len(rest) == len(s) {
			return list, true // not one of ours
		}
		list = append(list, value)
		s = rest
	}
}

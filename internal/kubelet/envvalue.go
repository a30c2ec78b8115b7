package kubelet

import "strings"

// How an environment file spells values is systemd's own grammar, close to a shell's and not the same
// (systemd.exec(5), EnvironmentFile=; parse_env_file_internal() in src/basic/env-file.c, v252 to v257):
//
//   - a value begins after "=" and leading whitespace. In the beginning, and again after a closing quote, ' and "
//     open a quoted part; once an unquoted part began, quotes are ordinary and the part runs to the end of line;
//   - a carriage return ends a line as a newline does;
//   - unquoted: a backslash keeps the next byte, and with the end of line vanishes; trailing whitespace is cut;
//   - '…': everything up to the next ' as it is, newlines too;
//   - "…": a backslash is dropped before " \ ` $, vanishes together with a newline, and stays otherwise,
//     so that in a CRLF file a continued line leaves "\" CR LF in the value;
//   - # and ; begin a comment at the start of a line only, never inside of a value.

// context is how the environment file quotes a byte of a value.
type context byte

const (
	bare     context = 'b' // not in an environment file at all
	unquoted context = 'u'
	single   context = 's'
	double   context = 'd'
	mixed    context = 'm' // of a word: not the same throughout
)

// cell says which bytes of the environment file make one byte of a value.
type cell struct {
	start, end int
	in         context
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

const doubleQuoteEscapes = "\"\\`$"

// decodeEnvValue reads the value that begins at text[start], just behind "=". It returns the value, one cell for
// each of its bytes, and the position of the line end (or len(text), also within quotes) where the value's text ends.
func decodeEnvValue(text string, start int) (value string, cells []cell, end int) {
	d := envDecoder{text: text, pos: start}
	for d.pos < len(text) {
		c := text[d.pos]
		switch {
		case isLineEnd(c):
			return string(d.value), d.cells, d.pos
		case c == '\'':
			if !d.singleQuoted() {
				return string(d.value), d.cells, len(text)
			}
		case c == '"':
			if !d.doubleQuoted() {
				return string(d.value), d.cells, len(text)
			}
		case isSeparator(c):
			d.pos++
		default:
			d.plain()
			return string(d.value), d.cells, d.pos
		}
	}
	return string(d.value), d.cells, d.pos
}

type envDecoder struct {
	text  string
	pos   int
	value []byte
	cells []cell
}

func (d *envDecoder) put(c byte, start, end int, in context) {
	d.value = append(d.value, c)
	d.cells = append(d.cells, cell{start, end, in})
}

func (d *envDecoder) singleQuoted() (closed bool) {
	for d.pos++; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		if c == '\'' {
			d.pos++
			return true
		}
		d.put(c, d.pos, d.pos+1, single)
	}
	return false
}

func (d *envDecoder) doubleQuoted() (closed bool) {
	for d.pos++; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		switch c {
		case '"':
			d.pos++
			return true
		case '\\':
			at := d.pos
			if d.pos++; d.pos == len(d.text) {
				return false
			}
			switch next := d.text[d.pos]; {
			case strings.IndexByte(doubleQuoteEscapes, next) >= 0:
				d.put(next, at, at+2, double)
			case next != '\n':
				d.put('\\', at, at+1, double)
				d.put(next, at+1, at+2, double)
			}
		default:
			d.put(c, d.pos, d.pos+1, double)
		}
	}
	return false
}

// plain reads an unquoted part, which is always the last of its value.
func (d *envDecoder) plain() {
	keep := len(d.value) // what is cut as trailing whitespace lies behind
	for ; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		switch {
		case isLineEnd(c):
			d.cut(keep)
			return
		case c == '\\':
			at := d.pos
			if d.pos++; d.pos == len(d.text) {
				return // systemd cuts nothing when the file ends in a backslash
			}
			if next := d.text[d.pos]; !isLineEnd(next) {
				d.put(next, at, at+2, unquoted)
			}
			keep = len(d.value)
		default:
			d.put(c, d.pos, d.pos+1, unquoted)
			if !isSeparator(c) {
				keep = len(d.value)
			}
		}
	}
	d.cut(keep)
}

func (d *envDecoder) cut(n int) { d.value, d.cells = d.value[:n], d.cells[:n] }

// encodeEnv spells a piece of a value for a place that is quoted as in says. It may give a text that does not
// decode to the same (a ' inside of '…'); whoever splices it in looks at the result.
func encodeEnv(piece string, in context) string {
	var special string
	switch in {
	case double:
		special = doubleQuoteEscapes
	case unquoted:
		special = "\\"
	default:
		return piece
	}
	if !strings.ContainsAny(piece, special) {
		return piece
	}
	out := make([]byte, 0, len(piece)+4)
	for i := range len(piece) {
		if strings.IndexByte(special, piece[i]) >= 0 {
			out = append(out, '\\')
		}
		out = append(out, piece[i])
	}
	return string(out)
}

package kubelet

import "strings"

// systemd has its own grammar for values in an environment file, similar to a shell's
// (systemd.exec(5), EnvironmentFile=; parse_env_file_internal() in src/basic/env-file.c, v252 to v257):
//
//   - a value begins after "=" and whitespace. At its beginning and after a closing quote, ' and " open a quoted part;
//     in an unquoted part, which extends to the end of the line, quotes are ordinary characters;
//   - a carriage return or a newline ends a line;
//   - unquoted: a backslash is removed and keeps the next byte, or continues the line; trailing whitespace is removed;
//   - '…': all bytes up to the next ' are kept, also newlines;
//   - "…": a backslash is removed before " \ ` $, removed together with a newline, and kept otherwise, so that a
//     continued line of a CRLF file keeps "\" CR LF in the value;
//   - # and ; begin a comment only at the start of a line.

// context is how an environment file quotes a byte of a value.
type context byte

const (
	bare     context = 'b' // not in an environment file
	unquoted context = 'u'
	single   context = 's'
	double   context = 'd'
	mixed    context = 'm' // of a word: several contexts
)

// cell has the bytes of the environment file that make one byte of a value.
type cell struct {
	start, end int
	in         context
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

const doubleQuoteEscapes = "\"\\`$"

// decodeEnvValue parses the value that begins at text[start], after "=". It returns the value, a cell for each of its
// bytes, and the end of the value's text: the position of the line end, or len(text).
func decodeEnvValue(text string, start int) (value string, cells []cell, end int) {
	d := envDecoder{text: text, pos: start}
	for d.pos < len(text) && !isLineEnd(text[d.pos]) {
		switch c := text[d.pos]; {
		case c == '\'':
			d.readSingleQuoted()
		case c == '"':
			d.readDoubleQuoted()
		case isSeparator(c):
			d.pos++
		default:
			d.readUnquoted()
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

// readSingleQuoted reads up to the closing quote, or the end of the text.
func (d *envDecoder) readSingleQuoted() {
	for d.pos++; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		if c == '\'' {
			d.pos++
			return
		}
		d.put(c, d.pos, d.pos+1, single)
	}
}

// readDoubleQuoted reads up to the closing quote, or the end of the text.
func (d *envDecoder) readDoubleQuoted() {
	for d.pos++; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		switch c {
		case '"':
			d.pos++
			return
		case '\\':
			at := d.pos
			if d.pos++; d.pos == len(d.text) {
				return
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
}

// readUnquoted reads an unquoted part, which ends at the end of the line or of the text.
func (d *envDecoder) readUnquoted() {
	keep := len(d.value) // without trailing whitespace
	for ; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		switch {
		case isLineEnd(c):
			d.truncate(keep)
			return
		case c == '\\':
			at := d.pos
			if d.pos++; d.pos == len(d.text) {
				return // systemd keeps trailing whitespace if the file ends in a backslash
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
	d.truncate(keep)
}

func (d *envDecoder) truncate(n int) {
	d.value = d.value[:n]
	d.cells = d.cells[:n]
}

// encodeEnv escapes a piece of a value for a context. The result may decode to another value (a ' within '…'), so
// callers parse it again.
func encodeEnv(piece string, in context) string {
	switch in {
	case double:
		return escapeBytes(piece, doubleQuoteEscapes)
	case unquoted:
		return escapeBytes(piece, "\\")
	}

	return piece
}

// escapeBytes adds a backslash before each special byte.
func escapeBytes(text, special string) string {
	var out []byte
	for i := range len(text) {
		if strings.IndexByte(special, text[i]) >= 0 {
			out = append(out, '\\')
		}
		out = append(out, text[i])
	}

	return string(out)
}

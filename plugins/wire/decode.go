package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/prelet/prelet/plugins/contract"
)

// What is read is bounded before it is checked: contract refuses far less than this.
const (
	maxDepth = 32                      // of values and types in each other
	maxMany  = 8 * contract.MaxDevices // messages in one list: an empty one is two bytes on the wire, and a hundred in memory
)

// Errors of what is no message. What they are wrapped in names no place: who sends this has another protocol.
var (
	errMessage = errors.New("it is no message of detector.v1")
	// ErrBounds is a message that is nested deeper, or holds more, than any that the contract would let pass.
	ErrBounds = errors.New("it is larger than detector.v1 allows")
	errDeep   = fmt.Errorf("%w: nested deeper than %d", ErrBounds, maxDepth)
	errMany   = fmt.Errorf("%w: more than %d in one list", ErrBounds, maxMany)
)

// field is one field of a message that is being read.
type field struct {
	number, form int
	v            uint64 // of the numbers
	b            []byte // of what is delimited
}

// is tells whether it is that field in that form. One in another form is as one that nobody knows.
func (f field) is(number, form int) bool { return f.number == number && f.form == form }

// each reads a message, field by field. Those that f does not take belong to a later version.
func each(b []byte, f func(field) error) error {
	for len(b) > 0 {
		x, rest, err := next(b)
		if err != nil {
			return err
		}
		if x.form == groupEnd {
			return fmt.Errorf("%w: a group ends that did not begin", errMessage)
		}
		if x.form == groupStart {
			if rest, err = skip(rest, x.number, 0); err != nil {
				return err
			}
		} else if err := f(x); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func next(b []byte) (x field, rest []byte, err error) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return x, nil, fmt.Errorf("%w: a field without a number", errMessage)
	}
	x, b = field{number: int(tag >> 3), form: int(tag & 7)}, b[n:]
	short := fmt.Errorf("%w: it ends inside field %d", errMessage, x.number)
	switch x.form {
	case varint:
		if x.v, n = binary.Uvarint(b); n <= 0 {
			return x, nil, short
		}
		return x, b[n:], nil
	case fixed64:
		if len(b) < 8 {
			return x, nil, short
		}
		x.v = binary.LittleEndian.Uint64(b)
		return x, b[8:], nil
	case fixed32:
		if len(b) < 4 {
			return x, nil, short
		}
		return x, b[4:], nil
	case delimited:
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return x, nil, short
		}
		x.b = b[n : n+int(size)]
		return x, b[n+int(size):], nil
	case groupStart, groupEnd:
		return x, b, nil
	}
	return x, nil, fmt.Errorf("%w: field %d has no known form", errMessage, x.number)
}

// skip passes over a group, which no message of ours has.
func skip(b []byte, number, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	for len(b) > 0 {
		x, rest, err := next(b)
		switch {
		case err != nil:
			return nil, err
		case x.form == groupEnd && x.number != number:
			return nil, fmt.Errorf("%w: a group ends that did not begin", errMessage)
		case x.form == groupEnd:
			return rest, nil
		case x.form == groupStart:
			if rest, err = skip(rest, x.number, depth+1); err != nil {
				return nil, err
			}
		}
		b = rest
	}
	return nil, fmt.Errorf("%w: a group does not end", errMessage)
}

// text sets what it points to.
func (f field) text(to *string) error {
	if !utf8.Valid(f.b) {
		return fmt.Errorf("%w: field %d is no UTF-8", errMessage, f.number)
	}
	*to = string(f.b)
	return nil
}

func (f field) maybe(to **string) error {
	*to = new(string)
	return f.text(*to)
}

func (f field) texts(to *[]string) error {
	var s string
	err := f.text(&s)
	*to = append(*to, s)
	return err
}

func (f field) float() *float64 { return new(math.Float64frombits(f.v)) }

// count is a number of 32 bits.
func (f field) count() *int { return new(int(uint32(f.v))) }

// texted sets one entry of a map.
func (f field) texted(m *map[string]string) error {
	var k, v string
	if err := each(f.b, func(f field) error {
		switch {
		case f.is(1, delimited):
			return f.text(&k)
		case f.is(2, delimited):
			return f.text(&v)
		}
		return nil
	}); err != nil {
		return err
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[k] = v
	return nil
}

// value reads a google.protobuf.Value into a variable. The last of several counts; objects and lists that follow each other
// are one, as everywhere in protobuf.
func (f field) value(to *any, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	return each(f.b, func(f field) error {
		switch {
		case f.is(1, varint):
			*to = nil
		case f.is(2, fixed64):
			*to = math.Float64frombits(f.v)
		case f.is(3, delimited):
			var s string
			err := f.text(&s)
			*to = s
			return err
		case f.is(4, varint):
			*to = f.v != 0
		case f.is(5, delimited):
			m, ok := (*to).(map[string]any)
			if !ok {
				m = map[string]any{}
			}
			*to = m
			return f.object(m, depth+1)
		case f.is(6, delimited):
			l, ok := (*to).([]any)
			if !ok {
				l = []any{}
			}
			err := each(f.b, func(f field) error {
				if !f.is(1, delimited) {
					return nil
				}
				var v any
				err := f.value(&v, depth+1)
				l = append(l, v)
				return err
			})
			*to = l
			return err
		}
		return nil
	})
}

// object reads a google.protobuf.Struct into a map.
func (f field) object(m map[string]any, depth int) error {
	return each(f.b, func(f field) error {
		if !f.is(1, delimited) {
			return nil
		}
		var k string
		var v any
		err := each(f.b, func(f field) error {
			switch {
			case f.is(1, delimited):
				return f.text(&k)
			case f.is(2, delimited):
				return f.value(&v, depth)
			}
			return nil
		})
		m[k] = v
		return err
	})
}

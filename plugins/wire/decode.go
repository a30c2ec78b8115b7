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

// DecodeDescription reads a DescribeResponse. It checks the form only: contract.Description.Check does the rest.
func DecodeDescription(b []byte) (d contract.Description, err error) {
	err = each(b, func(f field) error {
		if f.form != delimited {
			return nil
		}
		switch f.number {
		case 1:
			return f.text(&d.Name)
		case 2:
			return f.text(&d.Version)
		case 3:
			return f.text(&d.Vendor)
		case 4:
			return f.text(&d.Doc)
		case 5:
			return f.attribute(&d.Config, 0)
		case 6:
			return f.attribute(&d.Facts, 0)
		case 7:
			return f.texts(&d.LabelDomains)
		case 8:
			return f.match(&d.Match)
		case 9:
			return f.needs(&d.Needs)
		case 10:
			return f.needs(&d.Wants)
		}
		return nil
	})
	return d, err
}

func (f field) match(m *contract.Match) error {
	return each(f.b, func(f field) error {
		switch {
		case f.is(1, delimited):
			return f.texts(&m.PCIIDs)
		case f.is(2, delimited):
			return f.texts(&m.Paths)
		case f.is(3, varint):
			m.Always = f.v != 0
		}
		return nil
	})
}

func (f field) needs(n *contract.Needs) error {
	lists := []*[]string{&n.Devices, &n.Read, &n.Execute, &n.Sockets, &n.Groups}
	return each(f.b, func(f field) error {
		if f.form == delimited && f.number <= len(lists) {
			return f.texts(lists[f.number-1])
		}
		return nil
	})
}

func (f field) attribute(list *[]contract.Attribute, depth int) error {
	if len(*list) >= maxMany {
		return errMany
	}
	var a contract.Attribute
	err := each(f.b, func(f field) error {
		switch {
		case f.is(1, delimited):
			return f.text(&a.Name)
		case f.is(2, delimited):
			return f.typ(&a.Type, depth)
		case f.is(3, delimited):
			return f.text(&a.Doc)
		case f.is(4, varint):
			a.Required = f.v != 0
		case f.is(5, delimited):
			return f.value(&a.Default, depth)
		case f.is(6, delimited):
			return f.text(&a.Unit)
		case f.is(7, delimited):
			return f.texts(&a.OneOf)
		case f.is(8, fixed64):
			a.Minimum = f.float()
		case f.is(9, fixed64):
			a.Maximum = f.float()
		}
		return nil
	})
	*list = append(*list, a)
	return err
}

func (f field) typ(t *contract.Type, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	return each(f.b, func(f field) error {
		switch {
		case f.is(1, varint):
			t.Kind = ""
			if n := int32(uint32(f.v)); n > 0 && int(n) < len(kinds()) {
				t.Kind = kinds()[n]
			}
		case f.is(2, delimited):
			if t.Element == nil {
				t.Element = &contract.Type{}
			}
			return f.typ(t.Element, depth+1)
		case f.is(3, delimited):
			return f.attribute(&t.Attributes, depth+1)
		}
		return nil
	})
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

// DecodeConfig reads a ValidateRequest. The configuration is never nil.
func DecodeConfig(b []byte) (map[string]any, error) {
	r, err := DecodeRequest(b) // whose first field is the same
	return r.Config, err
}

// DecodeProblems reads a ValidateResponse.
func DecodeProblems(b []byte) (list contract.Problems, err error) {
	err = each(b, func(f field) error {
		if f.is(1, delimited) {
			return f.problem((*[]contract.Problem)(&list))
		}
		return nil
	})
	return list, err
}

func (f field) problem(list *[]contract.Problem) error {
	if len(*list) >= maxMany {
		return errMany
	}
	var p contract.Problem
	to := []*string{&p.Path, &p.Summary, &p.Detail}
	err := f.strings(to)
	*list = append(*list, p)
	return err
}

// strings reads a message whose fields from 1 on are texts.
func (f field) strings(to []*string) error {
	return each(f.b, func(f field) error {
		if f.form == delimited && f.number <= len(to) {
			return f.text(to[f.number-1])
		}
		return nil
	})
}

// DecodeRequest reads a DetectRequest. The configuration is never nil.
func DecodeRequest(b []byte) (r Request, err error) {
	r.Config = map[string]any{}
	err = each(b, func(f field) error {
		switch {
		case f.is(1, delimited):
			return f.object(r.Config, 0)
		case f.is(2, delimited):
			return f.pci(&r.Devices)
		case f.is(3, delimited):
			return f.text(&r.Root)
		}
		return nil
	})
	return r, err
}

func (f field) pci(list *[]contract.PCIDevice) error {
	if len(*list) >= maxMany {
		return errMany
	}
	var d contract.PCIDevice
	to := []*string{&d.Address, &d.Vendor, &d.Device, &d.SubsystemVendor, &d.SubsystemDevice, &d.Class, &d.Driver}
	err := each(f.b, func(f field) error {
		switch {
		case f.form == delimited && f.number <= len(to):
			return f.text(to[f.number-1])
		case f.is(8, varint):
			d.NUMA = f.count()
		}
		return nil
	})
	*list = append(*list, d)
	return err
}

// DecodeAnswer reads a DetectResponse. It checks the form only: contract.Description.CheckAnswer does the rest.
func DecodeAnswer(b []byte) (a contract.Answer, err error) {
	err = each(b, func(f field) error {
		if f.form != delimited {
			return nil
		}
		switch f.number {
		case 1:
			return f.device(&a.Devices)
		case 2:
			return f.texted(&a.Attributes)
		case 3:
			return f.fact(&a.Facts)
		case 4:
			return f.label(&a.Labels)
		case 5:
			return f.texts(&a.Warnings)
		case 6:
			return f.problem(&a.Problems)
		}
		return nil
	})
	return a, err
}

func (f field) fact(list *[]contract.Fact) error {
	if len(*list) >= maxMany {
		return errMany
	}
	var x contract.Fact
	err := each(f.b, func(f field) error {
		switch {
		case f.is(1, delimited):
			return f.text(&x.Name)
		case f.is(2, delimited):
			return f.value(&x.Value, 0)
		case f.is(3, delimited):
			return f.text(&x.Evidence)
		case f.is(4, delimited):
			return f.text(&x.Unknown)
		}
		return nil
	})
	*list = append(*list, x)
	return err
}

func (f field) label(list *[]contract.Label) error {
	if len(*list) >= maxMany {
		return errMany
	}
	var l contract.Label
	err := f.strings([]*string{&l.Key, &l.Value, &l.Evidence})
	*list = append(*list, l)
	return err
}

func (f field) device(list *[]contract.Device) error {
	if len(*list) >= maxMany {
		return errMany
	}
	var d contract.Device
	texts := map[int]**string{2: &d.Name, 3: &d.Kind, 4: &d.Vendor, 5: &d.Model, 6: &d.Driver, 9: &d.Interface, 11: &d.Link}
	counts := map[int]**int{8: &d.NUMA, 12: &d.SRIOVTotalVFs, 13: &d.SRIOVNumVFs}
	err := each(f.b, func(f field) error {
		switch {
		case f.is(1, delimited):
			return f.text(&d.Address)
		case f.form == delimited && texts[f.number] != nil:
			return f.maybe(texts[f.number])
		case f.is(7, varint):
			d.MemoryBytes = new(f.v)
		case f.form == varint && counts[f.number] != nil:
			*counts[f.number] = f.count()
		case f.is(10, fixed64):
			d.SpeedGbps = f.float()
		case f.is(14, delimited):
			return f.texted(&d.Attributes)
		case f.is(15, delimited):
			return f.texted(&d.Evidence)
		}
		return nil
	})
	*list = append(*list, d)
	return err
}

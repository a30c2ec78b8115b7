package wire

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/prelet/prelet/plugins/contract"
)

// The forms that a field can have on the wire (protobuf.dev/programming-guides/encoding).
const (
	varint     = 0
	fixed64    = 1
	delimited  = 2
	groupStart = 3
	groupEnd   = 4
	fixed32    = 5
)

// writer collects one message. As proto3 has it, what is zero is not written, unless its presence means something.
type writer struct{ b []byte }

func (w *writer) tag(field, form int) { w.b = binary.AppendUvarint(w.b, uint64(field)<<3|uint64(form)) }

func (w *writer) always(field int, s string) {
	w.tag(field, delimited)
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) text(field int, s string) {
	if s != "" {
		w.always(field, s)
	}
}

func (w *writer) maybe(field int, s *string) {
	if s != nil {
		w.always(field, *s)
	}
}

func (w *writer) texts(field int, list []string) {
	for _, s := range list {
		w.always(field, s)
	}
}

func (w *writer) number(field int, v uint64) {
	w.tag(field, varint)
	w.b = binary.AppendUvarint(w.b, v)
}

func (w *writer) truth(field int, v bool) {
	if v {
		w.number(field, 1)
	}
}

func (w *writer) float(field int, v *float64) {
	if v != nil {
		w.tag(field, fixed64)
		w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(*v))
	}
}

// count writes a number of 32 bits. One that does not fit is written as one that the checks refuse, not as another number.
func (w *writer) count(field int, n *int) {
	switch {
	case n == nil:
	case *n < 0 || *n > math.MaxUint32:
		w.number(field, math.MaxUint32)
	default:
		w.number(field, uint64(*n))
	}
}

// message writes what f writes as one field, even if that is nothing.
func (w *writer) message(field int, f func(*writer)) {
	var inner writer
	f(&inner)
	w.tag(field, delimited)
	w.b = binary.AppendUvarint(w.b, uint64(len(inner.b)))
	w.b = append(w.b, inner.b...)
}

func (w *writer) texted(field int, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.message(field, func(w *writer) {
			w.text(1, k)
			w.text(2, m[k])
		})
	}
}

// EncodeDescription writes a DescribeResponse.
func EncodeDescription(d contract.Description) []byte {
	var w writer
	w.text(1, d.Name)
	w.text(2, d.Version)
	w.text(3, d.Vendor)
	w.text(4, d.Doc)
	w.attributes(5, d.Config)
	w.attributes(6, d.Facts)
	w.texts(7, d.LabelDomains)
	w.message(8, func(w *writer) {
		w.texts(1, d.Match.PCIIDs)
		w.texts(2, d.Match.Paths)
		w.truth(3, d.Match.Always)
	})
	w.needs(9, d.Needs)
	w.needs(10, d.Wants)
	return w.b
}

func (w *writer) needs(field int, n contract.Needs) {
	w.message(field, func(w *writer) {
		w.texts(1, n.Devices)
		w.texts(2, n.Read)
		w.texts(3, n.Execute)
		w.texts(4, n.Sockets)
		w.texts(5, n.Groups)
	})
}

func (w *writer) attributes(field int, list []contract.Attribute) {
	for _, a := range list {
		w.message(field, func(w *writer) {
			w.text(1, a.Name)
			w.message(2, func(w *writer) { w.typ(a.Type) })
			w.text(3, a.Doc)
			w.truth(4, a.Required)
			if a.Default != nil {
				w.message(5, func(w *writer) { w.value(a.Default) })
			}
			w.text(6, a.Unit)
			w.texts(7, a.OneOf)
			w.float(8, a.Minimum)
			w.float(9, a.Maximum)
		})
	}
}

func (w *writer) typ(t contract.Type) {
	if n := slices.Index(kinds(), t.Kind); n > 0 {
		w.number(1, uint64(n))
	}
	if t.Element != nil {
		w.message(2, func(w *writer) { w.typ(*t.Element) })
	}
	w.attributes(3, t.Attributes)
}

// kinds are those of Type.Kind, by their numbers.
func kinds() []contract.Kind {
	return []contract.Kind{"", contract.String, contract.Number, contract.Bool, contract.List, contract.Map, contract.Object}
}

// value writes a google.protobuf.Value. What is none of contract's values becomes null; contract's checks find that before.
func (w *writer) value(v any) {
	switch v := v.(type) {
	case float64:
		w.float(2, &v)
	case int:
		f := float64(v)
		w.float(2, &f)
	case string:
		w.always(3, v)
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		w.number(4, n)
	case map[string]any:
		w.message(5, func(w *writer) { w.object(v) })
	case []any:
		w.message(6, func(w *writer) {
			for _, e := range v {
				w.message(1, func(w *writer) { w.value(e) })
			}
		})
	default:
		w.number(1, 0)
	}
}

// object writes a google.protobuf.Struct.
func (w *writer) object(m map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.message(1, func(w *writer) {
			w.text(1, k)
			w.message(2, func(w *writer) { w.value(m[k]) })
		})
	}
}

// EncodeConfig writes a ValidateRequest.
func EncodeConfig(config map[string]any) []byte {
	var w writer
	w.message(1, func(w *writer) { w.object(config) })
	return w.b
}

// EncodeProblems writes a ValidateResponse.
func EncodeProblems(list []contract.Problem) []byte {
	var w writer
	w.problems(1, list)
	return w.b
}

func (w *writer) problems(field int, list []contract.Problem) {
	for _, p := range list {
		w.message(field, func(w *writer) {
			w.text(1, p.Path)
			w.text(2, p.Summary)
			w.text(3, p.Detail)
		})
	}
}

// EncodeRequest writes a DetectRequest.
func EncodeRequest(r Request) []byte {
	var w writer
	w.message(1, func(w *writer) { w.object(r.Config) })
	for _, d := range r.Devices {
		w.message(2, func(w *writer) {
			for i, s := range []string{d.Address, d.Vendor, d.Device, d.SubsystemVendor, d.SubsystemDevice, d.Class, d.Driver} {
				w.text(i+1, s)
			}
			w.count(8, d.NUMA)
		})
	}
	w.text(3, r.Root)
	return w.b
}

// EncodeAnswer writes a DetectResponse.
func EncodeAnswer(a contract.Answer) []byte {
	var w writer
	for _, d := range a.Devices {
		w.message(1, func(w *writer) { w.device(d) })
	}
	w.texted(2, a.Attributes)
	for _, f := range a.Facts {
		w.message(3, func(w *writer) {
			w.text(1, f.Name)
			w.message(2, func(w *writer) { w.value(f.Value) })
			w.text(3, f.Evidence)
			w.text(4, f.Unknown)
		})
	}
	for _, l := range a.Labels {
		w.message(4, func(w *writer) {
			w.text(1, l.Key)
			w.text(2, l.Value)
			w.text(3, l.Evidence)
		})
	}
	w.texts(5, a.Warnings)
	w.problems(6, a.Problems)
	return w.b
}

func (w *writer) device(d contract.Device) {
	w.text(1, d.Address)
	for i, s := range []*string{d.Name, d.Kind, d.Vendor, d.Model, d.Driver} {
		w.maybe(i+2, s)
	}
	if d.MemoryBytes != nil {
		w.number(7, *d.MemoryBytes)
	}
	w.count(8, d.NUMA)
	w.maybe(9, d.Interface)
	w.float(10, d.SpeedGbps)
	w.maybe(11, d.Link)
	w.count(12, d.SRIOVTotalVFs)
	w.count(13, d.SRIOVNumVFs)
	w.texted(14, d.Attributes)
	w.texted(15, d.Evidence)
}

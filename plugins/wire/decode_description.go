package wire

import "github.com/prelet/prelet/plugins/contract"

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

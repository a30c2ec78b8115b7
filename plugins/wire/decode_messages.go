package wire

import "github.com/prelet/prelet/plugins/contract"

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

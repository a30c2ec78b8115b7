package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Describe returns a detector's description in the words of the contract, checked. A panic becomes an error.
func Describe(d Detector) (out contract.Description, err error) {
	defer recovered("Describe", &err)
	x := d.Describe()
	out = contract.Description{Name: x.Name, Version: x.Version, Vendor: x.Vendor, Doc: x.Doc, Config: declared(x.Config), Facts: declared(x.Facts),
		LabelDomains: x.Domains, Match: x.Match, Needs: x.Needs, Wants: x.Wants}
	if problems := out.Check(); len(problems) > 0 {
		return out, fmt.Errorf("the description is not usable:\n%w", problems)
	}
	return out, nil
}

func declared(list []Declaration) []contract.Attribute {
	var out []contract.Attribute
	for _, x := range list {
		out = append(out, x.Declare())
	}
	return out
}

// Validate says what is wrong with a configuration: first by the schema, and if that finds nothing, by the detector's
// own rules. The configuration that it returns is complete.
func Validate(d Detector, config map[string]any) (complete Config, problems []Problem, err error) {
	description, err := Describe(d)
	if err != nil {
		return nil, nil, err
	}
	complete, found := contract.Config(description.Config, config)
	if len(found) > 0 {
		return complete, found, nil
	}
	problems, err = ownRules(d, complete)
	return complete, problems, err
}

func ownRules(d Detector, complete Config) (problems []Problem, err error) {
	v, ok := d.(Validator)
	if !ok {
		return nil, nil
	}
	defer recovered("Validate", &err)
	defer refused(&problems)
	return v.Validate(complete), nil
}

// Detect runs a detector: on a checked and completed configuration, inside the deadline of ctx, panics caught, its
// answer sorted and checked. Problems of the configuration are in the answer. When ctx ends first, the detector is left
// behind, and the error is ctx's.
func Detect(ctx context.Context, d Detector, config map[string]any, devices []PCIDevice, root Root) (contract.Answer, error) {
	complete, problems, err := Validate(d, config)
	if err != nil || len(problems) > 0 {
		return contract.Answer{Problems: problems}, err
	}
	type result struct {
		answer contract.Answer
		err    error
	}
	done := make(chan result, 1) // with room, so that one that comes late can go
	go func() {
		var a Answer
		err := detect(ctx, d, Request{complete, devices, root}, &a)
		done <- result{a.said, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		return contract.Answer{}, fmt.Errorf("not done in time: %w", context.Cause(ctx))
	}
	if r.err != nil {
		return contract.Answer{}, r.err
	}
	tidy(&r.answer)
	description, err := Describe(d)
	if err != nil {
		return contract.Answer{}, err
	}
	if broken := description.CheckAnswer(r.answer, devices); len(broken) > 0 {
		return r.answer, fmt.Errorf("the answer breaks the description:\n%w", broken)
	}
	return r.answer, nil
}

func detect(ctx context.Context, d Detector, r Request, a *Answer) (err error) {
	defer recovered("Detect", &err)
	defer refused(&a.said.Problems)
	return d.Detect(ctx, r, a)
}

// tidy sorts, so that an answer is the same whatever order the devices were found in, and makes texts fit for a
// terminal: what firmware says of itself holds all kinds of bytes, and is no reason to lose an answer.
func tidy(a *contract.Answer) {
	if len(a.Problems) > 0 {
		*a = contract.Answer{Problems: a.Problems}
		return
	}
	printable(a.Attributes)
	for i := range a.Devices {
		d := &a.Devices[i]
		printable(d.Attributes)
		printable(d.Evidence)
		for _, s := range []**string{&d.Name, &d.Model, &d.Driver, &d.Interface} {
			if *s == nil {
				continue
			}
			if *s = new(contract.OneLine(**s)); **s == "" {
				*s = nil // a file that is empty tells nothing
			}
		}
	}
	for i := range a.Facts {
		a.Facts[i].Value = printableValue(a.Facts[i].Value)
		a.Facts[i].Evidence = contract.OneLine(a.Facts[i].Evidence)
	}
	slices.SortStableFunc(a.Devices, func(x, y Device) int { return strings.Compare(x.Address, y.Address) })
	slices.SortStableFunc(a.Facts, func(x, y contract.Fact) int { return strings.Compare(x.Name, y.Name) })
	slices.SortStableFunc(a.Labels, func(x, y contract.Label) int { return strings.Compare(x.Key, y.Key) })
}

func printable(m map[string]string) {
	for k, v := range m {
		m[k] = contract.OneLine(v)
	}
}

func printableValue(v any) any {
	switch v := v.(type) {
	case string:
		return contract.OneLine(v)
	case []any:
		for i := range v {
			v[i] = printableValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[contract.OneLine(k)] = printableValue(v[k])
		}
		return out
	}
	return v
}

// refused turns what Attr.Lookup panics with into a problem. It must run before recovered.
func refused(problems *[]Problem) {
	if p := recover(); p != nil {
		r, ok := p.(refusal)
		if !ok {
			panic(p)
		}
		*problems = []Problem{r.Problem}
	}
}

// Panicked is the error of a detector that panicked.
type Panicked struct {
	In    string // the method
	Value any
	Stack []byte
}

// Error implements error, without the stack.
func (p *Panicked) Error() string { return fmt.Sprintf("%s panicked: %v", p.In, p.Value) }

func recovered(in string, err *error) {
	if p := recover(); p != nil {
		*err = &Panicked{in, p, debug.Stack()}
	}
}

// stack returns what of an error is for standard error only.
func stack(err error) []byte {
	var p *Panicked
	if errors.As(err, &p) {
		return p.Stack
	}
	return nil
}

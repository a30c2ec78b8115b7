package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Describe returns a detector's description, checked. A panic becomes an error.
func Describe(d Detector) (out contract.Description, err error) {
	defer recoverPanic("Describe", &err)
	x := d.Describe()
	out = contract.Description{
		Name:         x.Name,
		Version:      x.Version,
		Vendor:       x.Vendor,
		Doc:          x.Doc,
		Config:       declareAll(x.Config),
		Facts:        declareAll(x.Facts),
		LabelDomains: x.Domains,
		Match:        x.Match,
		Needs:        x.Needs,
		Wants:        x.Wants,
	}
	if problems := out.Check(); len(problems) > 0 {
		return out, fmt.Errorf("invalid description:\n%w", problems)
	}

	return out, nil
}

func declareAll(list []Declaration) []contract.Attribute {
	var out []contract.Attribute
	for _, x := range list {
		out = append(out, x.Declare())
	}

	return out
}

// Validate checks a configuration against its declaration, and then with the detector's own rules. The configuration
// that it returns is complete.
func Validate(d Detector, config map[string]any) (complete Config, problems []Problem, err error) {
	description, err := Describe(d)
	if err != nil {
		return nil, nil, err
	}
	complete, found := contract.Config(description.Config, config)
	v, hasRules := d.(Validator)
	if len(found) > 0 || !hasRules {
		return complete, found, nil
	}

	defer recoverPanic("Validate", &err)
	defer recoverRefusal(&problems)

	return complete, v.Validate(complete), nil
}

// Detect runs a detector with a complete configuration and returns its answer, sorted and checked. Problems of the
// configuration are in the answer. If ctx ends first, it returns ctx's error and does not wait for the detector.
func Detect(
	ctx context.Context,
	d Detector,
	config map[string]any,
	devices []PCIDevice,
	root Root,
) (contract.Answer, error) {
	complete, problems, err := Validate(d, config)
	if err != nil || len(problems) > 0 {
		return contract.Answer{Problems: problems}, err
	}

	type result struct {
		answer contract.Answer
		err    error
	}
	done := make(chan result, 1) // buffered: the result may come too late
	go func() {
		var a Answer
		err := detect(ctx, d, Request{complete, devices, root}, &a)
		done <- result{a.content, err}
	}()

	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		r.err = fmt.Errorf("the detection exceeded its deadline: %w", context.Cause(ctx))
	}
	if r.err != nil {
		return contract.Answer{}, r.err
	}
	tidy(&r.answer)

	description, err := Describe(d)
	if err != nil {
		return contract.Answer{}, err
	}
	broken := description.CheckAnswer(r.answer, devices)
	if len(broken) > 0 {
		return r.answer, fmt.Errorf("the answer breaks the description:\n%w", broken)
	}

	return r.answer, nil
}

func detect(ctx context.Context, d Detector, r Request, a *Answer) (err error) {
	defer recoverPanic("Detect", &err)
	defer recoverRefusal(&a.content.Problems)

	return d.Detect(ctx, r, a)
}

// tidy sorts an answer and makes its texts printable: firmware may contain any bytes, and that should not discard the
// answer.
func tidy(a *contract.Answer) {
	if len(a.Problems) > 0 {
		*a = contract.Answer{Problems: a.Problems}
		return
	}

	tidyTexts(a.Attributes)
	for i := range a.Devices {
		d := &a.Devices[i]
		tidyTexts(d.Attributes)
		tidyTexts(d.Evidence)
		d.Name = tidyOptional(d.Name)
		d.Model = tidyOptional(d.Model)
		d.Driver = tidyOptional(d.Driver)
		d.Interface = tidyOptional(d.Interface)
	}
	for i := range a.Facts {
		f := &a.Facts[i]
		f.Value = tidyValue(f.Value)
		f.Evidence = contract.OneLine(f.Evidence)
	}

	slices.SortStableFunc(a.Devices, func(x, y Device) int {
		return strings.Compare(x.Address, y.Address)
	})
	slices.SortStableFunc(a.Facts, func(x, y contract.Fact) int {
		return strings.Compare(x.Name, y.Name)
	})
	slices.SortStableFunc(a.Labels, func(x, y contract.Label) int {
		return strings.Compare(x.Key, y.Key)
	})
}

func tidyTexts(m map[string]string) {
	for k, v := range m {
		m[k] = contract.OneLine(v)
	}
}

// tidyOptional returns nil for an empty text, for example of an empty file.
func tidyOptional(s *string) *string {
	if s == nil {
		return nil
	}
	if text := contract.OneLine(*s); text != "" {
		return &text
	}

	return nil
}

func tidyValue(v any) any {
	switch v := v.(type) {
	case string:
		return contract.OneLine(v)
	case []any:
		for i := range v {
			v[i] = tidyValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[contract.OneLine(k)] = tidyValue(e)
		}
		return out
	}

	return v
}

// recoverRefusal turns the panic of Attr.Lookup into a problem. Defer it after recoverPanic, so that it runs first.
func recoverRefusal(problems *[]Problem) {
	if p := recover(); p != nil {
		r, isRefusal := p.(refusal)
		if !isRefusal {
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
func (p *Panicked) Error() string {
	return fmt.Sprintf("%s panicked: %v", p.In, p.Value)
}

func recoverPanic(method string, err *error) {
	if p := recover(); p != nil {
		*err = &Panicked{method, p, debug.Stack()}
	}
}

// panicStack returns the stack of a panic, for standard error.
func panicStack(err error) []byte {
	var p *Panicked
	if errors.As(err, &p) {
		return p.Stack
	}

	return nil
}

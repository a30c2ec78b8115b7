package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// Describe returns a detector's description, checked. A type that cannot be declared is an error.
func Describe(d Detector) (out contract.Description, err error) {
	defer recoverPanic("Describe", &err)
	out = contract.Description{
		Name:         d.Name,
		Version:      d.Version,
		Vendor:       d.Vendor,
		Doc:          d.Doc,
		Config:       declareAll(d.Config),
		Facts:        declareAll(d.Facts),
		LabelDomains: d.Domains,
		Match:        d.Match,
		Needs:        d.Needs,
		Wants:        d.Wants,

		TimeoutSeconds: int(d.Timeout.Seconds()),
	}
	if problems := out.Check(); len(problems) > 0 {
		return out, fmt.Errorf("invalid description:\n%w", problems)
	}
	if d.Detect == nil {
		return out, errors.New("the declaration has no function Detect")
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
	defer recoverPanic("Validate", &err)
	defer recoverRefusal(&problems)
	complete, found := contract.Config(declareAll(d.Config), config)
	if len(found) > 0 || d.Validate == nil {
		return complete, found, nil
	}

	return complete, d.Validate(complete), nil
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
	description, err := Describe(d)
	if err != nil {
		return contract.Answer{}, err
	}
	complete, problems, err := Validate(d, config)
	if err != nil || len(problems) > 0 {
		return contract.Answer{Problems: problems}, err
	}

	m, err := detectReady(ctx, d, func() *Machine { return newMachine(ctx, complete, devices, root) })
	if err != nil {
		return contract.Answer{}, err
	}
	answer, err := m.finish()
	if err != nil {
		return contract.Answer{}, err
	}
	if broken := description.CheckAnswer(answer, devices); len(broken) > 0 {
		return answer, fmt.Errorf("the answer breaks the description:\n%w", broken)
	}

	return answer, nil
}

// retryAfter is the time between two calls of a Detect that is not ready.
const retryAfter = 250 * time.Millisecond

// detectReady calls Detect until it is ready, with a new Machine each time.
func detectReady(ctx context.Context, d Detector, newMachine func() *Machine) (*Machine, error) {
	begin := time.Now()
	for {
		m := newMachine()
		done := make(chan error, 1) // buffered: the result may come too late
		go func() { done <- detect(d, m) }()
		select {
		case err := <-done:
			if err != nil || m.notReady == "" {
				return m, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("the detection exceeded its deadline: %w", context.Cause(ctx))
		}

		limit := m.limit
		if end, ok := ctx.Deadline(); ok {
			limit = min(limit, end.Sub(begin)*4/5) // the rest is for the answer
		}
		if time.Since(begin)+retryAfter > limit {
			m.Warn("it was not ready after %s: %s", time.Since(begin).Round(time.Second), m.notReady)
			return m, nil
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

func detect(d Detector, m *Machine) (err error) {
	defer recoverPanic("Detect", &err)
	defer recoverRefusal(&m.answer.Problems)

	return d.Detect(m)
}

// finish returns the answer, sorted and with printable texts: firmware may contain any bytes, and that should not
// discard the answer.
func (m *Machine) finish() (contract.Answer, error) {
	a := m.answer
	if len(a.Problems) > 0 {
		return contract.Answer{Problems: a.Problems}, nil
	}

	tidyTexts(a.Attributes)
	for _, d := range m.added {
		for _, s := range []*string{&d.Name, &d.Model, &d.Driver, &d.Interface} {
			*s = contract.OneLine(*s)
		}
		tidyTexts(d.Attributes)
		tidyTexts(d.Evidence)
		device, err := convert[contract.Device](d)
		if err != nil {
			return a, fmt.Errorf("device %s: %w", d.Address, err)
		}
		a.Devices = append(a.Devices, device)
	}
	for i := range a.Facts {
		f := &a.Facts[i]
		f.Value = tidyValue(f.Value)
		f.Evidence = contract.OneLine(f.Evidence)
	}

	slices.SortStableFunc(a.Devices, func(x, y contract.Device) int {
		return strings.Compare(x.Address, y.Address)
	})
	slices.SortStableFunc(a.Facts, func(x, y contract.Fact) int {
		return strings.Compare(x.Name, y.Name)
	})
	slices.SortStableFunc(a.Labels, func(x, y contract.Label) int {
		return strings.Compare(x.Key, y.Key)
	})

	return a, nil
}

func tidyTexts(m map[string]string) {
	for k, v := range m {
		m[k] = contract.OneLine(v)
	}
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

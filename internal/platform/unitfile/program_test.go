package unitfile

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestDescribeResult(t *testing.T) {
	t.Parallel()
	for _, c := range table.YAML[[]struct {
		Load, Result             string
		Status                   int32
		Program, FailedPre, Want string
	}](t, `
- {result: success, status: 0, want: success}
- {result: exit-code, status: 1, want: exit-code}
- {result: start-limit-hit, status: 203, want: start-limit-hit}
- {result: exit-code, status: 243, want: 'exit-code: 243/CREDENTIALS'}
- {result: exit-code, status: 217, want: 'exit-code: 217/USER'}
- {result: exit-code, status: 203, program: kubelet, want: 'exit-code: 203/EXEC: kubelet'}
- {result: exit-code, status: 203, want: 'exit-code: 203/EXEC'}
- {load: loaded, result: exit-code, status: 203, program: /usr/bin/no-such-kubelet,
   want: 'exit-code: 203/EXEC: /usr/bin/no-such-kubelet does not exist'}
- {result: exit-code, status: 1, failedPre: ExecStartPre=/x ended with status 1,
   want: 'exit-code: ExecStartPre=/x ended with status 1'}
`) {
		u := Unit{
			Definition: Definition{Load: c.Load, Service: Service{Program: c.Program}},
			State:      State{Result: c.Result, Status: c.Status, FailedPre: c.FailedPre},
		}
		if got := u.DescribeResult(); got != c.Want {
			t.Errorf("%+v: got %q, want %q", c, got, c.Want)
		}
	}
}

func TestWhyNoProgram(t *testing.T) {
	t.Parallel()
	const program = "/usr/bin/no-such-kubelet"
	for name, c := range table.YAML[map[string]struct {
		Load, Program         string
		IsInOtherRoot, HasPre bool
		Active, Want          string
	}](t, `
a program that is gone: {load: loaded, program: '{program}', want: '{program} does not exist'}
found in a search path: {load: loaded, program: kubelet}
not loaded: {load: masked, program: '{program}'}
in a root of its own: {load: loaded, program: '{program}', isInOtherRoot: true}
hidden from prelet: {load: loaded, program: /home/no-such-kubelet}
brought by ExecStartPre=: {load: loaded, program: '{program}', hasPre: true, active: activating}
a kubelet that runs: {load: loaded, program: '{program}', hasPre: true, active: active,
  want: '{program} does not exist'}
`, "program", program) {
		s := Service{Program: c.Program, OtherRoot: c.IsInOtherRoot, HasPre: c.HasPre}
		u := Unit{Definition: Definition{Load: c.Load, Service: s}, State: State{Active: c.Active}}
		if got := u.whyNoProgram(); got != c.Want {
			t.Errorf("%s: got %q, want %q", name, got, c.Want)
		}
	}
}

package unitfile

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestDescribeResult(t *testing.T) {
	t.Parallel()
	for _, c := range table.Rows[struct {
		Load, Result             string
		Status                   int32
		Program, FailedPre, Want string
	}](t, `
		""     | success         | 0   |         | | success
		""     | exit-code       | 1   |         | | exit-code
		""     | start-limit-hit | 203 |         | | start-limit-hit
		""     | exit-code       | 243 |         | | exit-code: 243/CREDENTIALS
		""     | exit-code       | 217 |         | | exit-code: 217/USER
		""     | exit-code       | 203 | kubelet | | exit-code: 203/EXEC: kubelet
		""     | exit-code       | 203 |         | | exit-code: 203/EXEC
		loaded | exit-code       | 203 | /usr/bin/no-such-kubelet |
		  | exit-code: 203/EXEC: /usr/bin/no-such-kubelet does not exist
		""     | exit-code       | 1   |         | ExecStartPre=/x ended with status 1
		  | exit-code: ExecStartPre=/x ended with status 1
	`) {
		u := Unit{
			Load: c.Load, State: State{Result: c.Result, Status: c.Status, FailedPre: c.FailedPre},
			Service: Service{Program: c.Program},
		}
		if got := u.DescribeResult(); got != c.Want {
			t.Errorf("%+v: got %q, want %q", c, got, c.Want)
		}
	}
}

func TestWhyNoProgram(t *testing.T) {
	t.Parallel()
	const program = "/usr/bin/no-such-kubelet"
	for name, c := range table.Map[struct {
		Load, Program         string
		IsInOtherRoot, HasPre bool
		Active, Want          string
	}](t, `
		a program that is gone    | loaded | {program} | false | false |            | {program} does not exist
		found in a search path    | loaded | kubelet   | false | false |            |
		not loaded                | masked | {program} | false | false |            |
		in a root of its own      | loaded | {program} | true  | false |            |
		hidden from prelet        | loaded | /home/no-such-kubelet | false | false | |
		brought by ExecStartPre=  | loaded | {program} | false | true  | activating |
		a kubelet that runs       | loaded | {program} | false | true  | active     | {program} does not exist
	`, "program", program) {
		s := Service{Program: c.Program, OtherRoot: c.IsInOtherRoot, HasPre: c.HasPre}
		u := Unit{Load: c.Load, Service: s, State: State{Active: c.Active}}
		if got := u.WhyNoProgram(); got != c.Want {
			t.Errorf("%s: got %q, want %q", name, got, c.Want)
		}
	}
}

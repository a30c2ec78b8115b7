package unitfile

import "testing"

func TestDescribeResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit Unit
		want string
	}{
		{Unit{State: State{Result: "success"}}, "success"},
		{Unit{State: State{Result: "exit-code", Status: 1}}, "exit-code"},
		{Unit{State: State{Result: "start-limit-hit", Status: 203}}, "start-limit-hit"},
		{Unit{State: State{Result: "exit-code", Status: 243}}, "exit-code: 243/CREDENTIALS"},
		{Unit{State: State{Result: "exit-code", Status: 217}}, "exit-code: 217/USER"},
		{Unit{State: State{Result: "exit-code", Status: 203}, Service: Service{Program: "kubelet"}}, "exit-code: 203/EXEC: kubelet"},
		{Unit{State: State{Result: "exit-code", Status: 203}}, "exit-code: 203/EXEC"},
		{
			Unit{Load: "loaded", State: State{Result: "exit-code", Status: 203}, Service: Service{Program: "/usr/bin/no-such-kubelet"}},
			"exit-code: 203/EXEC: /usr/bin/no-such-kubelet does not exist",
		},
		{Unit{State: State{Result: "exit-code", Status: 1, FailedPre: "ExecStartPre=/x ended with status 1"}},
			"exit-code: ExecStartPre=/x ended with status 1"},
	} {
		if got := c.unit.DescribeResult(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.unit, got, c.want)
		}
	}
}

func TestWhyNoProgram(t *testing.T) {
	t.Parallel()
	const program = "/usr/bin/no-such-kubelet"
	for _, c := range []struct {
		name string
		unit Unit
		want string
	}{
		{"a program that is gone", Unit{Load: "loaded", Service: Service{Program: program}}, program + " does not exist"},
		{"found in a search path", Unit{Load: "loaded", Service: Service{Program: "kubelet"}}, ""},
		{"not loaded", Unit{Load: "masked", Service: Service{Program: program}}, ""},
		{"in a root of its own", Unit{Load: "loaded", Service: Service{Program: program, OtherRoot: true}}, ""},
		{"hidden from prelet", Unit{Load: "loaded", Service: Service{Program: "/home/no-such-kubelet"}}, ""},
		{"brought by ExecStartPre=", Unit{Load: "loaded", Service: Service{Program: program, HasPre: true}, State: State{Active: "activating"}}, ""},
		{
			"a kubelet that runs", Unit{Load: "loaded", Service: Service{Program: program, HasPre: true}, State: State{Active: "active"}},
			program + " does not exist",
		},
	} {
		if got := c.unit.WhyNoProgram(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

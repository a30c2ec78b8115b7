package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestErrorIsOneLine(t *testing.T) {
	for want, f := range map[string]*Fault{
		"/etc/x.hcl:3:7: no such stage; write it": {
			Code: Reference, At: Place{"/etc/x.hcl", 3, 7}, Summary: "no such stage", Next: "write it",
		},
		"/var/lib/prelet: cannot be written: file does not exist": {
			Code: CannotWrite, At: Place{File: "/var/lib/prelet"}, Summary: "cannot be written", Err: fs.ErrNotExist,
		},
		"kubelet.service is masked": {Code: Systemd, Summary: "kubelet.service is masked"},
		"a:2: b: c":                 {At: Place{File: "a", Line: 2}, Summary: "b", Why: "c"},
	} {
		if got := f.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for want, f := range map[string]*Fault{
		"https://a:6443: connection refused": {At: Place{File: "https://a:6443"}, Why: "connection refused"},
		"a:6443: no such host":               {At: Place{File: "https://a:6443"}, Why: "a:6443: no such host"},
		"a:6443: refused; b:6443: no route":  {Why: "a:6443: refused; b:6443: no route"},
		"/etc/site.hcl:3: not an expression": {At: Place{File: "/etc/site.hcl", Line: 3}, Why: "not an expression"},
	} {
		if got := f.Reason(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCodeOf(t *testing.T) {
	denied := &Fault{Code: ClusterDenied, Summary: "no", Err: fs.ErrPermission}

	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, ""},
		{denied, ClusterDenied},
		{fmt.Errorf("asking: %w", denied), ClusterDenied},
		{&Fault{Code: Held, Err: denied}, Held},
		{errors.New("other"), Internal},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}

	if !errors.Is(denied, fs.ErrPermission) {
		t.Errorf("errors.Is(%v, fs.ErrPermission): got false, want true", denied)
	}
}

func TestRetried(t *testing.T) {
	for code, want := range map[Code]bool{
		ClusterUnreachable: true, RolledBack: true, Syntax: false, NeedsPerson: false, Usage: false, CannotWrite: true,
	} {
		if got := code.IsRetried(); got != want {
			t.Errorf("%s: got %t, want %t", code, got, want)
		}
	}
}

// TestLasting: whether a failure lasts is the same for all codes with one exit status.
func TestLasting(t *testing.T) {
	lasting := []int{10, 11, 20, 21, 22, 23, 30, 31, 40, 70}

	for _, c := range Codes() {
		if p, _ := c.Page(); p.Warning {
			continue
		}
		if got, want := c.IsLasting(), slices.Contains(lasting, c.Exit()); got != want {
			t.Errorf("%s, exit status %d: lasts: got %t; want %t", c, c.Exit(), got, want)
		}
	}
}

func TestLower(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Codes []Code
		Want  Code
	}](t, `
- {}
- {codes: ['', '']}
- {codes: [hardware, '', syntax, cluster-denied], want: syntax}
- {codes: ['', usage], want: usage}
- {codes: [limit, syntax], want: limit}
`) {
		var got Code
		for _, code := range c.Codes {
			got = Lower(got, code)
		}
		if got != c.Want {
			t.Errorf("Lower of %q: got %q, want %q", c.Codes, got, c.Want)
		}
	}
}

func TestHigher(t *testing.T) {
	for _, c := range table.YAML[[]struct{ A, B, Want Code }](t, `
- {}
- {b: syntax, want: syntax}
- {a: syntax, want: syntax}
- {a: syntax, b: cannot-write, want: cannot-write}
- {a: cannot-write, b: syntax, want: cannot-write}
- {a: syntax, b: file-refused, want: syntax}
`) {
		if got := Higher(c.A, c.B); got != c.Want {
			t.Errorf("Higher(%q, %q) = %q, want %q", c.A, c.B, got, c.Want)
		}
	}
}

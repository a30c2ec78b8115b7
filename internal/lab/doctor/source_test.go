package doctor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// TestLimitSource checks that a node that has not joined sends no request that contains the token.
func TestLimitSource(t *testing.T) {
	var asked []tape.Kind
	source := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		asked = append(asked, q.Kind)
		return tape.Failure(fault.Absent, "", "")
	})
	given := func(name string) error {
		if name == "there" {
			return nil
		}
		return errors.New("no")
	}
	object := tape.Object.Question(tape.ObjectReq{Name: "x"})
	credential := func(name string) tape.Question {
		return tape.Credential.Question(tape.CredentialReq{Name: name})
	}

	for name, c := range map[string]struct {
		isJoined bool
		q        tape.Question
		want     fault.Code
		isAsked  bool // of the source
	}{
		"an object before joining":          {false, object, fault.Unread, false},
		"an object after joining":           {true, object, fault.Absent, true},
		"the cluster's CA before joining":   {false, tape.Trust.Question(tape.TrustReq{}), fault.Absent, true},
		"a credential that its unit gets":   {false, credential("there"), "", false},
		"a credential that it does not get": {true, credential("other"), fault.Absent, true},
	} {
		asked = nil
		a := LimitSource(source, c.isJoined, given).Ask(t.Context(), c.q)
		if a.Code() != c.want {
			t.Errorf("%s: got %+v, want code %q", name, a, c.want)
		}
		if got := slices.Contains(asked, c.q.Kind); got != c.isAsked {
			t.Errorf("%s: the source was asked for %q, want asked: %t", name, asked, c.isAsked)
		}
	}
}

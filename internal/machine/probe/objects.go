package probe

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/model/tape"
)

// ObjectsOf returns a source that answers with a CA and with the data of ConfigMaps by NAMESPACE/NAME, instead of a
// cluster. Others are absent, as is an empty CA. A CA must have the pins of the site.
func ObjectsOf(ca string, data map[string]map[string]string) tape.Source {
	return tape.Adapters{
		tape.Trust.Adapt(func(_ context.Context, r tape.TrustReq) tape.Answer {
			if ca == "" {
				return tape.Failure(fault.Absent, "no CA is given", "")
			}
			trust, err := cluster.GivenTrust("the given ca.crt", []byte(ca), r.Access,
				"Give the CA that the site pins, or none: then the CA is a sample, which needs no pin")

			return makeAnswer(tape.Trust, trust, err)
		}),
		tape.Object.Adapt(func(_ context.Context, r tape.ObjectReq) tape.Answer {
			name := r.Namespace + "/" + r.Name
			given, isGiven := data[name]
			if !isGiven {
				return tape.Failure(fault.Absent, "the ConfigMap "+name+" is not given", fmt.Sprintf(
					"Give it with --objects DIR, or in a test: objects = { %q = { KEY = file(\"…\") } }", name))
			}

			return tape.Object.Answer(tape.ObjectAns{ResourceVersion: "1", Data: given})
		}),
	}
}

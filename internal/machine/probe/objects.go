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
func ObjectsOf(ca string, data map[string]map[string]string) world.Source {
	return world.Adapters{
		world.Trust.Adapt(func(_ context.Context, r world.TrustReq) world.Answer {
			if ca == "" {
				return world.Failure(fault.Absent, "no CA is given", "")
			}
			trust, err := cluster.GivenTrust("the given ca.crt", []byte(ca), r.Access.Servers, r.Access.CACertHashes,
				"Give the CA that the site pins, or none: then the CA is a sample, which needs no pin")

			return makeAnswer(world.Trust, trust, err)
		}),
		world.Object.Adapt(func(_ context.Context, r world.ObjectReq) world.Answer {
			name := r.Namespace + "/" + r.Name
			given, isGiven := data[name]
			if !isGiven {
				return world.Failure(fault.Absent, "the ConfigMap "+name+" is not given", fmt.Sprintf(
					"Give it with --objects DIR, or in a test: objects = { %q = { KEY = file(\"…\") } }", name))
			}

			return world.Object.Answer(world.ObjectAns{ResourceVersion: "1", Data: given})
		}),
	}
}

package boot

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// checkPublicSecrets warns of secrets where every user of the node, or every node of the cluster, can read them. That
// does not stop a boot: the node has worked with them, and a refusal hides them no more. A replay has the same
// warnings, because a recording has what stands for the secrets.
func checkPublicSecrets(tape *world.Tape) (found Findings) {
	for _, e := range tape.Entries() {
		what := describePublic(e.Question)
		var v any
		if what == "" || json.Unmarshal(e.Answer.Value, &v) != nil || !world.HoldsIn(v, kubelet.HoldsSecrets) {
			continue
		}
		found.Report(origin.Warning(
			fault.Sensitive, hcl.Range{}, what+" contains a secret that others can read",
			"It is used as it is, hidden from output, and \"(sensitive)\" in recordings. Write credential(\"NAME\") "+
				"in its place, in a file with a mode of at most 0640, remove it there, and change it.",
		))
	}

	return found
}

// describePublic names what others can read; "" for other questions.
func describePublic(q world.Question) string {
	switch q.Kind {
	case world.KindFile:
		if r, err := world.File.Request(q); err == nil {
			return "File " + r.Path
		}
	case world.KindVariable:
		if r, err := world.Variable.Request(q); err == nil && !r.Sensitive {
			return "The value of variable \"" + r.Name + "\""
		}
	case world.KindObject:
		if r, err := world.Object.Request(q); err == nil {
			return "ConfigMap " + r.Namespace + "/" + r.Name
		}
	}

	return ""
}

package preflight

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// checkCredentials warns of credentials that are gone, and have the value of the generation in place.
func (c *checker) checkCredentials() {
	for _, e := range c.tape.Entries() {
		if e.Kind != tape.KindCredential || e.Answer.Stale == 0 {
			continue
		}
		if r, err := tape.Credential.Request(e.Question); err == nil {
			d := stages.WarnKeptCredential(r.Name, e.Answer)
			c.Report(d)
			c.Degrade(origin.CodeOf(d), d.Summary)
		}
	}
}

// checkPublicSecrets warns of secrets where every user of the node, or every node of the cluster, can read them. That
// does not stop a boot: the node has worked with them, and a refusal hides them no more. A replay has the same
// warnings, because a recording has the placeholders of the secrets.
func (c *checker) checkPublicSecrets() {
	for _, e := range c.tape.Entries() {
		what := describePublic(e.Question)
		var v any
		if what == "" || json.Unmarshal(e.Answer.Value, &v) != nil || !tape.HoldsIn(v, kubelet.HoldsSecrets) {
			continue
		}
		c.Warn(
			fault.Sensitive, hcl.Range{}, what+" contains a secret that others can read",
			"It is used as it is, hidden from output, and \"(sensitive)\" in recordings. Write credential(\"NAME\") "+
				"in its place, in a file with a mode of at most 0640, remove it there, and change it.",
		)
	}
}

// describePublic names what others can read; "" for other questions.
func describePublic(q tape.Question) string {
	switch q.Kind {
	case tape.KindFile:
		if r, err := tape.File.Request(q); err == nil {
			return "File " + r.Path
		}
	case tape.KindVariable:
		if r, err := tape.Variable.Request(q); err == nil && !r.Sensitive {
			return "The value of variable \"" + r.Name + "\""
		}
	case tape.KindObject:
		if r, err := tape.Object.Request(q); err == nil {
			return "ConfigMap " + r.Namespace + "/" + r.Name
		}
	}

	return ""
}

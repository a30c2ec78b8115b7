package stages

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// ClusterFailure turns a failed answer of the cluster into a message with the right exit status. What is the
// object in words: "the cluster's CA".
func ClusterFailure(at hcl.Range, what string, ans world.Answer, err error) hcl.Diagnostics {
	code := map[world.Failure]fault.Code{
		world.Unreachable: fault.ClusterUnreachable, world.Untrusted: fault.ClusterUntrusted, world.Denied: fault.ClusterDenied,
		world.Absent: fault.ClusterUnusable, world.Unusable: fault.ClusterUnusable}[ans.Fail]
	if ans.Fail == world.Unread {
		return hcl.Diagnostics{origin.NotRead(at, what, []string{what})}
	}
	if ans.Fail == world.NoCredential {
		code = fault.CredentialMissing
	}
	if code == "" {
		var f *world.Failed
		if errors.As(err, &f) {
			ans = f.Answer
		}
		code = fault.ClusterUnusable
	}
	return hcl.Diagnostics{origin.Error(code, at, summary(ans.Fail, what), "%s", Sentence(ans.Detail, ans.Hint))}
}

// Unanswered is the output of a stage without the answer that it is made of: unknown, and with the question where a
// recording was never asked it.
func Unanswered(t cty.Type, question string, ans world.Answer) Output {
	out := value.UnknownOutput(t)
	if ans.Fail == world.Unread {
		out = value.Because(out, []string{question})
	}

	return Output{Value: out}
}

func summary(f world.Failure, what string) string {
	switch f {
	case world.Unreachable:
		return "Cannot reach the cluster for " + what
	case world.Untrusted:
		return "Cannot trust the cluster that answered for " + what
	case world.Denied:
		return "The cluster denies " + what
	case world.NoCredential:
		return "A credential is needed for " + what
	case world.Absent:
		return "The cluster does not have " + what
	}
	return "The cluster's answer for " + what + " cannot be used"
}

// StaleWarning says that the last good generation's recording answered.
func StaleWarning(at hcl.Range, what string, ans world.Answer) *hcl.Diagnostic {
	return origin.Warning(fault.Stale, at, what+" is from the last good generation", "%s",
		Sentence(ans.Because, "The answer of an earlier boot is used, and this boot is degraded; prelet status says so until the cluster answers rightly."))
}

// Sentence joins why and what next, each ended by one full stop, if nothing else ends it. A last line that is indented by four
// spaces is a command to paste: a full stop would become a part of it.
func Sentence(parts ...string) string {
	var out []string
	for _, p := range parts {
		p = strings.TrimRight(strings.TrimSpace(p), ".")
		switch {
		case p == "":
		case strings.HasPrefix(p[strings.LastIndexByte(p, '\n')+1:], "    "):
			out = append(out, p)
		case strings.HasSuffix(p, "?"), strings.HasSuffix(p, "!"), strings.HasSuffix(p, "…"):
			out = append(out, p)
		default:
			out = append(out, p+".")
		}
	}
	return strings.Join(out, " ")
}

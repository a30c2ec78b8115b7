package stages

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// Diagnose makes the message of a fault, at a place of the site.
func Diagnose(at hcl.Range, f *fault.Fault) *hcl.Diagnostic {
	return origin.Error(f.Code, at, f.Summary, "%s", Sentence(f.Reason(), f.Next))
}

// Unanswered is the output of a stage without the answer that it is made of: unknown, and with the question where a
// recording was never asked it.
func Unanswered(t cty.Type, question string, ans world.Answer) Output {
	out := value.UnknownOutput(t)
	if ans.Code() == fault.Unread {
		out = value.Because(out, []string{question})
	}

	return Output{Value: out}
}

// ClusterFailure is the message for a failed question to the cluster. What is the object in words: "the cluster's CA".
func ClusterFailure(at hcl.Range, what string, f *fault.Fault) hcl.Diagnostics {
	switch f.Code {
	case fault.Unread:
		return hcl.Diagnostics{origin.NotRead(at, what, []string{what})}
	case fault.Absent:
		f = f.Raise(fault.ClusterUnusable, "The cluster does not have "+what)
	case fault.ClusterUnreachable:
		f = f.Raise(f.Code, "Cannot reach the cluster for "+what)
	case fault.ClusterUntrusted:
		f = f.Raise(f.Code, "Cannot trust the cluster for "+what)
	case fault.ClusterDenied:
		f = f.Raise(f.Code, "The cluster denies "+what)
	case fault.CredentialMissing:
		f = f.Raise(f.Code, "No usable credential for "+what)
	default:
		f = f.Raise(fault.ClusterUnusable, "The cluster's answer for "+what+" cannot be used")
	}

	return hcl.Diagnostics{Diagnose(at, f)}
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

// RequireCluster refuses a stage that reads from the cluster in a site without a cluster block.
func RequireCluster(at hcl.Range, isMissing bool) hcl.Diagnostics {
	if !isMissing {
		return nil
	}
	return hcl.Diagnostics{origin.Error(fault.MissingArgument, at, "There is no cluster block",
		"This stage asks the servers that it names. Write: cluster { servers = [\"HOST:6443\"] … }")}
}

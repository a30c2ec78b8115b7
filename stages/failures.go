package stages

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
)

// Diagnose turns a fault into an error at a place of the site, or of the file that the fault has the text of.
func Diagnose(at hcl.Range, f *fault.Fault) *hcl.Diagnostic {
	if f.Source != "" {
		used := ""
		if at.Filename != "" {
			used = "It is used at " + origin.Place(at).String()
		}

		why := strings.TrimPrefix(f.Why, f.At.String()+": ")

		return origin.InFile(f, Sentence(origin.Capitalize(why), f.Next, used))
	}
	detail := Sentence(f.Reason(), f.Next)

	return origin.Error(f.Code, at, f.Summary, "%s", detail)
}

// DiagnoseCluster is Diagnose for a failed question to the cluster, with a summary by code. what names the object:
// "the cluster's CA".
func DiagnoseCluster(at hcl.Range, what string, f *fault.Fault) hcl.Diagnostics {
	summary, isKnown := map[fault.Code]string{
		fault.ClusterUnreachable: "Cannot reach the cluster for ",
		fault.ClusterUntrusted:   "Cannot trust the cluster for ",
		fault.ClusterDenied:      "The cluster denies ",
		fault.CredentialMissing:  "No usable credential for ",
	}[f.Code]
	switch {
	case f.Code == fault.Unread:
		return hcl.Diagnostics{origin.NotRead(at, what)}
	case f.Code == fault.Absent:
		f = f.Raise(fault.ClusterUnusable, "The cluster does not have "+what)
	case f.Code == fault.WrongType:
		f = f.Raise(f.Code, "A file of the cluster block is of another kind")
	case isKnown:
		f = f.Raise(f.Code, summary+what)
	case f.Source != "":
		f = f.Raise(f.Code, origin.Capitalize(what)+" cannot be used")
	default:
		f = f.Raise(fault.ClusterUnusable, "The cluster's answer for "+what+" cannot be used")
	}

	return hcl.Diagnostics{Diagnose(at, f)}
}

// WarnStale warns that an answer of the cluster comes from the recording of the last good generation.
func WarnStale(at hcl.Range, what string, ans tape.Answer) *hcl.Diagnostic {
	next := "The answer of an earlier boot is used, and this boot is degraded; " +
		"prelet status reports it until the cluster answers correctly."

	return warnStale(at, what, ans, next)
}

// WarnKept warns that a variable has the value of the last good generation.
func WarnKept(at hcl.Range, name string, ans tape.Answer) *hcl.Diagnostic {
	next := "That value stays in use, and a boot with it is degraded. Give the variable its value again, or accept " +
		"once that it has none: prelet run --accept-missing-variables"

	return warnStale(at, fmt.Sprintf("The value of variable %q", name), ans, next)
}

// WarnKeptCredential warns that a credential has the value of the generation in place.
func WarnKeptCredential(name string, ans tape.Answer) *hcl.Diagnostic {
	next := "That value stays in use, and a boot with it is degraded. Give the node the credential again, or remove " +
		"it from the site"

	return warnStale(hcl.Range{}, fmt.Sprintf("Credential %q", name), ans, next)
}

func warnStale(at hcl.Range, what string, ans tape.Answer, next string) *hcl.Diagnostic {
	return origin.Warning(fault.Stale, at, what+" is from the last good generation", "%s",
		Sentence(ans.Because, next))
}

// Sentence joins sentences and ends each with a full stop, unless it ends with another mark. A last line that is
// indented by four spaces is a command to paste, which must not end with a full stop.
func Sentence(parts ...string) string {
	var out []string
	for _, p := range parts {
		p = strings.TrimRight(strings.TrimSpace(p), ".")
		if p == "" {
			continue
		}

		lastLine := p[strings.LastIndexByte(p, '\n')+1:]
		hasMark := strings.HasSuffix(p, "?") || strings.HasSuffix(p, "!") ||
			strings.HasSuffix(p, "…")
		if !hasMark && !strings.HasPrefix(lastLine, "    ") {
			p += "."
		}
		out = append(out, p)
	}

	return strings.Join(out, " ")
}

// RequireCluster refuses a stage that reads from the cluster in a site without a cluster block.
func RequireCluster(at hcl.Range, isMissing bool) hcl.Diagnostics {
	if !isMissing {
		return nil
	}

	return hcl.Diagnostics{
		origin.Error(
			fault.MissingArgument,
			at,
			"No cluster block",
			"This stage asks the servers that it names. Write: cluster { servers = [\"HOST:6443\"] … }",
		),
	}
}

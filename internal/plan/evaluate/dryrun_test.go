package evaluate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
)

const kubeletProgram = "/usr/bin/kubelet"

// accepts and refuses return the verdict of a kubelet's binary.
func accepts() tape.Answer {
	return tape.DryRun.Answer(tape.DryRunAns{Accepted: true, Program: kubeletProgram})
}

func refuses(words string) tape.Answer {
	return tape.DryRun.Answer(tape.DryRunAns{Refusal: words, Program: kubeletProgram})
}

// onKubelet returns the input of a run on a node with a kubelet of this version, whose binary has this verdict.
func onKubelet(version string, verdict tape.Answer) RunInput {
	return RunInput{
		Source: usualWith(map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &version}),
			tape.KindDryRun:  verdict,
		}),
		Finished: func(judge.FinishedKubelet) {},
	}
}

// TestDryRunVerdict checks the findings of a plan by the verdict of the kubelet's binary: it overrides the rules about
// what a dry run covers, and no others.
func TestDryRunVerdict(t *testing.T) {
	const program = kubeletProgram
	type found struct {
		severity string // error, warning or note
		line     int
		text     string // parts of the message, separated by |
	}
	const negative = "invalid configuration: maxPods (--max-pods) -1 must not be a negative number"

	for name, c := range map[string]struct {
		patch    string
		answer   tape.Answer
		want     []found // all errors and warnings, and notes of the code kubelet-config
		degraded bool
	}{
		"nothing to say": {patch: "{ maxPods = 20 }", answer: accepts()},
		"not asked": {
			patch: "{ maxPods = -1 }", answer: tape.Failure(fault.Unread, "", ""),
			want: []found{{"error", 6, "maxPods"}},
		},
		"accepts what a rule refuses": {patch: "{ maxPods = -1 }", answer: accepts()},
		"accepts what is refused later": {
			patch: `{ cpuManagerPolicy = "static" }`, answer: accepts(),
			want: []found{{"error", 6, "cpuManagerPolicy"}},
		},
		"accepts what a rule that it covers refuses later": {
			patch:  `{ evictionSoft = { "memory.available" = "5%" }, evictionSoftGracePeriod = { "memory.available" = "ten" } }`,
			answer: accepts(),
			want:   []found{{"error", 6, "evictionSoftGracePeriod.memory.available|invalid duration"}},
		},
		"refuses as the rule does": {
			patch: "{ maxPods = -1 }", answer: refuses(negative),
			want: []found{{"error", 6, "The kubelet would not start with maxPods|" + program + ": " + negative + " (set by write.k"}},
		},
		"refuses what no rule knows": {
			patch: "{ podPidsLimit = 20 }", answer: refuses("podPidsLimit: our vendor wants 4096"),
			want: []found{{"error", 6, "podPidsLimit|our vendor wants 4096 (set by write.k"}},
		},
		"names a feature gate": {
			patch: "{ featureGates = { VendorGate = true } }", answer: refuses("unrecognized feature gate: VendorGate"),
			want: []found{{"error", 6, "featureGates.VendorGate|unrecognized feature gate"}},
		},
		"names a field of Go": {
			patch: `{ maxPods = "many" }`, answer: refuses("cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"),
			want: []found{{"error", 6, "The kubelet would not start with maxPods|cannot unmarshal"}},
		},
		"names nothing, in the words of a rule": {
			patch: `{ syncFrequency = "ten" }`, answer: refuses(`failed to decode: time: invalid duration "ten"`),
			want: []found{{"error", 6, "The kubelet would not start with syncFrequency|failed to decode"}},
		},
		"names nothing": {
			patch: "{ maxPods = 20 }", answer: refuses("out of luck"),
			want: []found{{"error", 4, "The installed kubelet would not start|out of luck"}},
		},
		"refuses one thing, and a rule another": {
			patch: "{ maxPods = -1, podsPerCore = -5 }", answer: refuses(negative),
			want: []found{{"error", 6, negative}, {"error", 6, "podsPerCore|-5 must be at least 0 (set by write.k"}},
		},
		"refuses two things": {
			patch: "{ maxPods = -1, podsPerCore = -5 }", answer: refuses(negative + ", podsPerCore -5 must not be negative"),
			want: []found{{"error", 6, "start with maxPods|" + negative + ", podsPerCore -5"}, {"error", 6, "podsPerCore|at least 0"}},
		},
		"quotes an element of a list": {
			patch: `{ enforceNodeAllocatable = ["pods", "pods"] }`, answer: refuses(`duplicated enforcements "pods"`),
			want: []found{{"error", 6, "enforceNodeAllocatable.1|duplicated enforcements|Remove the duplicate"}},
		},
		"cannot run": {
			patch:  "{ maxPods = 20 }",
			answer: tape.DryRun.Answer(tape.DryRunAns{Broken: "signal: segmentation fault", Program: program}),
			want:   []found{{"error", 0, "The kubelet cannot run|" + program + ": signal: segmentation fault. Install"}},
		},
		"no answer": {
			patch: "{ maxPods = -1 }", answer: tape.Failure(fault.KubeletMachine, program+": no answer within 10s", ""),
			want:     []found{{"warning", 0, "was not asked about the plan|no answer within 10s"}, {"error", 6, "maxPods"}},
			degraded: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var handed []judge.FinishedKubelet
			in := onKubelet("v1.37.1", c.answer)
			in.Finished = func(k judge.FinishedKubelet) { handed = append(handed, k) }
			p := Run(t.Context(), mustParse(t, rulesSite(c.patch, "")), in)

			if len(handed) != 1 || handed[0].Unit != "kubelet.service" || handed[0].Config == nil {
				t.Errorf("the kubelet that is asked: got %+v; want one of kubelet.service with a configuration", handed)
			}
			if isDegraded := len(p.Degraded) > 0; isDegraded != c.degraded {
				t.Errorf("degraded: got %v, want %t", p.Degraded, c.degraded)
			}

			var got []*hcl.Diagnostic
			for _, d := range p.Diagnostics {
				if !origin.IsNote(d) || origin.CodeOf(d) == fault.ConfigInvalid {
					got = append(got, d)
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %d findings, want %d: %v", len(got), len(c.want), got)
			}
			for i, want := range c.want {
				d := got[i]
				severity := severityOf(d)
				line := 0
				if d.Subject != nil {
					line = d.Subject.Start.Line
				}
				// An upgrade takes an error without them for one of the site.
				extra, _ := d.Extra.(origin.Extra)
				if severity == "error" && name != "cannot run" && (extra.Rule == "" || extra.Effect != "exits") {
					t.Errorf("finding %d: got rule %q and effect %q; want a rule, and exits", i, extra.Rule, extra.Effect)
				}
				text := d.Summary + "\n" + d.Detail
				for part := range strings.SplitSeq(want.text, "|") {
					if severity != want.severity || line != want.line || !strings.Contains(text, part) {
						t.Errorf("finding %d: got %s, line %d, %q; want %s, line %d, with %q",
							i, severity, line, text, want.severity, want.line, part)
					}
				}
			}
		})
	}
}

// TestDryRunDigest: the question changes with the planned files and the kubelet, and with nothing else.
func TestDryRunDigest(t *testing.T) {
	ask := func(patch, version string) tape.DryRunReq {
		p := Run(t.Context(), mustParse(t, rulesSite(patch, "")), onKubelet(version, accepts()))
		i := slices.IndexFunc(p.Tape.Entries(), func(e tape.Entry) bool { return e.Kind == tape.KindDryRun })
		if i < 0 {
			t.Fatalf("%s: got no question to the binary, want one; %v", patch, p.Diagnostics)
		}
		req, err := tape.DryRun.Request(p.Tape.Entries()[i].Question)
		if err != nil || req.Digest == "" {
			t.Fatalf("%s: got the question %v, %v; want one with a digest", patch, req, err)
		}

		return req
	}

	first := ask("{ maxPods = 20 }", "v1.37.1")
	if again := ask("{ maxPods = 10 + 10 }", "v1.37.1"); again != first {
		t.Errorf("the same files: got %v and %v, want one question", first, again)
	}
	if other := ask("{ maxPods = 21 }", "v1.37.1"); other.Digest == first.Digest {
		t.Errorf("another file: got %v twice, want two digests", other)
	}
	if other := ask("{ maxPods = 20 }", "v1.37.0"); other == first {
		t.Errorf("another kubelet: got %v twice, want two questions", other)
	}
}

// TestDryRunOfOtherVersion: the question has the version, so that the binary in place says nothing about another one.
func TestDryRunOfOtherVersion(t *testing.T) {
	const version = "v1.33.13"
	in := onKubelet(version, accepts())
	in.Advises = true
	node := in.Source
	in.Source = tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		req, err := tape.DryRun.Request(q)
		if q.Kind == tape.KindDryRun && (err != nil || req.Kubelet != version) {
			return tape.Failure(fault.Unread, "", "")
		}

		return node.Ask(ctx, q)
	})
	p := Run(t.Context(), mustParse(t, rulesSite("{ featureGates = { DevicePluginCDIDevices = true } }", "")), in)
	for _, newer := range append(p.WithKubelets(t.Context(), []string{"1.34"}), p.planAgain(t.Context(), "1.34")) {
		if newer.DryRun != nil || origin.Code(newer.Diagnostics) != fault.KubeletGate {
			t.Errorf("got the verdict %v and %v; want none, and a gate that 1.34 lacks", newer.DryRun, newer.Diagnostics)
		}
	}
}

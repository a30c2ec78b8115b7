package evaluate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
)

const cluster = `cluster {
  servers        = ["192.0.2.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
}
`

func mustParse(t testing.TB, text string) *lang.Site {
	t.Helper()
	s, diags := parseCase(newCase("site.hcl", text))
	if diags.HasErrors() {
		t.Fatalf("parsing the site: got %v, want no error", diags)
	}
	return s
}

// planSite plans a site of one file on the machine of fakeWorld, which gives these answers.
func planSite(t testing.TB, site, answers string) *Plan {
	t.Helper()
	return Run(t.Context(), mustParse(t, site), RunInput{Source: fakeWorld(t, newCase("world", answers))})
}

// original returns the answer that a managed file had this text before prelet, in the words of fakeWorld.
func original(path, text string) string {
	return fmt.Sprintf("original %s => {\"value\":{\"exists\":true,\"text\":%q}}\n", path, text)
}

// textOf returns the text of a plan's file by its purpose.
func textOf(p *Plan, purpose string) string {
	for _, f := range p.Node.Files {
		if f.Purpose == purpose {
			return f.Text.Template()
		}
	}
	return ""
}

// checkParts wants each line of want in a text, or, behind "!", not in it.
func checkParts(t *testing.T, got, want string) {
	t.Helper()
	for line := range strings.SplitSeq(want, "\n") {
		part, isAbsent := strings.CutPrefix(line, "!")
		if strings.Contains(got, part) == isAbsent {
			t.Errorf("got %s\nwant %q", got, line)
		}
	}
}

// fetches is a site with that many ConfigMaps.
func writeFetches(n int, more string) string {
	text := cluster
	for i := range n {
		text += fmt.Sprintf("stage \"fetch-config\" \"c%d\" {\n  config_map = \"a/c%d\"\n%s}\n", i, i, more)
	}
	return text
}

// TestGatherIsParallel makes each answer wait until all questions were asked: one after the other would never end.
func TestGatherIsParallel(t *testing.T) {
	const n = 8
	asked := make(chan struct{}, n)
	all := make(chan struct{})
	go func() {
		for range n {
			<-asked
		}
		close(all)
	}()
	src := tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindObject {
			asked <- struct{}{}
			select {
			case <-all:
			case <-ctx.Done():
				return tape.Failure(fault.ClusterUnreachable, "the others were not asked", "")
			}
		}
		return answerAsUsual(q, nil)
	})
	p := Run(context.Background(), mustParse(t, writeFetches(n, "  timeout = \"10s\"\n")), RunInput{Source: src})
	if !p.Complete {
		t.Errorf("plan: got %s, want a complete one", showDiagnostics(p.Diagnostics))
	}
}

// TestTwoStagesWaitForOneAnswer has two stages that wait for one answer which never comes: both are left behind while it
// is still waited for.
func TestTwoStagesWaitForOneAnswer(t *testing.T) {
	text := cluster + "stage \"fetch-config\" \"a\" {\n  config_map = \"a/b\"\n  timeout = \"20ms\"\n}\n" +
		"stage \"fetch-config\" \"b\" {\n  config_map = \"a/b\"\n  timeout = \"20ms\"\n}\n"
	never := make(chan struct{})
	defer close(never)
	src := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindObject {
			<-never
		}
		return answerAsUsual(q, nil)
	})
	p := Run(context.Background(), mustParse(t, text), RunInput{Source: src})
	if len(p.Stages) != 2 || p.Stages[0].State != stateFailed || p.Stages[1].State != stateFailed ||
		origin.Code(p.Diagnostics).Exit() != 20 {
		t.Errorf("got %s\nwant two failed stages and exit 20", showPlan(p))
	}
}

// TestCancelled checks that a cancelled plan ends at once, and that each stage reports the cancellation.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	src := tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindObject {
			cancel()
			<-ctx.Done()
			return tape.Failure(fault.ClusterUnreachable, "cancelled", "")
		}
		return answerAsUsual(q, nil)
	})
	p := Run(ctx, mustParse(t, writeFetches(3, "")), RunInput{Source: src})
	if p.Complete || p.Hash != "" || len(p.Stages) != 3 {
		t.Errorf("got %s\nwant three stages and no complete plan", showPlan(p))
	}
	for _, s := range p.Stages {
		if s.State != stateFailed {
			t.Errorf("stage %s: got %s, want %s", s.Address, s.State, stateFailed)
		}
	}
}

// TestTooLargeSiteIsGivenUp checks that an evaluation that no limit on text prevents is abandoned in time, with a
// message. An abandoned evaluation continues for a while, so the site is as small as possible.
func TestTooLargeSiteIsGivenUp(t *testing.T) {
	for _, text := range []string{
		`stage "label" "a" { labels = { a = length([for x in range(400) : [for y in range(400) : "${x}-${y}"]]) } }`,
		`stage "fetch-config" "a" { file = join("", [for x in range(250) : join("", [for y in range(250) : "${x}-${y}"])]) }`,
	} {
		s := mustParse(t, text)
		o := RunInput{Source: usualSource()}
		limits := limit.Limits{Time: 30 * time.Millisecond, Heap: 64 << 20, Look: time.Millisecond}
		p := runSteps(context.Background(), s, o, limits)
		if p.Complete || len(p.Diagnostics) == 0 || origin.CodeOf(p.Diagnostics[len(p.Diagnostics)-1]) != fault.Limit {
			t.Errorf("%s: got %s\nwant code %s last", text, showPlan(p), fault.Limit)
		}
	}
}

// TestCheckNamesSampleMachines says one thing once a place, with the machines that it was found on, each once; all that
// have facts are not named one by one.
func TestCheckNamesSampleMachines(t *testing.T) {
	s := mustParse(t, "stage \"detect-hw\" \"node\" {}\nstage \"label\" \"a\" {\n"+
		"  labels = { \"example.com/a\" = stage.detect-hw.node.gpus[0].model }\n}\n")
	withGPU := *makeBareVM()
	withGPU.Accelerators = []tape.Accelerator{{Kind: "gpu", Model: new("H100")}}
	machines := []SampleMachine{
		{Name: "unknown"}, {Name: "one", Facts: makeBareVM()}, {Name: "two", Facts: makeBareVM()},
		{Name: "three", Facts: &withGPU},
	}
	for count, want := range map[int]string{3: "each that has facts", 4: "one, two"} {
		d := Check(s, machines[:count], CheckOptions{})
		if len(d) != 1 || !strings.HasSuffix(d[0].Detail, "(On the sample machines: "+want+".)") {
			t.Errorf("%d machines: got %s\nwant one error on the machines: %s", count, showDiagnostics(d), want)
		}
	}
}

// A run that is stopped while it gathers reports the stop, and not the answers that it did not get because of it; a
// run whose time is over reports what it waited for.
func TestSignalDuringGather(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		src := tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
			if q.Kind == tape.KindObject {
				if stopped {
					cancel(errors.New("terminated signal received"))
					<-ctx.Done()
				}
				return tape.Failure(fault.ClusterUnreachable, "the deadline passed", "")
			}
			return tape.Failure(fault.Absent, "none", "")
		})
		p := Run(ctx, mustParse(t, writeFetches(2, "  on_failure = \"continue\"\n"+
			"")+`stage "fetch-config" "needed" { config_map = "a/b" }`), RunInput{Source: src})
		cancel(nil)
		shown := showDiagnostics(p.Diagnostics)
		if !stopped {
			if code := origin.Code(p.Diagnostics).Exit(); code != 20 || p.Complete {
				t.Errorf("after the deadline: got exit %d, complete %t: %s\nwant exit 20", code, p.Complete, shown)
			}
			continue
		}
		if p.Complete || len(p.Diagnostics) != 1 || origin.Code(p.Diagnostics).Exit() != 42 ||
			!strings.Contains(shown, "terminated signal received") || !strings.Contains(shown, "Nothing was changed") {
			t.Errorf("after a signal: got complete %t: %s\nwant only the signal, and exit 42", p.Complete, shown)
		}
	}
}

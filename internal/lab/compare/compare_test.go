package compare

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// TestEachKindIsAnInput checks that each kind of question has a name as an input of a run, or is known not to be one.
func TestEachKindIsAnInput(t *testing.T) {
	noInputs := []tape.Kind{
		tape.KindTarget, tape.KindOriginal, tape.KindManaged, tape.KindPackages, // follow from the generation before
		tape.KindHost, // is for warnings only
	}

	for _, kind := range tape.Kinds() {
		isNamed := tape.InputName(tape.Question{Kind: kind, Args: "{}"}) != ""
		if want := !slices.Contains(noInputs, kind); isNamed != want {
			t.Errorf("%s: got an input %t, want %t: add it to subjects, or to those that are not inputs", kind, isNamed, want)
		}
	}
}

// randomGeneration makes a generation of few names and values, so that two of them have something in common.
func randomGeneration(r *rand.Rand, number int) Generation {
	pick := func() string { return fmt.Sprint("v", r.IntN(3)) }
	n := desired.Stored{Config: map[string]any{}}
	g := Generation{Number: number, Recording: &tape.Recording{}}
	g.Files = map[string]*FileView{}
	for _, key := range []string{"a", "b/c", "d.e"} {
		if r.IntN(2) == 0 {
			n.Labels = append(n.Labels, [2]string{key, pick()})
			n.Flags = append(n.Flags, [3]string{key, pick(), "false"})
			n.Config[key] = map[string]any{"x": pick(), "y": []any{pick()}}
			n.Taints = append(n.Taints, kubelet.Taint{Key: key, Value: pick(), Effect: "NoSchedule"})
			g.Files["/"+key] = &FileView{Content: pick(), Hidden: []string{Secret, "", ""}[r.IntN(3)]}
		}
		if r.IntN(2) == 0 {
			q := tape.Variable.Question(tape.VariableReq{Name: key})
			a := tape.Variable.Answer(tape.VariableAns{Text: pick(), Source: "flag"})
			if r.IntN(4) == 0 {
				a = tape.Failure(fault.Absent, "none", "")
			}
			g.Recording.Entries = append(g.Recording.Entries, tape.Entry{Question: q, Answer: a})
		}
		g.Recording.Header.Site = append(g.Recording.Header.Site, tape.SiteFile{Name: key, Text: pick()})
	}
	g.Recording.Header.Prelet = pick()
	g.Items = ItemsOf(n)

	return g
}

// swapLines returns the changed lines of a diff as they are the other way round, sorted.
func swapLines(diff string) string {
	var lines []string
	for line := range strings.Lines(diff) {
		if sign := map[byte]string{'+': "-", '-': "+"}[line[0]]; sign != "" {
			lines = append(lines, sign+line[1:])
		}
	}
	slices.Sort(lines)

	return strings.Join(lines, "")
}

// swap returns a difference as it is the other way round, without unchanged lines.
func swap(d Difference) Difference {
	d.From, d.To = d.To, d.From
	for n := range d.Changes {
		c := &d.Changes[n]
		c.From, c.To = c.To, c.From
		c.Action = map[string]string{"create": "delete", "delete": "create", "update": "update"}[c.Action]
		c.Diff, c.Content = swapLines(c.Diff), ""
	}
	for n := range d.Inputs {
		for m := range d.Inputs[n].Details {
			x := &d.Inputs[n].Details[m]
			x.Before, x.After = x.After, x.Before
			x.Diff = swapLines(x.Diff)
		}
	}

	return d
}

// TestGenerationsProperties: a generation does not differ from itself, the difference the other way round is the same
// with its sides exchanged, and no content of a file with a secret is in it.
func TestGenerationsProperties(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		a := randomGeneration(r, 1)
		b := randomGeneration(r, 2)

		same := Generations(a, a)
		if len(same.Changes)+len(same.Inputs) != 0 {
			t.Fatalf("seed %d: a generation and itself: got %+v, want no difference", seed, same)
		}
		there := swap(swap(Generations(a, b)))
		if d := cmp.Diff(there, swap(Generations(b, a))); d != "" {
			t.Fatalf("seed %d: the other way round: want -, got +\n%s", seed, d)
		}
		for _, c := range there.Changes {
			if c.Hidden != "" && c.From+c.To+c.Diff != "" {
				t.Fatalf("seed %d: got %+v, want nothing in it that is hidden", seed, c)
			}
		}
	}
}

// answers makes two recordings that differ in one answer.
func answers(q tape.Question, a, b string) (x, y *tape.Recording) {
	record := func(v string) *tape.Recording {
		answer := tape.Answer{Value: json.RawMessage(v)}
		return &tape.Recording{Entries: []tape.Entry{{Question: q, Answer: answer}}}
	}

	return record(a), record(b)
}

func TestFindInputs(t *testing.T) {
	facts := tape.Hardware.Question(tape.HardwareReq{})
	object := tape.Object.Question(tape.ObjectReq{Namespace: "kube-system", Name: "kubelet-config"})
	kubelet := tape.Kubelet.Question(tape.KubeletReq{})
	for _, c := range []struct {
		name         string
		question     tape.Question
		before, then string
		want         string
	}{
		{"a device more", facts, `{"nics":[{"address":"1"}]}`, `{"nics":[{"address":"0"},{"address":"1"}]}`,
			`the hardware: .nics[0] "" "there"`},
		{"a field of a device", facts, `{"nics":[{"address":"1","link":"up"}]}`, `{"nics":[{"address":"1","link":null}]}`,
			`the hardware: .nics[1].link "\"up\"" ""`},
		{"evidence only", facts, `{"evidence":{"a":"b"}}`, `{"evidence":{"a":"c"}}`, ``},
		{"a list without names", facts, `{"cpu":{"offline":[1]}}`, `{"cpu":{"offline":[1,2]}}`,
			`the hardware: .cpu.offline "[1]" "[1,2]"`},
		{"only the number of the version", object, `{"resource_version":"1"}`, `{"resource_version":"2"}`, ``},
		{"lines of an object", object, `{"data":{"k":"a\n"}}`, `{"data":{"k":"b\n"}}`,
			"ConfigMap kube-system/kubelet-config: .data.k \"\" \"\" +a\n-b"},
		{"the kubelet", kubelet, `{"version":"v1.35.0"}`, `{"version":"v1.36.0"}`,
			`the installed kubelet: .version "\"v1.35.0\"" "\"v1.36.0\""`},
		{"prelet's own trace", kubelet, `{"version":"v1"}`, `{"version":"v1","identity":{"ours":true}}`, ``},
		{"another identity", kubelet, `{"identity":{"node":"a"}}`, `{"identity":{"node":"b","ours":true}}`,
			`the installed kubelet: .identity.node "\"a\"" "\"b\""`},
		{"a file of the node", tape.File.Question(tape.FileReq{Path: "/x"}), `{"text":"pw=1"}`, `{"text":"pw=2"}`,
			`file /x: .text "a text" "another one; not shown, because recordings do not have the mode of the file"`},
		{"not JSON", kubelet, `{`, `{"version":"v1"}`, `the installed kubelet:  "" "{\"version\":\"v1\"}"`},
	} {
		a, b := answers(c.question, c.before, c.then)
		got := ""
		for _, i := range findInputs(Generation{Recording: a}, Generation{Recording: b}) {
			for _, d := range i.Details {
				got += fmt.Sprintf("%s: %s %q %q %s\n", i.Name, d.Path, d.Before, d.After, swapLines(d.Diff))
			}
		}
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// FuzzGenerations compares what damaged blobs may contain: it does not panic, and what is equal does not differ.
func FuzzGenerations(f *testing.F) {
	f.Add(`{"node":{"Labels":[["a","b"]],"Config":{"a":{"b":1}}}}`, `{"node":{"Flags":[["v","2",""]]}}`, `{"nics":[{"address":"1"}]}`)
	f.Add(`{"node":{"Taints":["a=b:NoSchedule",":"]}}`, `null`, `[[{}]]`)
	f.Fuzz(func(t *testing.T, one, two, value string) {
		x, y := answers(tape.Hardware.Question(tape.HardwareReq{}), value, one)
		a := Generation{Number: 1, Recording: x}
		b := Generation{Number: 2, Recording: y}
		if p, err := desired.ParseStoredPlan([]byte(one)); err == nil {
			a.Items = ItemsOf(p.Node)
		}
		if p, err := desired.ParseStoredPlan([]byte(two)); err == nil {
			b.Items = ItemsOf(p.Node)
		}
		d := Generations(a, b)
		if one == two && len(d.Changes) > 0 {
			t.Fatalf("%q and itself: got %+v, want no change", one, d.Changes)
		}
	})
}

// TestLeftFiles: a file that a generation does not manage is not deleted by it, unless it is gone.
func TestLeftFiles(t *testing.T) {
	ours := map[string]*FileView{"/x": {Content: "ours"}}
	none := map[string]*FileView{}
	left := func(how string) map[string]*FileView {
		return map[string]*FileView{"/x": {Left: how, Content: "b", Hidden: Foreign}}
	}
	for _, c := range []struct {
		name          string
		before, after map[string]*FileView
		want          string
	}{
		{"gone", ours, none, "delete"},
		{"restored", ours, left("restore"), "restore"},
		{"kept", ours, left("keep"), "keep"},
		{"released by a generation that is not kept", ours, left("release"), "release"},
		{"there before prelet", left("restore"), ours, "update"},
		{"not there before prelet", none, ours, "create"},
		{"not managed", left("restore"), left("keep"), ""},
	} {
		got := ""
		for _, f := range Changes(NodeState{Files: c.before}, NodeState{Files: c.after}) {
			got += f.Action
			if len(c.before) == len(c.after) && f.Hidden == "" {
				t.Errorf("%s: got its contents, want none of a file that is not from prelet", c.name)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRollbackIsTheCause: what a rollback changed has no other cause, whichever way round it is compared.
func TestRollbackIsTheCause(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a := randomGeneration(r, 1)
	b := randomGeneration(r, 2)
	b.Rollback = "the rollback to generation 0"
	for _, d := range []Difference{Generations(a, b), Generations(b, a)} {
		if len(d.Changes) == 0 || len(d.Inputs) != 1 || d.Inputs[0].Name != b.Rollback {
			t.Fatalf("got the inputs %+v for %d changes, want only the rollback", d.Inputs, len(d.Changes))
		}
		for _, i := range d.Changes {
			if len(i.Because) != 1 || i.Because[0] != b.Rollback {
				t.Errorf("%s: got because of %q, want the rollback", i.Name, i.Because)
			}
		}
	}
}

// The kubelet's files are compared as labels, taints, flags and fields, whatever their spelling.
func TestDiskStates(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	before := "KUBELET_EXTRA_ARGS=--node-labels=a=1,b=2,rack=r7 --v=2 --register-with-taints=x=y:NoSchedule\n"
	after := "# prelet\nKUBELET_EXTRA_ARGS=\"--v=4 --node-labels=rack=r7,b=3,c=\"\n"
	config := head + "maxPods: 64\nkubeReserved: {cpu: 1, memory: 1Gi}\nclusterDNS: [10.0.0.10]\n"
	planned := head + "clusterDNS: [\"10.0.0.10\"]\nkubeReserved: {memory: 2Gi}\n" +
		"maxPods: 64\nregisterWithTaints: [{key: a, effect: NoExecute}]\n"
	for name, c := range map[string]struct {
		purpose, before, after string
		want                   []string
	}{
		"flags": {"kubelet-flags", before, after, []string{"label a delete 1 ", "label b update 2 3",
			`label c create  ""`, "taint x:NoSchedule delete y ", "flag --v update 2 4", "file /f update   listed"}},
		"equal flags":                 {"kubelet-flags", before, "# comment\n" + before, []string{"file /f update   with its lines"}},
		"flags that cannot be parsed": {"kubelet-flags", "X=\x00", after, []string{"file /f update   with its lines"}},
		"new flags": {"kubelet-flags", "", "A=--v=4\n",
			[]string{"flag --v create  4", "file /f create   with its lines listed"}},
		"configuration": {"kubelet-config", config, planned, []string{`taint a:NoExecute create  ""`,
			"config kubeReserved.cpu delete 1 ", "config kubeReserved.memory update 1Gi 2Gi", "file /f update   listed"}},
		"not a configuration": {"kubelet-config", "a: b\n", planned, []string{"file /f update   with its lines"}},
		"new configuration": {"kubelet-config", "", planned, []string{`taint a:NoExecute create  ""`,
			"config maxPods create  64", "file /f create   with its lines listed"}},
		"new CA":        {"ca", "", "pem\n", []string{"file /f create  "}},
		"known change":  {"file", "a\n", "a\n", []string{"file /f update  "}},
		"restored file": {"file", "", "", []string{"file /f restore  "}},
	} {
		f := evaluate.FileChange{Action: "update", Old: tape.TargetAns{Exists: c.before != "", Text: c.before}}
		f.File = desired.File{Path: "/f", Kind: desired.Regular, Purpose: c.purpose, Text: secret.PlainText(c.after)}
		if c.purpose == "kubelet-config" {
			parsed, err := kubelet.ParseConfig(c.after)
			if err != nil {
				t.Fatal(err)
			}
			f.File.Config = parsed.Object()
		}
		if c.before == "" {
			f.Action = "create"
		}
		if c.after == "" {
			f.File.Kind, f.Action = desired.Missing, "restore"
		}
		var p evaluate.Plan
		p.Changes = []evaluate.FileChange{f}
		p.Node.TaintFlag = c.purpose == "kubelet-flags"
		p.Node.ConfigOrigins = map[string][]origin.Origin{"/maxPods": nil}

		var got []string
		for _, d := range Changes(DiskStates(&p)) {
			text := strings.Join([]string{d.Kind, d.Name, d.Action, d.From, d.To}, " ")
			if d.Diff != "" {
				text += " with its lines"
			}
			if d.Listed {
				text += " listed"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

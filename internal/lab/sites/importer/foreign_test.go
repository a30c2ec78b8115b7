package importer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/sites/importer"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages/builtin"
)

const known = "known1.0123456789abcdef"

// patchFolder reads testdata/patches in place of the folder that the file names.
func patchFolder(string) (files []importer.PatchFile, err error) {
	names, err := filepath.Glob("testdata/patches/*")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, importer.PatchFile{Name: name, Text: text})
	}
	return files, err
}

func foreignOptions() importer.Values {
	return importer.Values{Credential: "bootstrap-token", Version: "0.1.0", ReadPatches: patchFolder}
}

// checkNoSecrets fails if a token is in what a user sees.
func checkNoSecrets(t *testing.T, r importer.Imported) {
	t.Helper()
	shown := string(r.Text) + strings.Join(r.Differences, "\n") + strings.Join(r.Open, "\n")
	for _, d := range r.Diagnostics {
		shown += d.Summary + d.Detail
	}
	if strings.Contains(shown, known) {
		t.Errorf("the token is shown in:\n%s", shown)
	}
}

// TestJoins compares what becomes of files of kubeadm with testdata/joins.txtar, and never shows a token.
func TestJoins(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/joins.txtar")
	must(t, err)
	replace := strings.NewReplacer("@PIN@", pin, "@TOKEN@", known)
	var name, text string
	var patches []importer.PatchFile
	for _, f := range archive.Files {
		data := replace.Replace(string(f.Data))
		switch {
		case strings.HasPrefix(f.Name, "kubeletconfiguration"):
			patches = append(patches, importer.PatchFile{Name: "p/" + f.Name, Text: []byte(data)})
		case f.Name != "want":
			name, text, patches = f.Name, data, nil
		default:
			given := patches
			t.Run(name, func(t *testing.T) { checkJoin(t, text, given, strings.Split(strings.TrimSuffix(data, "\n"), "\n")) })
		}
	}
}

// checkJoin imports a file, and compares the result with the lines of a file "want".
func checkJoin(t *testing.T, text string, patches []importer.PatchFile, want []string) {
	t.Helper()
	o := foreignOptions()
	o.ReadPatches = func(folder string) ([]importer.PatchFile, error) {
		if folder == "/none" {
			return nil, errors.New("no such folder")
		}
		if patches != nil {
			return patches, nil
		}
		return patchFolder(folder)
	}
	options := map[string]func(string){
		"--server":       func(s string) { o.Servers = []string{s} },
		"--ca-cert-hash": func(s string) { o.Hashes = []string{s} },
		"--patches":      func(s string) { o.Patches = s },
	}
	for len(want) > 0 {
		name, value, _ := strings.Cut(want[0], " ")
		if options[name] == nil || value == "" {
			break
		}
		options[name](value)
		want = want[1:]
	}

	r := importer.Import("join.yaml", []byte(text), o)
	checkNoSecrets(t, r)
	shown := string(r.Text) + strings.Join(r.Open, "\n") + "\n" + r.Diagnostics.Error() + "\n"
	for _, d := range r.Diagnostics {
		if origin.CodeOf(d) == fault.Internal {
			t.Errorf("got a bug: %s", d.Detail)
		}
		shown += formatDiagnostic(d) + " " + d.Detail + "\n"
	}
	isRefused := want[0] == "refused"
	if r.Diagnostics.HasErrors() != isRefused || (r.Text == nil) != isRefused {
		t.Errorf("got the site %q and\n%s\nwant it refused: %t", r.Text, shown, isRefused)
	}
	for _, line := range want {
		in := shown
		if rest, isOfSite := strings.CutPrefix(line, "site "); isOfSite {
			in, line = string(r.Text), rest
		}
		line, isUnwanted := strings.CutPrefix(line, "!")
		if line != "refused" && strings.Contains(in, line) == isUnwanted {
			t.Errorf("got %s\nwant %q in it: %t", in, line, !isUnwanted)
		}
	}
}

// TestForeignOdd imports texts that are not for an archive.
func TestForeignOdd(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: \xff", "error syntax Invalid YAML"},
		{"a: " + strings.Repeat("x", 256<<10), "error limit This file is too large"},
		{`{"nodeLabels": "a=b", "apiserver": "user:S3CR3T@10.0.0.1:6443"}`, "The API server cannot be used"},
	} {
		checkJoin(t, c.text, nil, []string{"refused", c.want, "!S3C"})
	}
}

// TestForeignPlan: the site of a JoinConfiguration is planned, and its node has what kubeadm would make.
func TestForeignPlan(t *testing.T) {
	src, err := os.ReadFile("testdata/kubeadm.yaml")
	must(t, err)
	r := importer.Import("kubeadm.yaml", src, foreignOptions())
	s, diags := lang.Parse(
		[]tape.SiteFile{{Name: importer.FileName, Text: string(r.Text)}},
		lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"},
	)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	p := evaluate.Run(context.Background(), s, evaluate.RunInput{Source: tape.SourceFunc(answerJoin)})
	if p.Diagnostics.HasErrors() {
		t.Fatalf("plan: got %v, want no errors", p.Diagnostics)
	}

	var got []string
	for _, l := range p.Node.Labels {
		got = append(got, "label "+l.Key+"="+l.Value)
	}
	for _, x := range p.Node.Taints {
		got = append(got, "taint "+x.String())
	}
	for _, f := range p.Node.Flags {
		got = append(got, "--"+f.Name+"="+f.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Node.Config)) {
		got = append(got, fmt.Sprintf("%s: %v", name, p.Node.Config[name]))
	}
	for _, want := range []string{
		"label example.com/pool=gpu", "label example.com/zone=z1", "taint example.com/gpu=true:NoSchedule",
		"taint example.com/new:NoExecute", "--hostname-override=worker-7", "--node-ip=192.0.2.7", "--v=2",
		"--feature-gates=AllAlpha=false,AllBeta=false", "maxPods: 70", "podPidsLimit: 4096",
		"containerRuntimeEndpoint: unix:///var/run/crio/crio.sock", "kubeReserved: map[memory:1Gi]",
		"evictionHard: map[memory.available:200Mi nodefs.available:5%]", "clusterDNS: [10.96.0.10]",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), want)
		}
	}
	if _, isSet := p.Node.Config["clusterDomain"]; isSet {
		t.Errorf("clusterDomain: got %v, want it removed by a patch", p.Node.Config["clusterDomain"])
	}
}

// answerJoin answers for a new machine of a cluster.
func answerJoin(_ context.Context, q tape.Question) tape.Answer {
	switch q.Kind {
	case tape.KindTrust:
		return tape.Trust.Answer(tape.TrustAns{PEM: "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", Hash: pin, VerifiedBy: "pin"})
	case tape.KindObject:
		return tape.Object.Answer(tape.ObjectAns{Data: map[string]string{"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\n" +
			"kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nevictionSoft: {memory.available: 1Gi}\n"}})
	case tape.KindKubelet:
		version := "v1.37.1"
		return tape.Kubelet.Answer(tape.KubeletAns{Version: &version})
	}
	if q.Kind == tape.KindOriginal || q.Kind == tape.KindTarget {
		return tape.Original.Answer(tape.TargetAns{})
	}

	return tape.Answer{Fault: &fault.Fault{Code: fault.Absent, Why: "not here"}}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/sample"
)

// TestMistakes holds what `prelet validate --strict` says of the mistakes that people make in their first site: each has
// a place, what is wrong, and what to write instead. In the archive NAME.hcl is a part of a site, and NAME.want the
// first message. PRELET_UPDATE_MISTAKES=1 writes it.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const file = "testdata/mistakes.txtar"
	const before = `cluster {
  servers        = ["10.0.0.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
`
	isUpdate := os.Getenv("PRELET_UPDATE_MISTAKES") != ""
	archive, err := txtar.ParseFile(file)
	noError(t, err)

	cases := 0
	chosen := sample.New(t)
	for i, f := range archive.Files {
		name, isSite := strings.CutSuffix(f.Name, ".hcl")
		if !isSite {
			continue
		}
		cases++
		if !chosen.Has(sample.Quarter(1), name) && !isUpdate {
			continue
		}
		after := "stage \"write\" \"kubelet\" {}\nstage \"restart\" \"kubelet\" {}\n"
		if strings.Contains(string(f.Data), `stage "write"`) {
			after = ""
		}
		dir := t.TempDir()
		site := filepath.Join(dir, "site.hcl")
		osfile.Write(t, site, before+string(f.Data)+after, 0o644)

		cmd := exec.CommandContext(t.Context(), "prelet", "validate", "--strict", "site.hcl")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: got status 0; want another one", name)
		}
		got, _, _ := strings.Cut(string(out), "\n\n")
		got += "\n"
		want := &archive.Files[i+1].Data
		if isUpdate {
			*want = []byte(got)
		}
		if diff := cmp.Diff(string(*want), got); diff != "" {
			t.Errorf("%s (-want +got; PRELET_UPDATE_MISTAKES=1 writes it):\n%s", name, diff)
		}
	}

	if cases < 145 {
		t.Errorf("got %d mistakes; want at least 145", cases)
	}
	if isUpdate {
		osfile.Write(t, file, txtar.Format(archive), 0o644)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/prelet/prelet/internal/model/texts"
)

// hostileText acts on a terminal in each way that is known: it clears, sets the title, goes back, hides and reverses.
const hostileText = "\x1b[2J\x1b[1;1H\x1b]0;pwned\a\r\x7f\u009b31m\u202e\u2066\u200b\ufeff\u3164\U000e0041No changes."

// checkHarmless fails for output with a character that acts on a terminal, or is not seen.
func checkHarmless(t *testing.T, what string, outputs ...string) (reached bool) {
	t.Helper()
	for _, out := range outputs {
		reached = reached || strings.Contains(out, `\u202e`)
		i := strings.IndexFunc(out, func(r rune) bool {
			return r != '\n' && r != '\t' && (r == unicode.ReplacementChar || !texts.IsVisible(r))
		})
		if i >= 0 {
			t.Errorf("%s: got %q, want it escaped", what, out[max(0, i-60):min(len(out), i+60)])
		}
	}
	return reached
}

// spoil puts hostile text into each text of a document, the names of members but for those of the format included.
func spoil(v any) any {
	switch v := v.(type) {
	case string:
		return v + hostileText
	case []any:
		for i := range v {
			v[i] = spoil(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = spoil(v[k])
		}
	}
	return v
}

// TestHostileRecordings shows recordings in which a stranger has written to the terminal of who looks at them: in one
// kind of answer at a time, in reasons, and in the site.
func TestHostileRecordings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpu", "base", "joined"} {
		text, err := os.ReadFile("../../testdata/recordings/v1/" + name + ".prelet")
		noError(t, err)
		kinds := map[string]bool{"the site": true, "reasons": true}
		var whole map[string]any
		noError(t, json.Unmarshal(text, &whole))
		for _, a := range whole["answers"].([]any) {
			kinds[a.(map[string]any)["kind"].(string)] = true
		}
		for kind := range kinds {
			var d map[string]any
			_ = json.Unmarshal(text, &d) // as above
			for _, a := range d["answers"].([]any) {
				a := a.(map[string]any)
				answer := a["answer"].(map[string]any)
				switch {
				case kind == "reasons":
					delete(answer, "value")
					answer["fail"], answer["detail"], answer["hint"] = "unusable", "detail"+hostileText, "hint"+hostileText
				case a["kind"] == kind && answer["value"] != nil:
					answer["value"] = spoil(answer["value"])
				}
			}
			if kind == "the site" {
				for _, f := range d["site"].([]any) {
					f := f.(map[string]any)
					f["name"], f["text"] = "a"+hostileText+".hcl", f["text"].(string)+"\nlocals {\n  x = "+
						"\"\u202e"+"\u009b\" + 1\n  \u202e\n}\n"
				}
			}
			b, err := json.Marshal(d)
			path := filepath.Join(t.TempDir(), "a.prelet")
			if err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
			noError(t, err)
			for _, args := range [][]string{
				{"plan", "--from", path}, {"plan", "--from", path, "-o", "json"}, {"explain", "--from", path, "flag/node-labels"},
				{"explain", "--from", path, "/var/lib/kubelet/config.yaml"}, {"detect", "--from", path},
			} {
				var stdout, stderr bytes.Buffer
				runMain(args, &stdout, &stderr)
				checkHarmless(t, name+": "+kind+": "+args[0], stdout.String(), stderr.String())
				if last := args[len(args)-1]; last == "json" && !json.Valid(stdout.Bytes()) {
					t.Errorf("%s: %s: got %.200q, want JSON", name, kind, stdout.String())
				}
			}
		}
	}
}

// TestHostileFiles has hostile text in the site, the cluster's objects, the old files, what is kept of runs, and names.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.boot()
	m.put("/etc/motd", "old "+hostileText+"\n")
	m.put("/etc/source", "new "+hostileText+"\n")
	noError(t, os.Chmod(filepath.Join(m.root, "etc/motd"), 0o644))
	site := filepath.Join(t.TempDir(), "a"+strings.ReplaceAll(hostileText, "/", "")+".hcl")
	text := `
stage "detect-hw" "node" {}
stage "fetch-config" "motd" { file = "/etc/source" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" }
  file "motd" {
    path    = "/etc/motd"
    content = stage.fetch-config.motd.text
  }
}
`
	noError(t, os.WriteFile(site, []byte(text), 0o600))
	status := filepath.Join(m.run, "status.json")
	var d map[string]any
	b, err := os.ReadFile(status)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	noError(t, err)
	d["summary"] = hostileText
	d["degraded"] = []any{map[string]any{"code": "drift", "summary": hostileText}}
	if b, err = json.Marshal(d); err == nil {
		err = os.WriteFile(status, b, 0o644)
	}
	noError(t, err)

	reached := map[string]bool{}
	for _, args := range [][]string{
		{"validate", "--config", site}, {"plan", "--config", site, "--root", m.root}, {"plan", "--config", site, "--root", m.root, "-o", "json"},
		{"explain", "--config", site, "--root", m.root, "/etc/motd"}, {"status"}, {"status", "-o", "json"}, {"history"}, {"doctor"}, {"verify"}, {"recover"},
		{"record", "--config", site, "--root", m.root, filepath.Join(t.TempDir(), hostileText+".prelet")}, {"plan", "--from", hostileText + ".prelet"},
		{"run", "--config", site, "--root", m.root}, {"rollback", "99"}, {"explain", hostileText}, {"help", hostileText}, {hostileText}, {"plan", "--" + hostileText},
		{"fmt", site}, {"import", site}, {"detectors", "lock", hostileText}, {"detectors", "list", "--config", site}, {"init", hostileText + "/x"},
	} {
		if args[0] == "init" { // it writes into the working folder
			continue
		}
		got := m.as("", args...)
		if checkHarmless(t, args[0], got.out, got.errors) {
			reached[args[0]] = true
		}
	}
	for _, command := range []string{"plan", "status", "record", "help"} {
		if !reached[command] {
			t.Errorf("%s: the hostile text is nowhere in its output; want it escaped", command)
		}
	}
}

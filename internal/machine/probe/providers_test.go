package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestCredentialProviders checks the configuration of image credential providers on a machine: the names of its plugins,
// why the kubelet cannot read it, and that nothing else of it is in an answer.
func TestCredentialProviders(t *testing.T) {
	const right = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
		"- {name: ecr, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['*.example'], " +
		"defaultCacheDuration: 12h, env: [{name: A, value: hunter2}]}\n"
	for text, want := range map[string]string{
		right:                               "",
		"a: [hunter2":                       "it is not YAML",
		"kind: Other\nvalue: hunter2":       "not a CredentialProviderConfig",
		right[:strings.Index(right, "- {")]: "at least 1 item",
		strings.Replace(right, "matchImages: ['*.example'], ", "", 1):     "providers.matchImages",
		strings.Replace(right, "defaultCacheDuration: 12h, ", "", 1):      "providers.defaultCacheDuration",
		strings.Replace(right, "kubelet.config.k8s.io/v1", "other/v1", 1): "not a CredentialProviderConfig",
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{"a.yaml": text, "README": "x", "b.json.bak": "x"} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		for _, place := range []string{dir, filepath.Join(dir, "a.yaml")} {
			got, err := checkExists(tape.ExistsReq{Path: place, Providers: true})
			isRight := err == nil && (got.Refused == "") == (want == "") && strings.Contains(got.Refused, want)
			if !isRight || want == "" && strings.Join(got.Providers, " ") != "ecr" ||
				strings.Contains(got.Refused, "hunter2") {
				t.Errorf("%q in %s: got %+v, %v; want a refusal with %q, or the plugin ecr", text, place, got, err, want)
			}
		}
	}

	empty := t.TempDir()
	got, err := checkExists(tape.ExistsReq{Path: empty, Providers: true})
	if err != nil || !strings.Contains(got.Refused, "no configuration files found") {
		t.Errorf("an empty folder: got %+v, %v; want a refusal", got, err)
	}
}

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe/kubeletstate"
	"github.com/prelet/prelet/internal/world"
)

// TestImagePolicy returns the policy of the planned kubelet by its version and feature gate.
func TestImagePolicy(t *testing.T) {
	for _, c := range []struct {
		version   string
		effective map[string]any
		want      string // "": none
	}{
		{"v1.35.0", map[string]any{}, "NeverVerifyPreloadedImages []"},
		{"v1.34.1", map[string]any{}, ""}, // alpha
		{"v1.34.1", map[string]any{"featureGates": map[string]any{"KubeletEnsureSecretPulledImages": true},
			"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}, "AlwaysVerify []"},
		{"v1.36.0", map[string]any{"featureGates": map[string]any{"KubeletEnsureSecretPulledImages": false}}, ""},
		{"v1.32.0", map[string]any{}, ""},
		{"v1.37.1", nil, ""},
		{"", map[string]any{}, ""},
		{"v1.37.1", map[string]any{"imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
			"preloadedImagesVerificationAllowlist": []any{"a.example.com/*", 3}}, "NeverVerifyAllowlistedImages [a.example.com/*]"},
	} {
		p := &boot.Plan{Node: node.Node{Effective: c.effective}}
		if c.version != "" {
			p.Kubelet = world.KubeletAns{Version: &c.version}
		}
		got := ""
		if policy, ok := imagePolicy(p); ok {
			got = fmt.Sprintf("%s %v", policy.Policy, policy.Allowlist)
		}
		if got != c.want {
			t.Errorf("%s %v: got %q, want %q", c.version, c.effective, got, c.want)
		}
	}
}

// TestCompareImages reads the records of a kubelet: none, one with a secret, an interrupted pull, garbage, and one that
// cannot be read. A sandbox image is never named, and neither is the content of a record.
func TestCompareImages(t *testing.T) {
	root := t.TempDir()
	const record = `{"kind":"ImagePulledRecord","imageRef":"id-secret","credentialMapping":{"r.example.com/secret":` +
		`{"kubernetesSecrets":[{"name":"hidden"}]}}}`
	put(t, root, kubelet.PulledImages+"/"+kubelet.ImageRecordFile("id-secret"), record)
	put(t, root, kubelet.PulledImages+"/"+kubelet.ImageRecordFile("id-garbage"), "")
	put(t, root, kubelet.PullingImages+"/"+kubelet.ImageRecordFile("r.example.com/begun:1"), "{}")

	policy := kubelet.PolicyOfImages{Policy: "NeverVerifyPreloadedImages"}
	images := []kubeletstate.Image{
		{ID: "id-secret", Names: []string{"r.example.com/secret:1"}},
		{ID: "id-garbage", Names: []string{"r.example.com/garbage:1", "registry.k8s.io/pause:3.10"}},
		{ID: "id-begun", Names: []string{"r.example.com/begun:1"}},
		{ID: "id-fine", Names: []string{"r.example.com/fine:1"}},
	}
	got := compareImages(nodefile.Root(root), policy, images)
	text := fmt.Sprintf("%+v", got)
	for _, want := range []string{"r.example.com/secret:1", "r.example.com/garbage:1", "r.example.com/begun:1"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want text with %s", text, want)
		}
	}
	if got.Err != nil || got.Count != 4 || len(got.Refused) != 3 || strings.Contains(text, "hidden") ||
		strings.Contains(text, "pause") {
		t.Errorf("got %s, want three of four images, and neither a secret nor a sandbox image", text)
	}

	must(t, os.MkdirAll(filepath.Join(root, kubelet.PulledImages, kubelet.ImageRecordFile("id-fine")), 0o700))
	if got := compareImages(nodefile.Root(root), policy, images[3:]); got.Err == nil {
		t.Errorf("a record that cannot be read: got %+v, want an error", got)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

package probe

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
)

// TestWithheldOriginals shows of the files from which a plan is made only the kubelet's configuration and flags.
func TestWithheldOriginals(t *testing.T) {
	const config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	const flags = "# token CANARY-1\nHTTPS_PROXY=http://u:CANARY-2@proxy:3128 # CANARY-3\n\nKUBELET_EXTRA_ARGS=\"--v=2\"\r\n" +
		"; CANARY-4\nAWS_SECRET=\"CANARY-5 \\\n CANARY-6\"\nCANARY-7\nCANARY-b==\nEMPTY=\nDASH=-CANARY-9\n# CANARY-8"

	const keys = "KEY=\"-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\"\n" +
		"PW=--CANARY\nHTTP=--user=CANARY\nP2=-vCANARY\nKUBELET_EXTRA_ARGS=--v=2\nCANARY==\nCANARYx=\n"
	shown := strings.ReplaceAll(flags, "CANARY", "shown")
	tests := table.YAML[map[string]struct {
		Text      string
		Mode      os.FileMode
		IsPrivate bool
	}](t, `
/etc/default/kubelet: {text: '{flags}', mode: 0o600, isPrivate: true}
/etc/sysconfig/kubelet: {text: "\nKUBELET_EXTRA_ARGS=--v=2\n", mode: 0o600, isPrivate: true}
/etc/a=b/kubelet: {text: '{flags}', mode: 0o640, isPrivate: true}
/etc/default/own: {text: "KUBELET_EXTRA_ARGS=\"\\\n --v=2 \\\n --x=y\"\n\
  KUBELET_KUBEADM_ARGS=$OTHER --v=2\nOPTS=\" --CANARY=3\"\n",
  mode: 0o600, isPrivate: true}
/etc/default/key: {text: '{keys}', mode: 0o600, isPrivate: true}
/etc/default/token: {text: "# CANARY: abcdef.0123456789abcdef\nKUBELET_EXTRA_ARGS=--v=2\n", mode: 0o640,
  isPrivate: true}
/etc/closed/kubelet: {text: "DB=CANARY\n", mode: 0o644, isPrivate: true}
/etc/default/quote: {text: "KUBELET_EXTRA_ARGS=--v=2\nDB='CANARY' \"CANARY\n", mode: 0o600, isPrivate: true}
/etc/default/backslash: {text: "KUBELET_EXTRA_ARGS=--v=2\nDB=CANARY \\", mode: 0o600, isPrivate: true}
/etc/default/continued: {text: "A=1\n# CANARY \\\nKUBELET_EXTRA_ARGS=--v=3\n", mode: 0o600, isPrivate: true}
/etc/public/kubelet: {text: '{shown}', mode: 0o644}
/etc/kubernetes/10.conf: {text: 'kind: [CANARY', mode: 0o600, isPrivate: true}
/var/lib/kubelet/config.yaml: {text: "{config}maxPods: 7\n", mode: 0o600}
/var/lib/kubelet/config-1.yaml: {text: "{config}# CANARY\nmaxPods: 7\n", mode: 0o600}
/var/lib/kubelet/config-0.yaml: {text: "{config}staticPodURLHeader: {Authorization: [CANARY]}\n", mode: 0o600}
/etc/kubernetes/header-for-all: {text: "{config}staticPodURLHeader: {Authorization: [CANARY]}\n", mode: 0o644}
/etc/kubernetes/another/10.conf: {text: "kind: Another\nsecret: CANARY\n", mode: 0o600, isPrivate: true}
`, "flags", flags, "keys", keys, "shown", shown, "config", config)

	root := t.TempDir()
	l := newLive(t, Sources{Root: root})
	place(t, root, "/etc/closed/kubelet", "")
	must(t, os.Chmod(root+"/etc/closed", 0o750))

	for path, test := range tests {
		placeMode(t, root, path, test.Text, test.Mode)

		got, _, err := tape.Original.Ask(t.Context(), l, tape.OriginalReq{Path: path})
		isHidden := got.SHA256 == ""
		isWithheld := strings.Contains(test.Text, "CANARY")
		if err != nil || got.Private != test.IsPrivate || strings.Contains(got.Text, "CANARY") || isHidden != isWithheld {
			t.Errorf("%s: got %+v, %v; want private %t, without CANARY, and a hash if nothing is withheld: %t",
				path, got, err, test.IsPrivate, !isWithheld)
		}

		isConfig := strings.Contains(test.Text, config)
		if text, err := secret.ResolvePlaceholders(got.Text, l.Secret); !isConfig && (text != test.Text || err != nil) {
			t.Errorf("%s, resolved: got %q, %v; want %q", path, text, err, test.Text)
		}
	}

	for path, text := range map[string]string{
		"/etc/default/bom":  "\ufeffSECRET=CANARY\nKUBELET_EXTRA_ARGS=--v=2\n",
		"/etc/default/mark": "A=CANARY\ue000\n",
	} {
		placeMode(t, root, path, text, 0o600)
		_, a, err := tape.Original.Ask(t.Context(), l, tape.OriginalReq{Path: path})
		if a.Code() != fault.FileUnusable || a.Value != nil || strings.Contains(a.Why(), "CANARY") {
			t.Errorf("%s: got %s, %v; want file-unusable without CANARY", path, a.Value, err)
		}
	}

	got, _, err := tape.Original.Ask(t.Context(), l, tape.OriginalReq{Path: "/etc/default/kubelet"})
	must(t, err)
	env, err := kubelet.ParseEnvFile(got.Text)
	must(t, err)
	names := strings.Join(slices.DeleteFunc(env.Names(), secret.HasPlaceholder), " ")
	if want := "HTTPS_PROXY KUBELET_EXTRA_ARGS AWS_SECRET DASH"; names != want {
		t.Errorf("variables: got %s, want %s", names, want)
	}
	if text, _ := env.Value("KUBELET_EXTRA_ARGS"); text != "--v=2" {
		t.Errorf("flags: got %q, want --v=2", text)
	}
}

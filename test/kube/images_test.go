package kube

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	kubeletconfig "k8s.io/kubelet/config/v1"
)

const pluginSite = quick + `
stage "write" "kubelet" {
  kubelet_flags {
    flags = {
      image-credential-provider-config  = "/etc/kubernetes/credential-providers.yaml"
      image-credential-provider-bin-dir = "/opt/plugins"
    }
  }
  file "credential-providers" {
    path = "/etc/kubernetes/credential-providers.yaml"
    content = yamlencode({
      apiVersion = "kubelet.config.k8s.io/v1"
      kind       = "CredentialProviderConfig"
      providers = [{
        name                 = "vault"
        apiVersion           = "credentialprovider.kubelet.k8s.io/v1"
        matchImages          = ["registry.example:8080/team", "*.registry.example"]
        defaultCacheDuration = "12h"
        args                 = ["get"]
        env                  = [{ name = "REGION", value = "eu" }]
        tokenAttributes = {
          serviceAccountTokenAudience          = "registry"
          cacheType                            = "Token"
          requireServiceAccount                = true
          requiredServiceAccountAnnotationKeys = ["example.com/Role"]
        }
      }]
    })
  }
  kubelet_config {
    patch = {
      imagePullCredentialsVerificationPolicy = "NeverVerifyAllowlistedImages"
      preloadedImagesVerificationAllowlist   = ["registry.example/team/*", "registry.example/tool"]
    }
  }
}
`

// TestCredentialPlugins: a real kubelet starts with the files and fields of the site, and logs the same settings. Without its
// plugin it does not start, in the words of the rule, and plan reports that before.
func TestCredentialPlugins(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, quick)
	journal(t, m.Node)
	site := strings.Replace(pluginSite, "stage \"write\" \"kubelet\" {}\n", "", 1)
	const plugin = "/opt/plugins/vault"

	m.site(site)
	refuses := func(what, words string) {
		t.Helper()
		r := prelet(t, m.Node, 30, "plan")
		text := strings.Join(strings.Fields(r.Out+r.Err), " ")
		if !strings.Contains(text, words) {
			t.Errorf("plan %s: got %s; want %q", what, r, words)
		}
	}
	refuses("without the folder", "plugin binary directory /opt/plugins did not exist")
	must(t, m.Write(plugin, "#!/bin/sh\nexit 1\n", 0o644))
	refuses("with a plugin that cannot be executed", `exec: "/opt/plugins/vault": permission denied`)
	_, err := m.Run(t.Context(), "chmod", "0755", plugin)
	must(t, err)
	if r := m.run(0); strings.Contains(r.Out+r.Err, "config-drift") {
		t.Errorf("run: got %s; want no difference to the configuration that the kubelet logs", r)
	}

	text, err := m.Read("/etc/kubernetes/credential-providers.yaml")
	must(t, err)
	var written kubeletconfig.CredentialProviderConfig
	if err := yaml.UnmarshalStrict([]byte(text), &written); err != nil || len(written.Providers) != 1 ||
		written.Providers[0].DefaultCacheDuration.Duration != 12*time.Hour {
		t.Errorf("the file as Kubernetes' own type: got %+v, %v; want one provider with 12h\n%s", written, err, text)
	}
	for _, words := range []string{"NeverVerifyAllowlistedImages", "registry.example/team/*"} {
		if !strings.Contains(m.KubeletLog(), words) {
			t.Errorf("the kubelet's log: want %q in it", words)
		}
	}

	_, err = m.Run(t.Context(), "rm", plugin)
	must(t, err)
	refuses("without the plugin", "plugin binary executable did not exist: /opt/plugins/vault")
	must(t, m.Systemctl(t.Context(), "restart"))
	must(t, waitFor(t.Context(), 30*time.Second, "the kubelet exits", func() string {
		if strings.Contains(m.KubeletLog(), `err="plugin binary executable  did not exist"`) {
			return ""
		}
		return last(m.KubeletLog(), 500)
	}))
}

package kubelet

import (
	"fmt"
	"strings"
	"testing"
)

// TestPolicyOfImages follows MustAttemptImagePull of the kubelet for pods without credentials of their own.
func TestPolicyOfImages(t *testing.T) {
	const id, name = "sha256:1", "registry.example.com/team/app:1.2"
	record := func(id, names string) []byte {
		return fmt.Appendf(nil, `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",`+
			`"lastUpdatedTime":"2026-11-22T10:00:00Z","imageRef":%q,"credentialMapping":{%s}}`, id, names)
	}
	public := record(id, `"registry.example.com/team/app":{"nodePodsAccessible":true}`)
	secret := record(id, `"registry.example.com/team/app":{"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":"h"}]}`)
	pulling := []byte(`{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"` + name + `"}`)
	preloaded := PolicyOfImages{Policy: "NeverVerifyPreloadedImages"}
	always := PolicyOfImages{Policy: "AlwaysVerify"}
	list := func(patterns ...string) PolicyOfImages {
		return PolicyOfImages{Policy: "NeverVerifyAllowlistedImages", Allowlist: patterns}
	}

	for _, c := range []struct {
		what   string
		policy PolicyOfImages
		name   string
		record ImageRecord
		says   string
	}{
		{"never", PolicyOfImages{Policy: "NeverVerify"}, name, ImageRecord{Pulled: secret}, ""},
		{"preloaded", preloaded, name, ImageRecord{}, ""},
		{"preloaded, and pulled for all pods", preloaded, name, ImageRecord{Pulled: public}, ""},
		{"preloaded, and pulled under another name", preloaded, "other.example.com/app:1", ImageRecord{Pulled: public},
			"a kubelet has pulled it before"},
		{"preloaded, and pulled with a secret", preloaded, name, ImageRecord{Pulled: secret}, "a kubelet has pulled it before"},
		{"preloaded, and a record without credentials", preloaded, name, ImageRecord{Pulled: record(id, "")},
			PulledImages + "/" + ImageRecordFile(id)},
		{"preloaded, and a record of another image", preloaded, name, ImageRecord{Pulled: record("sha256:2", "")}, ""},
		{"preloaded, and a pull was interrupted", preloaded, name, ImageRecord{Pulling: pulling},
			PullingImages + "/" + ImageRecordFile(name)},
		{"preloaded, and garbage", preloaded, name, ImageRecord{Pulled: []byte("\x00{")}, "cannot be read: it is not a JSON object"},
		{"never, and an empty record", PolicyOfImages{Policy: "NeverVerify"}, name, ImageRecord{Pulled: []byte{}}, "cannot be read"},
		{"never, and another kind", PolicyOfImages{Policy: "NeverVerify"}, name, ImageRecord{Pulled: pulling},
			`its kind is "ImagePullIntent"`},
		{"always", always, name, ImageRecord{}, "AlwaysVerify"},
		{"always, and pulled for all pods", always, name, ImageRecord{Pulled: public}, ""},
		{"in the list", list("registry.example.com/team/app"), name, ImageRecord{}, ""},
		{"in the list, with a digest", list("registry.example.com:5000/app"), "registry.example.com:5000/app@sha256:" + strings.Repeat("ab", 32),
			ImageRecord{}, ""},
		{"in the list, as pods write it", list("nginx"), "docker.io/library/nginx:1", ImageRecord{}, ""},
		{"below a prefix of the list", list("registry.example.com/*"), name, ImageRecord{Pulled: secret}, ""},
		{"not in the list", list("registry.example.com/te", "registry.example.com/team/other"), name, ImageRecord{},
			"preloadedImagesVerificationAllowlist does not have it"},
	} {
		got := c.policy.Refuses(id, c.name, c.record)
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: got %q, want %q", c.what, got, c.says)
		}
	}

	// The name of a real file of kubelet 1.37.
	if got, want := ImageRecordFile("registry.k8s.io/pause:3.10"),
		"sha256-"; !strings.HasPrefix(got, want) || len(got) != len(want)+64 {
		t.Errorf("got file %s, want %s and 64 digits", got, want)
	}
}

package kubelet

import (
	"slices"
	"testing"
)

// TestHideSecrets hides values of secret flags and headers, and nothing else.
func TestHideSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"A=--v=2\n": "A=--v=2\n",
		"# c\nA=\"--v=2 --manifest-url-header=Authorization:CANARY --v=3\"\nB=x\n":                                                         "# c\nA=\"--v=2 --manifest-url-header=Authorization:(sensitive) --v=3\"\nB=x\n",
		"A=--storage_driver_password=CANARY":                                                                                               "A=--storage-driver-password=(sensitive)",
		"A='--storage-driver-password CANARY --v=2'\n":                                                                                     "A='--storage-driver-password (sensitive) --v=2'\n",
		"A=\"--manifest-url-header='X-A: CANARY x' --v=1\"\nA=--storage-driver-password=CANARY\n":                                          "A=\"--manifest-url-header=X-A:(sensitive) --v=1\"\nA=--storage-driver-password=(sensitive)\n",
		"A=\"--manifest-url=https://h/manifest\"\n":                                                                                        "A=\"--manifest-url=https://h/manifest\"\n",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodURLHeader:\n  X: [\"CANARY\"]\nstaticPodURL: h\n": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodURLHeader:\n  X: [\"(sensitive)\"]\nstaticPodURL: h\n",
	} {
		got := HideSecrets(text)
		if again := HideSecrets(got); got != want || again != got {
			t.Errorf("%q: got %q, then %q; want %q", text, got, again, want)
		}
	}

	words := []string{"kubelet", "--manifest-url-header", "A:CANARY", "--storage-driver-password=CANARY", "--v=2", "$X",
		"--storage-driver-password=${PW}"}
	want := []string{"kubelet", "--manifest-url-header", "A:(sensitive)", "--storage-driver-password=(sensitive)", "--v=2",
		"$X", "--storage-driver-password=${PW}"}
	if got := HideSecretWords(words); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHideConfigOfNone: the hash of a node without a configuration is that of null.
func TestHideConfigOfNone(t *testing.T) {
	if got := HideConfig(nil); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

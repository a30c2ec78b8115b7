package kubelet

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/prelet/prelet/internal/testing/table"
)

const testPEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func TestBootstrapKubeconfig(t *testing.T) {
	want, err := os.ReadFile("testdata/kubeconfig/bootstrap")
	must(t, err)
	got := BootstrapKubeconfig("https://192.0.2.10:6443", "", testPEM, "abcdef.0123456789abcdef")
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, token := range []string{"abcdef.0123456789abcdef", "123456.1234567890123456", "\ue000cred:bootstrap-token\ue001", `a"b\c`, "yes", "# x", "a: b\n"} {
		file, err := clientcmd.Load([]byte(BootstrapKubeconfig("https://[2001:db8::1]:6443", "", testPEM, token)))
		if err != nil {
			t.Fatalf("%q: got %v, want no error", token, err)
		}
		at := file.Contexts[file.CurrentContext]
		k, u := file.Clusters[at.Cluster], file.AuthInfos[at.AuthInfo]
		if u.Token != token || k.Server != "https://[2001:db8::1]:6443" ||
			string(k.CertificateAuthorityData) != testPEM {
			t.Errorf("%q: got token %q at %q, want the same at https://[2001:db8::1]:6443", token, u.Token, k.Server)
		}
	}
	if text := BootstrapKubeconfig(
		"https://x",
		"http://user:pass@proxy.example:3128",
		testPEM,
		"\ue000cred:a\ue001",
	); !strings.Contains(
		text,
		"token: \"\ue000cred:a\ue001\"\n",
	) {
		t.Errorf("want the placeholder unchanged, got:\n%s", text)
	} else if file, err := clientcmd.Load([]byte(text)); err != nil ||
		file.Clusters["kubernetes"].ProxyURL != "http://user:pass@proxy.example:3128" {
		t.Errorf("want the proxy in the cluster's entry, got %v:\n%s", err, text)
	}
}

func TestLayoutFor(t *testing.T) {
	for _, c := range table.YAML[[]struct{ ID, Like, Want string }](t, `
- {id: debian, want: /etc/default/kubelet}
- {id: ubuntu, like: debian, want: /etc/default/kubelet}
- {id: linuxmint, like: ubuntu debian, want: /etc/default/kubelet}
- {id: rhel, like: fedora, want: /etc/sysconfig/kubelet}
- {id: rocky, like: rhel centos fedora, want: /etc/sysconfig/kubelet}
- {id: newrpm, like: rhel fedora, want: /etc/sysconfig/kubelet}
- {id: openEuler, want: /etc/sysconfig/kubelet}
- {id: opensuse-leap, like: suse opensuse, want: /etc/sysconfig/kubelet}
- {id: arch, want: /etc/default/kubelet}
- {want: /etc/default/kubelet}
`) {
		layout := LayoutFor(c.ID, c.Like)
		if layout.FlagsFile != c.Want || layout.FlagsVariable != "KUBELET_EXTRA_ARGS" {
			t.Errorf("%s (%s): got %+v; want %s", c.ID, c.Like, layout, c.Want)
		}
	}
}

// TestReplaceCA replaces the CAs in a kubeconfig, and leaves its other text as it is.
func TestReplaceCA(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("testdata/kubeconfig/" + name)
		must(t, err)
		return string(text)
	}
	one, two := read("one.pem"), read("two.pem")
	conf := "# made by hand\n" + BootstrapKubeconfig("https://192.0.2.10:6443", "", one, "x")

	got, ok := ReplaceCA(conf, one, one+two)
	want := "# made by hand\n" + BootstrapKubeconfig("https://192.0.2.10:6443", "", one+two, "x")
	if !ok || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", ok, got, want)
	}
	for _, old := range []string{"", two} {
		if got, ok := ReplaceCA(conf, old, two); ok || got != conf {
			t.Errorf("old %q: got %v\n%s\nwant no change", old, ok, got)
		}
	}

	for _, c := range []struct{ old, planned, want string }{
		{one + two, two + "# a comment\n" + one, ""},
		{one, testPEM, ""},
		{one, two + one, "added: CN=two with key sha256:"},
		{one + two, one, "removed: CN=two with key sha256:"},
		{one, two, "; removed: CN=one with key sha256:"},
	} {
		change := CompareCAs(c.old, c.planned)
		if got := change.Sentence(); !strings.Contains(got, c.want) || change.IsEmpty() != (c.want == "") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

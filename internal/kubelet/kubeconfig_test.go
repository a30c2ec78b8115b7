package kubelet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

const testPEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func TestBootstrapKubeconfig(t *testing.T) {
	want, err := os.ReadFile("testdata/kubeconfig/bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	got := BootstrapKubeconfig("https://192.0.2.10:6443", testPEM, "abcdef.0123456789abcdef")
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, token := range []string{"abcdef.0123456789abcdef", "123456.1234567890123456", "\ue000cred:bootstrap-token\ue001", `a"b\c`, "yes", "# x", "a: b\n"} {
		k, err := ParseKubeconfig(BootstrapKubeconfig("https://[2001:db8::1]:6443", testPEM, token))
		if err != nil {
			t.Fatalf("%q: %v", token, err)
		}
		if string(k.Token) != token || k.Server != "https://[2001:db8::1]:6443" || string(k.CAData) != testPEM || !k.HasIdentity() {
			t.Errorf("%q: read %q at %q", token, string(k.Token), k.Server)
		}
	}
	if text := BootstrapKubeconfig("https://x", testPEM, "\ue000cred:a\ue001"); !strings.Contains(text, "token: \"\ue000cred:a\ue001\"\n") {
		t.Errorf("the placeholder does not stand as it is:\n%s", text)
	}
}

func TestParseKubeconfig(t *testing.T) {
	joined, err := os.ReadFile("testdata/kubeconfig/joined")
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKubeconfig(string(joined))
	if err != nil {
		t.Fatal(err)
	}
	if k.Server != "https://192.0.2.10:6443" || k.ClientCertFile != "/var/lib/kubelet/pki/kubelet-client-current.pem" || k.ClientKeyFile != k.ClientCertFile || !k.HasIdentity() || k.Exec || string(k.CAData) != testPEM {
		t.Errorf("%+v", k)
	}
	discovery, err := ParseKubeconfig("apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: 'https://x:6443', certificate-authority: /ca}\ncontexts: null\ncurrent-context: \"\"\nusers: null\n")
	if err != nil || discovery.Server != "https://x:6443" || discovery.CAFile != "/ca" || discovery.HasIdentity() {
		t.Errorf("%+v, %v", discovery, err)
	}
	plugin, err := ParseKubeconfig("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {exec: {command: x}}}, {name: w, user: {tokenFile: /t}}]\ncontexts: [{name: c, context: {cluster: a, user: u}}, {name: d, context: {cluster: a, user: w}}]\ncurrent-context: c\n")
	if err != nil || !plugin.Exec || plugin.TokenFile != "" || !plugin.HasIdentity() {
		t.Errorf("%+v, %v", plugin, err)
	}
}

func TestParseKubeconfigRefuses(t *testing.T) {
	head := "apiVersion: v1\nkind: Config\n"
	good := "clusters: [{name: a, cluster: {server: 'https://x'}}]\n"
	for name, c := range map[string]struct{ text, says string }{
		"another kind":     {"apiVersion: v1\nkind: Pod\n" + good, "not Config"},
		"no cluster":       {head, "0 clusters"},
		"two clusters":     {head + "clusters: [{name: a}, {name: b}]\n", "2 clusters"},
		"http":             {head + "clusters: [{name: a, cluster: {server: 'http://x'}}]\n", "https"},
		"no server":        {head + "clusters: [{name: a, cluster: {}}]\n", "https"},
		"no such context":  {head + good + "current-context: x\n", `0 contexts are named "x"`},
		"no such cluster":  {head + good + "current-context: x\ncontexts: [{name: x, context: {cluster: b}}]\n", `0 clusters are named "b"`},
		"empty context":    {head + good + "current-context: x\ncontexts: [{name: x, context: {}}]\n", "names no cluster"},
		"no such user":     {head + good + "current-context: x\ncontexts: [{name: x, context: {cluster: a, user: u}}]\n", `0 users are named "u"`},
		"one name twice":   {head + "clusters: [{name: a}, {name: a}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: a}}]\n", `2 clusters are named "a"`},
		"no base64":        {head + "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority-data: '***'}}]\n", "no base64"},
		"no PEM":           {head + "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority-data: aGVsbG8=}}]\n", "no PEM"},
		"a key twice":      {head + good + "kind: Config\n", "already set"},
		"token no string":  {head + good + "users: [{name: u, user: {token: 5}}]\n", "token is not a string"},
		"clusters no list": {head + "clusters: {}\n", "not a list"},
		"insecure no bool": {head + "clusters: [{name: a, cluster: {server: 'https://x', insecure-skip-tls-verify: 'yes'}}]\n", "not true or false"},
	} {
		if _, err := ParseKubeconfig(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q in it", name, err, c.says)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	const canary = "canary.0123456789abcdef"
	key := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(testPEM, "CERTIFICATE", canary)))
	text := strings.Replace(BootstrapKubeconfig("https://x", testPEM, canary), "    token:", "    client-key-data: "+key+"\n    token:", 1)
	k, err := ParseKubeconfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if string(k.Token) != canary || !strings.Contains(string(k.ClientKeyData), canary) {
		t.Fatal("the secrets were not read")
	}
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&printed, verb+" "+verb+"\n", k, k.Token)
	}
	j, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(j)
	slog.New(slog.NewTextHandler(&printed, nil)).Info("x", "token", k.Token, "all", k)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("x", "token", k.Token, "all", k)
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), key[:40]} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("a secret was printed:\n%s", printed.String())
		}
	}
	bad := strings.Replace(text, "https://x", "http://x", 1)
	for _, breakage := range []string{bad, text + "token: [", strings.Replace(text, "token: ", "token: "+canary+": ", 1)} {
		if _, err := ParseKubeconfig(breakage); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("error %v", err)
		}
	}
}

func TestLayoutFor(t *testing.T) {
	for _, c := range []struct {
		id, like, want string
		known          bool
	}{
		{"debian", "", "/etc/default/kubelet", true},
		{"ubuntu", "debian", "/etc/default/kubelet", true},
		{"linuxmint", "ubuntu debian", "/etc/default/kubelet", true},
		{"rhel", "fedora", "/etc/sysconfig/kubelet", true},
		{"rocky", "rhel centos fedora", "/etc/sysconfig/kubelet", true},
		{"newrpm", "rhel fedora", "/etc/sysconfig/kubelet", true},
		{"openEuler", "", "/etc/sysconfig/kubelet", true},
		{"opensuse-leap", "suse opensuse", "/etc/sysconfig/kubelet", true},
		{"arch", "", "/etc/default/kubelet", false},
		{"", "", "/etc/default/kubelet", false},
	} {
		layout, known := LayoutFor(c.id, c.like)
		if layout.FlagsFile != c.want || known != c.known || layout.FlagsVariable != "KUBELET_EXTRA_ARGS" {
			t.Errorf("%s (%s): %+v, %v", c.id, c.like, layout, known)
		}
	}
}

package delivery

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/internal/testing/ociserver"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/schema"
)

const (
	pluginHost = "r.example:5000"
	canary     = "canary-password"
)

// respond returns the text of a plugin that answers with logins.
func respond(auth string) string {
	return "cat >\"$0.request\"\necho '{\"kind\":\"CredentialProviderResponse\"," +
		"\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"Registry\",\"auth\":" + auth + "}'"
}

// loginFor returns the logins of one key.
func loginFor(key string) string {
	return `{"` + key + `":{"username":"u","password":"` + canary + `"}}`
}

// plugins has a configuration with one plugin, which is a script, for images of a pattern.
type plugins struct {
	env   *machine.Env
	said  []string
	place schema.CredentialProvider
}

func newPlugins(t *testing.T, pattern, more, script string) *plugins {
	t.Helper()
	dir := t.TempDir()
	osfile.WriteTree(t, dir, map[string]string{
		"config/a.yaml": "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
			"- {name: vendor, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['" + pattern + "'], " +
			"defaultCacheDuration: 12h, args: [--fast], env: [{name: ZONE, value: a}]" + more + "}\n",
		"bin/vendor": "#!/bin/sh\n" + script + "\n",
	})
	if err := os.Chmod(filepath.Join(dir, "bin/vendor"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &plugins{env: (&node{}).env(), place: schema.CredentialProvider{
		Config: filepath.Join(dir, "config"), BinDir: filepath.Join(dir, "bin"),
	}}
	p.env.Say = func(text string) { p.said = append(p.said, text) }

	return p
}

// TestProvider follows one plugin that behaves: its request, arguments, environment and answer.
func TestProvider(t *testing.T) {
	t.Parallel()
	const script = `[ "$1 $ZONE" = "--fast a" ] || exit 9` + "\n"
	p := newPlugins(t, "*.example:5000", "", script+respond(loginFor(pluginHost)))
	user, password, err := providers{p.env, p.place}.credential(t.Context(), pluginHost, "sites/gpu")
	if user != "u" || password != canary || err != nil {
		t.Errorf("got %q, %q, %v; want the login of the plugin", user, password, err)
	}
	if hidden := p.env.Redactor.String(canary); strings.Contains(hidden, canary) {
		t.Errorf("got %q in output, want it hidden", hidden)
	}
	got := string(osfile.Read(t, filepath.Join(p.place.BinDir, "vendor.request")))
	const want = `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.example:5000/sites/gpu",` +
		`"kind":"CredentialProviderRequest"}`
	if got != want {
		t.Errorf("request: got %s, want %s", got, want)
	}
}

// TestHostileProviders has plugins and configurations that misbehave: no password is used, an error names the fault
// and has nothing that they print, and each ends in time.
func TestHostileProviders(t *testing.T) {
	t.Parallel()
	const another = "something other than"
	const dies = "echo " + canary + " >&2; "
	cases := map[string]struct{ pattern, more, script, wantErr, wantSaid string }{
		"hangs":                 {script: dies + "sleep 600", wantErr: "did not respond in time"},
		"hangs after answer":    {script: respond(loginFor(pluginHost)) + "\nsleep 600", wantErr: "did not respond in time"},
		"garbage":               {script: dies + "echo " + canary, wantErr: another},
		"nothing":               {script: "exit 0", wantErr: another},
		"10 MB":                 {script: "yes " + canary + " | head -c 10000000", wantErr: "more than 1 MiB"},
		"endless":               {script: "yes " + canary, wantErr: "more than 1 MiB"},
		"exit 1":                {script: dies + "exit 1", wantErr: "exit status 1"},
		"answer and exit 1":     {script: respond(loginFor(pluginHost)) + "\nexit 1", wantErr: "exit status 1"},
		"signal":                {script: "kill -9 $$", wantErr: "killed"},
		"wrong kind":            {script: `echo '{"kind":"Secret"}'`, wantErr: another},
		"wrong version":         {script: strings.Replace(respond("{}"), "io/v1", "io/v2", 1), wantErr: another},
		"wrong type of a field": {script: respond(`{"a":{"password":["` + canary + `"]}}`), wantErr: another},
		"two answers":           {script: respond("{}") + "\n" + respond("{}"), wantErr: another},
		"interpreter is gone":   {script: "", wantErr: "cannot be run"},
		"another host":          {script: respond(loginFor("other.example:5000"))},
		"another port":          {script: respond(loginFor("r.example"))},
		"another path":          {script: respond(loginFor(pluginHost + "/images"))},
		"half a name of a path": {script: respond(loginFor(pluginHost + "/sites/gp"))},
		"too wide a pattern":    {script: respond(loginFor("*:5000"))},
		"no logins":             {script: respond("null")},
		"no password":           {script: respond(`{"` + pluginHost + `":{"username":"u"}}`)},
		"not for this host":     {pattern: "other.example", script: dies + "exit 1"},
		"service account": {more: ", tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}",
			script: dies + "exit 1", wantSaid: "needs the service account of a pod, and is left out"},
		"out of the folder": {more: "}\n- {name: ../vendor, apiVersion: v, matchImages: ['r.example:5000'], " +
			"defaultCacheDuration: 1s", script: respond("{}"), wantErr: "not the name of a file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.pattern == "" {
				c.pattern = pluginHost
			}
			p := newPlugins(t, c.pattern, c.more, c.script)
			if name == "interpreter is gone" {
				osfile.WriteTree(t, p.place.BinDir, map[string]string{"vendor": "#!/nowhere/sh\n"})
			}
			ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{
				true: 300 * time.Millisecond, false: time.Minute,
			}[strings.HasPrefix(name, "hangs")])
			defer cancel()

			_, password, err := providers{p.env, p.place}.credential(ctx, pluginHost, "sites/gpu")
			said := strings.Join(p.said, "\n")
			isRight := (err == nil) == (c.wantErr == "") && strings.Contains(fmt.Sprint(err), c.wantErr)
			if password != "" || !isRight || (said == "") != (c.wantSaid == "") || !strings.Contains(said, c.wantSaid) {
				t.Errorf("got a password %t, error %v and %q; want none, an error with %q and %q", password != "", err,
					said, c.wantErr, c.wantSaid)
			}
			if strings.Contains(fmt.Sprint(err)+said, canary) {
				t.Errorf("got %v and %q, want no text of the plugin", err, said)
			}
		})
	}
}

// TestProviderConfig has configurations that cannot be used.
func TestProviderConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage  func(p *plugins) error
		wantErr string
	}{
		"absent": {func(p *plugins) error { return os.RemoveAll(p.place.Config) }, "no such file"},
		"not YAML": {func(p *plugins) error {
			return os.WriteFile(filepath.Join(p.place.Config, "a.yaml"), []byte("a: ["+canary), 0o644)
		}, "not YAML"},
		"of another user": {func(p *plugins) error {
			return os.Chmod(filepath.Join(p.place.Config, "a.yaml"), 0o666)
		}, "can be written by everybody"},
		"program of another user": {func(p *plugins) error {
			return os.Chmod(filepath.Join(p.place.BinDir, "vendor"), 0o777)
		}, "is not run"},
		"no program": {func(p *plugins) error { return os.RemoveAll(p.place.BinDir) }, "cannot be run"},
	} {
		p := newPlugins(t, pluginHost, "", respond(loginFor(pluginHost)))
		if err := c.damage(p); err != nil {
			t.Fatal(err)
		}
		_, password, err := providers{p.env, p.place}.credential(t.Context(), pluginHost, "sites/gpu")
		text := fmt.Sprint(err)
		if password != "" || err == nil || !strings.Contains(text, c.wantErr) || strings.Contains(text, canary) {
			t.Errorf("%s: got %q, %v; want no password and an error with %q", name, password, err, c.wantErr)
		}
	}
}

// TestMatchesImage has the cases of the kubelet's own test, pkg/credentialprovider/keyring_test.go, TestURLsMatch.
func TestMatchesImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"*.kubernetes.io", "prefix.kubernetes.io", true},
		{"prefix.*.io", "prefix.kubernetes.io", true},
		{"prefix.kubernetes.*", "prefix.kubernetes.io", true},
		{"*-good.kubernetes.io", "prefix-good.kubernetes.io", true},
		{"*.kubernetes.io/blah", "prefix.kubernetes.io/blah", true},
		{"prefix.*.io/foo", "prefix.kubernetes.io/foo/bar", true},
		{"*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah", true},
		{"prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar", true},
		{"*.kubernetes.io", "kubernetes.io", false},
		{"*.*.kubernetes.io", "prefix.kubernetes.io", false},
		{"*.*.kubernetes.io", "kubernetes.io", false},
		{"*kubernetes.io", "a.kubernetes.io", false},
		{"*kubernetes.io", "kubernetes.io", true},
		{"*.*.*.kubernetes.io", "a.b.c.kubernetes.io", true},
		{"kubernetes.io", "kubernetes.com", false},
		{"k*.io", "quay.io", false},
		{"r.io/a", "r.io/a", true},
		{"r.io/a", "r.io/a/b", true},
		{"r.io/a/", "r.io/a/b", true},
		{"r.io/a", "r.io/ab", false}, // stricter than the kubelet
		{"*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah", false},
		{"prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar", false},
	} {
		if got := matchesImage(c.pattern, c.image); got != c.want {
			t.Errorf("matchesImage(%q, %q): got %t, want %t", c.pattern, c.image, got, c.want)
		}
	}
}

// TestProviderPulls pulls from a registry with a password that only the plugin has. A docker config.json comes first.
func TestProviderPulls(t *testing.T) {
	t.Parallel()
	own := &ociserver.Registry{User: "u", Password: canary}
	digest := ociserver.PutSite(own, ociserver.Archive(ociserver.Entry{Name: "a.hcl", Text: "locals {}\n"}))
	server := httptest.NewTLSServer(own)
	defer server.Close()
	host := server.Listener.Addr().String()
	ref := must(registry.Parse(host + "/" + ociserver.Reference))
	docker := t.TempDir()
	osfile.WriteTree(t, docker, map[string]string{
		"ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	})
	osfile.Write(t, filepath.Join(docker, secret.RegistryCredential),
		`{"auths":{"`+host+`":{"auth":"dTp3cm9uZw=="}}}`, 0o400) // u:wrong

	for _, hasDocker := range []bool{false, true} {
		p := newPlugins(t, "127.0.0.1:"+ref.Host[strings.Index(ref.Host, ":")+1:]+"/sites", "", respond(loginFor(host)))
		if hasDocker {
			p.env.Getenv = func(name string) string {
				return map[string]string{"CREDENTIALS_DIRECTORY": docker}[name]
			}
		}
		c, err := newClient(p.env, machine.Where{}, schema.Delivery{
			CAFile: filepath.Join(docker, "ca.pem"), Provider: p.place,
		})
		if err != nil {
			t.Fatal(err)
		}

		got, err := c.Pull(t.Context(), ref)
		if hasDocker {
			_, unused := os.Stat(filepath.Join(p.place.BinDir, "vendor.request"))
			if err == nil || !os.IsNotExist(unused) {
				t.Errorf("with a docker config.json: got %v, %v; want its password refused and no plugin started", err, unused)
			}
		} else if err != nil || got.Digest != digest {
			t.Errorf("got %v, %v; want the site %s", got, err, digest)
		}
	}
}

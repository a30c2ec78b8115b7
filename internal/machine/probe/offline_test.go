package probe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
)

// TestOffline reads a folder in place of the cluster. A malformed token is refused all the same, as it would be
// before it is sent; a missing one is not, because a laptop has none.
func TestOffline(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	dir := t.TempDir()
	place(t, dir, "/ca.crt", string(s.CAPEM()))
	place(t, dir, "/kube-system/right.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: right, namespace: kube-system}\ndata: {kubelet: x}\n")

	for _, c := range table.YAML[[]struct {
		Token, Name string
		Trust, Fail fault.Code // of the questions "trust" and "object"
		Why         string
	}](t, `
- {name: right}
- {token: abcdef.0123456789abcdef, name: right}
- {token: "abcdef.0123456789abcdef\n", name: right}
- {name: none, fail: absent, why: is missing}
- {token: abcdef0123456789abcdef, name: right, trust: credential, fail: credential,
   why: the bootstrap token is malformed}
- {token: ABCDEF.0123456789abcdef, name: right, trust: credential, fail: credential,
   why: the bootstrap token is malformed}
- {token: "abcdef.0123456789abcdef\r\n", name: right, trust: credential, fail: credential,
   why: 'the bootstrap token is malformed: not a bootstrap token: want six characters'}
- {token: "\ufeffabcdef.0123456789abcdef", name: right, trust: credential, fail: credential,
   why: 'the bootstrap token is malformed: not a bootstrap token'}
- {token: 'abcdef.0123456789abcdef ', name: right, trust: credential, fail: credential,
   why: 'the bootstrap token is malformed: not a bootstrap token'}
- {token: ' ', name: right, trust: credential, fail: credential, why: the bootstrap token is malformed}
`) {
		secrets := creds{}
		if c.Token != "" {
			secrets["t"] = c.Token
		}
		l := New(Sources{Root: t.TempDir(), Objects: dir, Credentials: secrets})
		access := tape.Access{Servers: []string{"192.0.2.1:6443"}, Token: "t"}

		r := tape.ObjectReq{Access: access, Namespace: "kube-system", Name: c.Name}
		_, a, _ := tape.Object.Ask(t.Context(), l, r)
		if a.Code() != c.Fail || !strings.Contains(a.Why(), c.Why) {
			t.Errorf("%q, %s: got %+v, want code %q: %s", c.Token, c.Name, a, c.Fail, c.Why)
		}
		if c.Token != "" && strings.Contains(a.Why(), "0123456789") {
			t.Errorf("%q, %s: got %q, want it without the token", c.Token, c.Name, a.Why())
		}
		if _, a, _ := tape.Trust.Ask(t.Context(), l, tape.TrustReq{Access: access}); a.Code() != c.Trust {
			t.Errorf("%q: trust: got %+v, want code %q", c.Token, a, c.Trust)
		}
		l.Close()
	}
}

// TestNamesObjects asks a cluster that does not answer, or that is another one, for the hardware of another machine:
// the next step is a folder in place of the cluster. For the machine itself it is the way to the cluster.
func TestNamesObjects(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	root := t.TempDir()
	place(t, root, "/right.crt", string(s.CAPEM()))

	for name, c := range map[string]struct {
		code   fault.Code
		access tape.Access
		own    string // the next step without --hardware
	}{
		"nobody answers": {
			fault.ClusterUnreachable,
			tape.Access{Servers: []string{"https://127.0.0.1:1"}, CAFile: "/right.crt", RetryMillis: 1},
			"Check that `servers`",
		},
		"no CA": {
			fault.ClusterUntrusted,
			tape.Access{Servers: []string{s.URL}, CAFile: "/none.crt", RetryMillis: 1},
			"put the cluster's CA there",
		},
	} {
		for _, hardware := range []string{"", t.TempDir()} {
			l := New(Sources{Root: root, Hardware: hardware, Credentials: creds{"t": "abcdef.0123456789abcdef"}})
			r := tape.ObjectReq{Access: c.access, Namespace: "kube-system", Name: "x"}
			_, a, _ := tape.Object.Ask(t.Context(), l, r)
			l.Close()
			if a.Code() != c.code || !strings.Contains(a.Fault.Next, c.own) {
				t.Errorf("%s: got %+v, want code %q and next step %q", name, a.Fault, c.code, c.own)
				continue
			}
			if count := strings.Count(a.Fault.Next, "--objects FOLDER"); count != min(1, len(hardware)) {
				t.Errorf("%s, hardware %q: got %q with --objects %d times", name, hardware, a.Fault.Next, count)
			}
		}
	}
}

// TestWhyToken asks for a token that is missing, on a node that had joined: the message has the reason why it joins
// again.
func TestWhyToken(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	conf := s.NodeKubeconfig("n1")
	for want, hadJoined := range map[string]bool{
		"; the node has to join again, because the certificate of /etc/kubernetes/kubelet.conf expired at ": true,
		"": false,
	} {
		root := t.TempDir()
		if hadJoined {
			place(t, root, joined.Conf, string(conf))
		}
		l := New(Sources{
			Root:        root,
			Credentials: creds{},
			Now:         func() time.Time { return time.Now().AddDate(5, 0, 0) },
		})
		_, err := l.newTokenReader("t")(t.Context())
		var f *fault.Fault
		if !errors.As(err, &f) || f.Code != fault.CredentialMissing || !strings.Contains(f.Why, want) ||
			!hadJoined && strings.Contains(f.Why, "join again") {
			t.Errorf("joined before %v: got %+v, want %q", hadJoined, err, want)
		}
		l.Close()
	}
}

// TestOfflineCAFile compares the CA of a folder in place of the cluster with the ca_file of this machine. Without one it
// is assumed, and with another CA in it refused.
func TestOfflineCAFile(t *testing.T) {
	ca, other := demo.NewAuthority("a"), demo.NewAuthority("b")
	objects := t.TempDir()
	place(t, objects, "/ca.crt", string(ca.CAPEM()))

	for name, c := range map[string]struct {
		text      string
		isAssumed bool
		code      fault.Code
		why       string
	}{
		"no ca_file":     {isAssumed: true},
		"same CA":        {text: "# a\n" + string(ca.CAPEM())},
		"old and new CA": {text: string(other.CAPEM()) + string(ca.CAPEM()), isAssumed: true},
		"another CA":     {string(other.CAPEM()), false, fault.ClusterUntrusted, other.CAHash() + ", and ca.crt of --objects " + ca.CAHash()},
		"no certificate": {"hello\n", false, fault.ClusterUnusable, "/srv/ca.crt contains no certificate"},
	} {
		root := t.TempDir()
		if c.text != "" {
			place(t, root, "/srv/ca.crt", c.text)
		}
		l := New(Sources{Root: root, Objects: objects})
		r := tape.TrustReq{Access: tape.Access{Servers: []string{"192.0.2.1:6443"}, CAFile: "/srv/ca.crt"}}
		trust, a, _ := tape.Trust.Ask(t.Context(), l, r)
		l.Close()
		if a.Code() != c.code || !strings.Contains(a.Why(), c.why) || trust.Assumed != c.isAssumed {
			t.Errorf("%s: got %+v, %+v; want assumed %v, code %q: %s", name, trust, a.Fault, c.isAssumed, c.code, c.why)
		}
	}
}

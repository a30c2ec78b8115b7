package live

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// A folder stands in for the cluster, and is not believed more than that: a ConfigMap is the one that its metadata says, and a
// token that is none is refused as the cluster's adapter does before it sends it.
func TestOffline(t *testing.T) {
	dir := t.TempDir()
	ca, _, _, _ := served(t)
	place(t, dir, "/ca.crt", ca)
	cm := func(metadata string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {" + metadata + "}\ndata: {kubelet: x}\n"
	}
	place(t, dir, "/kube-system/right.yaml", cm("name: right, namespace: kube-system, resourceVersion: '7'"))
	place(t, dir, "/kube-system/bare.yaml", cm(""))
	place(t, dir, "/kube-system/other.yaml", cm("name: kubelet-config, namespace: kube-system"))
	place(t, dir, "/kube-system/moved.json", `{"kind":"ConfigMap","metadata":{"name":"moved","namespace":"default"},"data":{}}`)
	place(t, dir, "/kube-system/secret.yaml", "kind: Secret\nmetadata: {name: secret}\n")
	for _, c := range []struct {
		token, name string
		fail        fault.Code
		says        string
	}{
		{"", "right", "", ""},
		{"abcdef.0123456789abcdef", "right", "", ""},
		{"abcdef.0123456789abcdef\n", "bare", "", ""},
		{"", "other", fault.ClusterUnusable, "other.yaml holds the ConfigMap kube-system/kubelet-config, and kube-system/other is wanted"},
		{"", "moved", fault.ClusterUnusable, "moved.json holds the ConfigMap default/moved, and kube-system/moved is wanted"},
		{"", "secret", fault.ClusterUnusable, "is no ConfigMap"},
		{"", "none", fault.Absent, "there is no"},
		{"abcdef0123456789abcdef", "right", fault.ClusterDenied, "the bootstrap token is malformed"},
		{"ABCDEF.0123456789abcdef", "right", fault.ClusterDenied, "the bootstrap token is malformed"},
	} {
		secrets := creds{}
		if c.token != "" {
			secrets["t"] = c.token
		}
		l := New(Options{Root: t.TempDir(), Objects: dir, Credentials: secrets})
		access := world.Access{Servers: []string{"192.0.2.1:6443"}, Token: "t"}
		_, a, _ := world.Object.Ask(t.Context(), l, world.ObjectReq{Access: access, Namespace: "kube-system", Name: c.name})
		if a.Code() != c.fail || !strings.Contains(a.Why(), c.says) || c.token != "" && strings.Contains(a.Why(), "0123456789") {
			t.Errorf("%q, %s: %+v", c.token, c.name, a)
		}
		if _, a, _ := world.Trust.Ask(t.Context(), l, world.TrustReq{Access: access}); (a.Code() == fault.ClusterDenied) != (c.fail == fault.ClusterDenied) {
			t.Errorf("%q: %+v", c.token, a)
		}
		l.Close()
	}
}

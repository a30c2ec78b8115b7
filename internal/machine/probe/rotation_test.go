package probe

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
)

// TestRotation asks a joined node for the cluster's CAs while they are being rotated. The cluster is asked only for a
// pin that the last good generation has no CA for, or for one that is gone, and a cluster that does not answer leaves
// the known CAs in place.
func TestRotation(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	other := demo.Start(demo.ServerConfig{})
	defer other.Close()
	conf := s.NodeKubeconfig("n1")
	own, next := string(s.CAPEM()), string(other.CAPEM())
	announce := func(ca string) {
		s.SetConfigMap("kube-public", "cluster-info", map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\n" +
			"clusters: [{name: \"\", cluster: {server: \"" + s.URL + "\", certificate-authority-data: " +
			base64.StdEncoding.EncodeToString([]byte(ca)) + "}}]\n"})
	}

	for name, c := range map[string]struct {
		known, inCluster string
		pins             []string
		isDown           bool

		want      string // the CAs
		requests  int
		unmatched string
		stale     bool
		code      fault.Code
	}{
		"all known":                      {own, own + next, []string{s.CAHash()}, false, own, 0, "", false, ""},
		"all known, in another order":    {next + own, own + next, []string{s.CAHash(), other.CAHash()}, false, next + own, 0, "", false, ""},
		"a pin whose CA is not there":    {own, own, []string{s.CAHash(), other.CAHash()}, false, own, 2, other.CAHash(), false, ""},
		"a pin whose CA is there":        {own, next + own, []string{s.CAHash(), other.CAHash()}, false, own + next, 2, "", false, ""},
		"a pin, and the cluster is down": {own, own, []string{s.CAHash(), other.CAHash()}, true, own, 0, "", true, ""},
		"a pin is gone":                  {own + next, own + next, []string{s.CAHash()}, false, own, 2, "", false, ""},
		"the pin in use is gone":         {own + next, own + next, []string{other.CAHash()}, false, "", 1, "", false, fault.ClusterUntrusted},
		"a pin is gone, and it is down":  {own + next, own, []string{s.CAHash()}, true, "", 0, "", false, fault.ClusterUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			announce(c.inCluster)
			access := tape.Access{Servers: []string{s.URL}, CACertHashes: c.pins, RetryMillis: 300}
			if c.isDown {
				access.Servers = []string{"https://127.0.0.1:1"}
			}
			root, store := newGeneration(t)
			place(t, root, joined.Conf, string(conf))
			l := newLive(t, Sources{Root: root, Store: store})
			l.past = func() *tape.LastGood { return verified(access.Servers, c.known) }
			before := len(s.Requests())

			got, a, _ := tape.Trust.Ask(t.Context(), l, tape.TrustReq{Access: access})

			if a.Code() != c.code {
				t.Fatalf("got %+v, want code %q", a, c.code)
			}
			if c.want != "" && !cluster.HaveSameCAs(got.PEM, c.want) ||
				c.requests == 0 && got.PEM != c.want {
				t.Errorf("got\n%swant\n%s", got.PEM, c.want)
			}
			if n := len(s.Requests()) - before; n != c.requests {
				t.Errorf("got %d requests, want %d", n, c.requests)
			}
			if strings.Join(got.Unmatched, " ") != c.unmatched || (a.Stale != 0) != c.stale {
				t.Errorf("got unmatched %q, stale %d, want %q, %v", got.Unmatched, a.Stale, c.unmatched, c.stale)
			}
		})
	}
}

// verified is what a last good generation keeps that has verified a CA for these servers.
func verified(servers []string, ca string) *tape.LastGood {
	q := tape.Trust.Question(tape.TrustReq{Access: tape.Access{Servers: servers}})
	a := tape.Trust.Answer(tape.TrustAns{PEM: ca, Servers: servers, VerifiedBy: cluster.ByPins})

	return &tape.LastGood{Generation: 1, Recording: &tape.Recording{Entries: []tape.Entry{{Question: q, Answer: a}}}}
}

package probe

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

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

	for name, c := range table.YAML[map[string]struct {
		Known, InCluster string
		Pins             []string
		IsDown           bool

		Want      string // the CAs
		Requests  int
		Unmatched string
		Stale     bool
		Code      fault.Code
	}](t, `
all known: {known: '{own}', inCluster: '{own}{next}', pins: ['{pin}'], want: '{own}', requests: 0}
all known, in another order: {known: '{next}{own}', inCluster: '{own}{next}', pins: ['{pin}', '{new-pin}'],
  want: '{next}{own}', requests: 0}
a pin whose CA is not there: {known: '{own}', inCluster: '{own}', pins: ['{pin}', '{new-pin}'], want: '{own}',
  requests: 2, unmatched: '{new-pin}'}
a pin whose CA is there: {known: '{own}', inCluster: '{next}{own}', pins: ['{pin}', '{new-pin}'], want: '{own}{next}',
  requests: 2}
a pin, and the cluster is down: {known: '{own}', inCluster: '{own}', pins: ['{pin}', '{new-pin}'], isDown: true,
  want: '{own}', requests: 0, stale: true}
a pin is gone: {known: '{own}{next}', inCluster: '{own}{next}', pins: ['{pin}'], want: '{own}', requests: 2}
the pin in use is gone: {known: '{own}{next}', inCluster: '{own}{next}', pins: ['{new-pin}'], requests: 1,
  code: cluster-untrusted}
a pin is gone, and it is down: {known: '{own}{next}', inCluster: '{own}', pins: ['{pin}'], isDown: true, requests: 0,
  code: cluster-unreachable}
`, "own", own, "next", next, "pin", s.CAHash(), "new-pin", other.CAHash()) {
		t.Run(name, func(t *testing.T) {
			announce(c.InCluster)
			access := tape.Access{Servers: []string{s.URL}, CACertHashes: c.Pins, RetryMillis: 300}
			if c.IsDown {
				access.Servers = []string{"https://127.0.0.1:1"}
			}
			root, store := newGeneration(t)
			place(t, root, joined.Conf, string(conf))
			l := newLive(t, Sources{Root: root, Store: store})
			l.past = func() *tape.LastGood { return verified(access.Servers, c.Known) }
			before := len(s.Requests())

			got, a, _ := tape.Trust.Ask(t.Context(), l, tape.TrustReq{Access: access})

			if a.Code() != c.Code {
				t.Fatalf("got %+v, want code %q", a, c.Code)
			}
			if c.Want != "" && !cluster.HaveSameCAs(got.PEM, c.Want) ||
				c.Requests == 0 && got.PEM != c.Want {
				t.Errorf("got\n%swant\n%s", got.PEM, c.Want)
			}
			if n := len(s.Requests()) - before; n != c.Requests {
				t.Errorf("got %d requests, want %d", n, c.Requests)
			}
			if strings.Join(got.Unmatched, " ") != c.Unmatched || (a.Stale != 0) != c.Stale {
				t.Errorf("got unmatched %q, stale %d, want %q, %v", got.Unmatched, a.Stale, c.Unmatched, c.Stale)
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

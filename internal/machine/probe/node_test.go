package probe

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
)

// TestNodeName asks whether another machine has a name: of each kind of Node that the cluster may have, with the token
// of the site, and with the bootstrap kubeconfig of the image.
func TestNodeName(t *testing.T) {
	t.Run("token", func(t *testing.T) { checkNodeNames(t, "t") })
	t.Run("bootstrap kubeconfig", func(t *testing.T) { checkNodeNames(t, "") })
}

func checkNodeNames(t *testing.T, token string) {
	t.Helper()
	const (
		ours, other         = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
		ourUUID, otherUUID  = "4c4c4544-0042-3510-8052-b4c04f564e32", "4c4c4544-0042-3510-8052-b4c04f564e33"
		ourUUIDInUpperCase  = "4C4C4544-0042-3510-8052-B4C04F564E32"
		zeroUUID            = "00000000-0000-0000-0000-000000000000"
		taken, free, hidden = "10.0.0.5", "", "HTTP 403"
	)
	node := func(id, uuid, ready string) string {
		return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"status":{
			"nodeInfo":{"machineID":%q,"systemUUID":%q},"addresses":[{"type":"InternalIP","address":"10.0.0.5"}],
			"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":%q}]}}`, id, uuid, ready)
	}

	for _, c := range []struct {
		name, node, then string // then: as it is when it is looked at again
		want, note       string
	}{
		{"none", "", "", free, ""},
		{"another machine", node(other, otherUUID, "True"), "", taken, ""},
		{"another machine without a product uuid", node(other, zeroUUID, "True"), "", taken, ""},
		{"another machine that is not ready", node(other, otherUUID, "False"), "", free, ""},
		{"another machine that is not heard of", node(other, otherUUID, "Unknown"), "", free, ""},
		{"another machine that goes", node(other, otherUUID, "True"), node(other, otherUUID, "Unknown"), free, ""},
		{"another machine, and then no answer", node(other, otherUUID, "True"), "hidden", taken, ""},
		{"this machine", node(ours, ourUUID, "True"), "", free, ""},
		{"this machine, installed again", node(other, ourUUIDInUpperCase, "True"), "", free, ""},
		{"this disk in another machine", node(ours, otherUUID, "True"), "", free, ""},
		{"a node that no kubelet has reported to", node("", "", "True"), "", free, ""},
		{"a cluster that does not say", "hidden", "", free, hidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := demo.Start(demo.ServerConfig{})
			defer s.Close()
			switch c.node {
			case "":
			case "hidden":
				s.HideNodes()
			default:
				s.SetNode("n1", []byte(c.node))
			}

			root := t.TempDir()
			place(t, root, "/etc/machine-id", ours+"\n")
			place(t, root, "/sys/class/dmi/id/product_uuid", ourUUID+"\n")
			now := time.Now()
			l := newLive(t, Sources{
				Root: root, Credentials: creds{"t": demo.Token}, Now: func() time.Time { return now },
				OnRetry: func(Retry) {
					switch c.then {
					case "":
						now = now.Add(nodeWait) // the patience is over
					case "hidden":
						s.HideNodes()
						now = now.Add(nodeWait)
					default:
						s.SetNode("n1", []byte(c.then))
					}
				},
			})
			l.nodeRetry = time.Millisecond

			access := tape.Access{Servers: []string{s.URL}, CACertHashes: []string{s.CAHash()}, Token: token}
			if token == "" {
				place(t, root, joined.BootstrapConf, bootstrap(s, "insecure-skip-tls-verify: true", "token: "+demo.Token))
			}
			a, _, err := tape.Node.Ask(t.Context(), l, tape.NodeReq{Access: access, Name: "n1"})
			isTaken := a.Taken != ""
			if err != nil || isTaken != (c.want != "") || !strings.Contains(a.Taken, c.want) ||
				!strings.Contains(a.Note, c.note) ||
				(c.note == "") != (a.Note == "") {
				t.Errorf("got %+v, %v; want taken %q, note %q", a, err, c.want, c.note)
			}
			if text := fmt.Sprint(a); strings.Contains(text, other) || strings.Contains(text, otherUUID) {
				t.Errorf("got the id of a machine in %s, want none", text)
			}
		})
	}
}

// TestNodeRetryUntil: the time until which a name is tried again is that at which the attempts end, whichever limit is
// the first: that of the reads, of the site or of the caller.
func TestNodeRetryUntil(t *testing.T) {
	const other = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"status":{
		"nodeInfo":{"machineID":"fedcba9876543210fedcba9876543210","systemUUID":"4c4c4544-0042-3510-8052-b4c04f564e33"},
		"conditions":[{"type":"Ready","status":"True"}]}}`
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	s.SetNode("n1", []byte(other))

	for _, c := range []struct {
		name         string
		site, caller time.Duration // 0: none
		want         time.Duration
	}{
		{"no limit", 0, 0, nodeWait},
		{"the site's limit", 30 * time.Second, 0, 30 * time.Second},
		{"the caller's limit", 0, 30 * time.Second, 30 * time.Second},
		{"the caller's limit before the site's", 60 * time.Second, 30 * time.Second, 30 * time.Second},
		{"longer limits", 10 * time.Minute, 20 * time.Minute, nodeWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			place(t, root, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
			place(t, root, "/sys/class/dmi/id/product_uuid", "4c4c4544-0042-3510-8052-b4c04f564e32\n")
			ctx, cancel := context.WithCancel(t.Context())
			if c.caller > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), c.caller)
			}
			defer cancel()

			start := time.Now()
			var got time.Duration
			l := newLive(t, Sources{
				Root: root, Credentials: creds{"t": demo.Token}, Now: time.Now,
				OnRetry: func(r Retry) {
					got = r.Until.Sub(start)
					cancel()
				},
			})
			l.patience = 0
			access := tape.Access{
				Servers: []string{s.URL}, CACertHashes: []string{s.CAHash()}, Token: "t", RetryMillis: c.site.Milliseconds(),
			}
			_, _, _ = tape.Node.Ask(ctx, l, tape.NodeReq{Access: access, Name: "n1"}) // its answer: TestNodeName
			if late := got - c.want; late < -time.Second || late > 20*time.Second {
				t.Errorf("got attempts until %s after the start, want %s", got, c.want)
			}
		})
	}
}

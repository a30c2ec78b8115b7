package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// TestTwoClustersBehindOneAddress has a load balancer that takes turns between two clusters with one token: what is
// read is of the cluster that the site pins, or nothing is read, and the other one never gets the token.
func TestTwoClustersBehindOneAddress(t *testing.T) {
	for _, turns := range []string{"ab", "ba", "abb", "aab"} {
		t.Run(turns, func(t *testing.T) {
			servers := map[byte]hostile{'a': newHostile(t, nil), 'b': newHostile(t, nil)}
			own, other := servers['a'], servers['b']
			own.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "own"})
			other.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "other"})
			var dialed atomic.Int64
			opts := fast()
			opts.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				s := servers[turns[int(dialed.Add(1)-1)%len(turns)]]
				return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(s.URL, "https://"))
			}

			for range 4 {
				trust, err := FetchTrust(within(t, time.Minute), own.pinned(), opts)
				if turns == "abb" && !strings.Contains(fmt.Sprint(err), "two clusters") {
					t.Errorf("got %v, want text with \"two clusters\"", err)
				}
				if err == nil && trust.Hash != own.CAHash() {
					t.Fatalf("got the CA %s, want that of the site, %s", trust.Hash, own.CAHash())
				}
				object, err2 := fetchConfigMap(within(t, time.Minute), own.object(), opts)
				if err2 == nil && object.Data["kubelet"] != "own" {
					t.Fatalf("got the object %q, want that of the pinned cluster", object.Data)
				}
				for _, err := range []error{err, err2} {
					if f := (*fault.Fault)(nil); err != nil && (!errors.As(err, &f) || f.Code != fault.ClusterUntrusted) {
						t.Errorf("got %v, want %s", err, fault.ClusterUntrusted)
					}
				}
			}
			if n := other.Authorizations(); n > 0 {
				t.Errorf("the other cluster: got Authorization %d times, want 0", n)
			}
		})
	}
}

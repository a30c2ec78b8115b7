package probe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
)

// A node that can fall back must not spend the site's whole retry on a cluster that is away. The clock is synctest's.
func TestHurry(t *testing.T) { synctest.Test(t, testHurry) }

func testHurry(t *testing.T) {
	l := newLive(t, Sources{Root: t.TempDir(), Site: &lang.Site{}})
	a := tape.Access{
		Servers: []string{"https://127.0.0.1:1"},
		CACertHashes: []string{
			"sha256:" + "00" + "0000000000000000000000000000000000000000000000000000000000000000"[2:],
		},
		RetryMillis: 300_000,
	}
	l.Hurry(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	started := time.Now()
	_, ans, err := tape.Trust.Ask(ctx, l, tape.TrustReq{Access: a})
	if err == nil || ans.Code() != fault.ClusterUnreachable {
		t.Fatalf("%v %v", ans, err)
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("got an answer after %s, want one within the short limit", took)
	}
}

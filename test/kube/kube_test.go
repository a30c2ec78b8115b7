package kube

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
)

const (
	cacheVariable = "PRELET_KUBE_CACHE" // the folder that build.sh has filled
	oldVariable   = "PRELET_KUBE_OLD"   // not empty: the older minor of old/go.mod is there, too
)

// programs are those of the cache; without, a test is skipped.
func programs(t testing.TB) Programs {
	t.Helper()
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		t.Skip("this runs Kubernetes: make e2e-kube")
	}
	version, err := Version("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	prelet, err := filepath.Abs("../../bin/prelet")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find(cache, version, prelet)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMain first removes what killed runs have left.
func TestMain(tests *testing.M) {
	if cache := os.Getenv(cacheVariable); cache != "" {
		if err := (Programs{Cache: cache}).Sweep(); err != nil {
			panic(err)
		}
	}
	os.Exit(tests.Run())
}

// start is a cluster of a test's own.
func start(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c, err := programs(t).Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// newNode is one with the fake runtime, whose kubelet is asked for; the cluster is reached at the given addresses.
func newNode(t testing.TB, c *Cluster, o NodeOptions, addresses ...string) *Node {
	t.Helper()
	return nodeWith(t, c, FakeRuntime, "cgroupfs", o, addresses...)
}

func nodeWith(t testing.TB, c *Cluster, runtime, driver string, o NodeOptions, addresses ...string) *Node {
	t.Helper()
	if o.Name == "" {
		o.Name = "n1"
	}
	for _, a := range addresses {
		host, _, _ := net.SplitHostPort(a)
		o.Loopback = append(o.Loopback, host)
	}
	n, err := c.NewNode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the kubelet of %s:\n%s", n.Name, last(n.KubeletLog(), 6000))
		}
		n.Stop()
	})
	must(t, n.Reach(c, addresses...))
	if runtime == Containerd {
		must(t, n.StartContainerd(t.Context(), driver))
	} else {
		must(t, n.StartFakeRuntime(t.Context(), driver))
	}
	must(t, n.WantKubelet(t.Context()))
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// prelet runs it and wants an exit status.
func prelet(t testing.TB, n *Node, want int, args ...string) CommandResult {
	t.Helper()
	r, err := n.Prelet(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit != want {
		t.Fatalf("prelet %q: want exit %d, got %s", args, want, r)
	}
	return r
}

package boot

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/demo/nodestatus"
)

const kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: " +
	"cluster.local\n"

// cluster is an API server as a machine sees it: on the loopback of its network namespace, at the address that its
// certificate, cluster-info and kubeconfigs name, and away when the test says so.
type cluster struct {
	*demo.Server
	t     *testing.T
	netns string
	addr  string

	mu   sync.Mutex
	to   string // who answers; "" is the API server
	door net.Listener
	open map[net.Conn]bool
}

func newCluster(t *testing.T, netns string) *cluster {
	t.Helper()
	s := demo.Start(demo.ServerConfig{PatchStatus: nodestatus.Patch})
	t.Cleanup(s.Close)
	s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": kubeletConfig})
	for _, args := range [][]string{{"netns", "add", netns}, {"-n", netns, "link", "set", "lo", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: got %v: %s; want no error", args, err, out)
		}
	}
	c := &cluster{Server: s, t: t, netns: netns, addr: s.URL[len("https://"):], open: map[net.Conn]bool{}}
	t.Cleanup(c.away)
	return c
}

// wire connects the machine by a veth, which gives it a default route like a node's, to the servers of this test.
func (m *machine) wire(outside, inside string) {
	m.T.Helper()
	const ours = "prelet-veth"
	netns := m.cluster.netns
	_ = exec.Command("ip", "link", "del", ours).Run() // of a run that was killed
	for _, args := range [][]string{
		{"link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", netns},
		{"addr", "add", outside + "/30", "dev", ours}, {"link", "set", ours, "up"},
		{"-n", netns, "addr", "add", inside + "/30", "dev", "eth0"}, {"-n", netns, "link", "set", "eth0", "up"},
		{"-n", netns, "route", "add", "default", "via", outside},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			m.T.Fatalf("ip %q: got %v: %s; want no error", args, err, out)
		}
	}
	m.T.Cleanup(
		func() { _ = exec.Command("ip", "link", "del", ours).Run() },
	) // it goes with its other end, if that is quicker
}

// back opens the door inside the machine's network.
func (c *cluster) back() {
	c.t.Helper()
	c.mu.Lock()
	isThere := c.door != nil
	c.mu.Unlock()
	if isThere {
		return
	}
	l, err := listenIn("/run/netns/"+c.netns, c.addr)
	must(c.t, err)
	c.mu.Lock()
	c.door = l
	c.mu.Unlock()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(conn)
		}
	}()
}

// away shuts the door, and ends what goes through it: connections are refused.
func (c *cluster) away() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.door != nil {
		_ = c.door.Close()
		c.door = nil
	}
	for conn := range c.open {
		_ = conn.Close()
	}
}

// instead lets somebody else answer at the API server's address; "" gives it back.
func (c *cluster) instead(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = addr
	for conn := range c.open {
		_ = conn.Close()
	}
}

func (c *cluster) carry(in net.Conn) {
	c.mu.Lock()
	to := c.to
	c.mu.Unlock()
	if to == "" {
		to = c.addr
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		_ = in.Close()
		return
	}
	c.mu.Lock()
	c.open[in], c.open[out] = true, true
	c.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
	c.mu.Lock()
	delete(c.open, in)
	delete(c.open, out)
	c.mu.Unlock()
}

// listenIn listens inside another network namespace: a socket stays in the one that it was made in.
func listenIn(netns, addr string) (l net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, so no other goroutine gets it
		var f *os.File
		if f, err = os.Open(netns); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), syscall.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("setns: %w", err)
			return
		}
		l, err = net.Listen("tcp", addr)
	}()
	<-done
	return l, err
}

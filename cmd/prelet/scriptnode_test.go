package main

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/script"
)

// apiserver FAULT [NAME]: starts a server; $SERVER (and $NAME) is its URL. The site is written again. One that answers
// well, at once or after a while, gets a minute for it. `apiserver stop` ends the last one.
func cmdAPIServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: apiserver FAULT [NAME]")
	}
	s := of(ts)
	if args[0] == "stop" {
		s.server.Close()
		return
	}
	srv, err := startServer(s.ca, args[0])
	ts.Check(err)
	s.server = srv
	s.stop = append(s.stop, srv.Close)
	ts.Setenv("SERVER", srv.URL)

	if slices.Contains([]string{"good", "late", "chatty"}, args[0]) {
		ts.Setenv("RETRY", "1m") // the server is good, and the machine may be busy
	}
	if len(args) == 2 {
		ts.Setenv(args[1], srv.URL)
	}
	cmdSite(ts, false, nil)
}

// blackhole: $SERVER is an address where a SYN gets no reply: a listener whose queue is full.
func cmdBlackhole(ts *testscript.TestScript, neg bool, args []string) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	ts.Check(err)
	s := of(ts)
	s.stop = append(s.stop, func() { syscall.Close(fd) })
	ts.Check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	ts.Check(syscall.Listen(fd, 0))
	a, err := syscall.Getsockname(fd)
	ts.Check(err)
	in := a.(*syscall.SockaddrInet4)
	addr := fmt.Sprintf("127.0.0.1:%d", in.Port)
	for range 3 { // fill the queue
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		ts.Check(err)
		s.stop = append(s.stop, func() { syscall.Close(c) })
		if err := syscall.Connect(c, in); err != nil && err != syscall.EINPROGRESS {
			ts.Check(err)
		}
	}
	ts.Setenv("SERVER", "https://"+addr)
	cmdSite(ts, false, nil)
}

// site: writes site/ again from site.in/ and the environment.
func cmdSite(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(expandSite(of(ts), ts.Getenv))
}

// machine NAME [own]: another recorded machine's hardware; `own` to change it.
func cmdMachine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "own" {
		ts.Fatalf("usage: machine NAME [own]")
	}
	ts.Check(of(ts).machine(args[0], len(args) == 2))
}

// machine puts a machine's tree at machine/: one of its own, or a link to one that all scenarios share, because a
// machine of eight GPUs is eight thousand files.
func (s *scene) machine(name string, own bool) error {
	dir, spec := filepath.Join(s.work, "machine"), "../../testdata/hardware/spec/"+name+".json"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if own {
		return hwtree.BuildFile(spec, dir)
	}
	shared, err := s.shared.get(name, spec)
	if err != nil {
		return err
	}
	return os.Symlink(shared, dir)
}

// machines are the trees that all scenarios share; a scenario must not change them.
type machines struct {
	dir   string
	mu    sync.Mutex
	built map[string]func() (string, error)
}

func (m *machines) get(name, spec string) (string, error) {
	m.mu.Lock()
	f, ok := m.built[name]
	if !ok {
		f = sync.OnceValues(func() (string, error) {
			dir := filepath.Join(m.dir, name)
			return dir, hwtree.BuildFile(spec, dir)
		})
		m.built[name] = f
	}
	m.mu.Unlock()
	return f()
}

// unauthorized: the last server was asked, and never with an Authorization header.
func cmdUnauthorized(ts *testscript.TestScript, neg bool, _ []string) {
	srv := of(ts).server
	if n := srv.Authorizations(); (n != 0) != neg {
		ts.Fatalf("%d requests carried Authorization", n)
	}
}

// requests N: the last server was asked so often, altogether.
func cmdRequests(ts *testscript.TestScript, _ bool, args []string) {
	if got := fmt.Sprint(len(of(ts).server.Requests())); got != args[0] {
		ts.Fatalf("%s requests, want %s", got, args[0])
	}
}

// put FILE TEXT [MODE]: writes a file in place of what is there, with \n for a new line, and its folders.
func cmdPut(ts *testscript.TestScript, _ bool, args []string) {
	p := ts.MkAbs(args[0])
	if machine := ts.MkAbs("machine"); strings.HasPrefix(p, machine+"/") {
		if st, err := os.Lstat(machine); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			ts.Fatalf("this machine is shared: `machine NAME own` makes one to change")
		}
	}
	ofDisk("remove")(ts, false, args[:1])
	ofDisk("write")(ts, false, args)
}

// ofDisk returns a command of the language of internal/testing/script that changes a disk.
func ofDisk(name string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		disk := script.Disk{T: of(ts).t, Path: func(name string) string { return ts.MkAbs(name) }}
		ts.Check(disk.Commands()[name](args))
	}
}

// fill FILE TEXT N [BEFORE [AFTER]]: writes a text N times.
func cmdFill(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := strings.Repeat(args[1], n)
	if len(args) > 3 {
		text = args[3] + text
	}
	if len(args) > 4 {
		text += args[4]
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(script.Unescape(text)), 0o644))
}

// bytes FILE HEX...: writes a file of these bytes.
func cmdBytes(ts *testscript.TestScript, _ bool, args []string) {
	b, err := hex.DecodeString(strings.Join(args[1:], ""))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// public makes the scenario's folder accessible to every user, for prelet-as-nobody.
func cmdPublic(ts *testscript.TestScript, _ bool, _ []string) {
	s := of(ts)
	for _, d := range []string{filepath.Dir(s.work), s.work, filepath.Dir(s.shared.dir), s.shared.dir} {
		ts.Check(os.Chmod(d, 0o755))
	}
}

// joined [expired|other-key|other-ca|by-path]: the node gets a kubelet.conf, as when its kubelet has joined the last
// server's cluster.
func cmdJoined(ts *testscript.TestScript, _ bool, args []string) {
	s, how := of(ts), strings.Join(args, "")
	ca := s.ca
	if how == "expired" {
		ca = ca.At(ca.Now.AddDate(-1, 0, -1))
	}
	if how == "other-ca" {
		ca = demo.NewAuthority("kubernetes")
	}
	cert, key := ca.IssueNode("n1")
	if how == "other-key" {
		_, key = ca.IssueNode("n1")
	}
	p := ts.MkAbs("root/etc/kubernetes/kubelet.conf")
	ts.Check(os.MkdirAll(filepath.Dir(p), 0o755))
	conf := string(s.server.Kubeconfig(cert, key))
	if how == "by-path" {
		conf = fileConf(conf)
		link := ts.MkAbs("root") + current
		ts.Check(os.MkdirAll(filepath.Dir(link), 0o755))
		ts.Check(os.WriteFile(ts.MkAbs("root")+oldPEM, append(cert, key...), 0o600))
		ts.Check(os.Symlink(oldPEM, link))
	}
	ts.Check(os.WriteFile(p, []byte(conf), 0o600))
}

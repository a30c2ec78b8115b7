package systemd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/unitfile"
)

// peer speaks the D-Bus protocol on a socket as systemd does on /run/systemd/private: no bus, no names, and signals
// to every connection. So what goes over the wire is decoded by the real libraries.
type peer struct {
	t      *testing.T
	path   string
	own    string                    // unit of the caller; empty: none
	units  map[string]map[string]any // their properties; of another unit: refused
	states []sd.UnitStatus           // of the units that are loaded
	result string                    // of each job; empty: its end is not reported
	reject string                    // the error of a job; empty: none
	exists bool                      // a transient unit of that name is there
	hangs  bool                      // once connected, it reads calls and does not reply

	connected context.Context // of the connection that reach made

	mu    sync.Mutex
	conns []net.Conn
	calls []string // each with its arguments
}

func newPeer(t *testing.T) *peer {
	p := &peer{
		t: t, path: filepath.Join(t.TempDir(), "private"),
		units: map[string]map[string]any{"kubelet.service": kubelet(nil)},
	}
	listener, err := net.Listen("unix", p.path)
	must(t, err)
	t.Cleanup(func() { listener.Close(); p.hangUp() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			go p.serve(c)
		}
	}()
	return p
}

// jobs returns the calls that queue a job.
func (p *peer) jobs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()

	return slices.DeleteFunc(slices.Clone(p.calls), func(c string) bool { return !strings.Contains(c, " "+jobMode) })
}

func (p *peer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

func (p *peer) serve(c net.Conn) {
	in := bufio.NewReader(c)
	if _, err := in.ReadByte(); err != nil { // the null byte of the protocol
		return
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := "ERROR"
		switch words := strings.Fields(line); {
		case words[0] == "BEGIN":
			p.messages(c, in)
			return
		case words[0] == "AUTH" && len(words) == 1:
			answer = "REJECTED EXTERNAL"
		case words[0] == "AUTH" && len(words) == 2:
			answer = "DATA"
		case words[0] == "AUTH", words[0] == "DATA":
			answer = "OK 0123456789abcdef0123456789abcdef"
		}
		if _, err := c.Write([]byte(answer + "\r\n")); err != nil {
			return // hung up
		}
	}
}

func (p *peer) messages(c net.Conn, in *bufio.Reader) {
	job := uint32(firstJob)
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		member, _ := call.Headers[dbus.FieldMember].Value().(string)
		path, _ := call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
		p.mu.Lock()
		p.calls = append(p.calls, fmt.Sprint(member, " ", call.Body))
		p.mu.Unlock()
		if p.hangs && member != "AddMatch" { // of the connection itself
			continue
		}
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}}
		isJob, failure := false, ""
		switch member {
		case "GetUnitByPID":
			if reply.Body = []any{unitPath(p.own)}; p.own == "" {
				failure = "org.freedesktop.systemd1.NoUnitForPID"
			}
		case "GetAll":
			failure = "org.freedesktop.DBus.Error.AccessDenied"
			for name, properties := range p.units {
				if path == unitPath(name) {
					failure, reply.Body = "", []any{properties}
				}
			}
		case "ListUnitsByNames":
			for i := range p.states {
				p.states[i].Path, p.states[i].JobPath = "/", "/"
			}
			reply.Body = []any{p.states}
		case "StartTransientUnit":
			if isJob = !p.exists; p.exists {
				failure = unitExists
			}
		case "StartUnit", "RestartUnit", "StopUnit", "TryRestartUnit", "ReloadOrTryRestartUnit":
			isJob, failure = true, p.reject
		}
		if isJob {
			reply.Body = []any{jobPath(job)}
		}
		if failure != "" {
			reply.Type, reply.Body = dbus.TypeError, []any{"refused"}
			reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(failure)
		}
		if len(reply.Body) > 0 {
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(reply.Body...))
		}
		p.send(reply, c)
		if isJob && p.result != "" {
			p.endJob(job, p.result)
		}
		if isJob {
			job++
		}
	}
}

// firstJob is the number of a connection's first job.
const firstJob = 42

func jobPath(number uint32) dbus.ObjectPath {
	return dbus.ObjectPath(fmt.Sprint("/org/freedesktop/systemd1/job/", number))
}

func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + sd.PathBusEscape(name))
}

// endJob reports the result of a job to each connection.
func (p *peer) endJob(number uint32, result string) {
	signal := &dbus.Message{Type: dbus.TypeSignal, Body: []any{number, jobPath(number), "kubelet.service", result},
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
			dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.systemd1.Manager"),
			dbus.FieldMember:    dbus.MakeVariant("JobRemoved"),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(uint32(0), jobPath(0), "", "")),
		}}
	p.mu.Lock()
	all := slices.Clone(p.conns)
	p.mu.Unlock()
	p.send(signal, all...)
}

func (p *peer) send(m *dbus.Message, to ...net.Conn) {
	for _, c := range to {
		p.mu.Lock()
		err := m.EncodeTo(c, binary.LittleEndian)
		p.mu.Unlock()
		if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.EPIPE) {
			p.t.Errorf("peer: got %v, want no error", err)
		}
	}
}

// D-Bus types of systemd.
type (
	queued struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	environmentFile struct {
		Path     string
		Optional bool
	}
)

// kubelet returns the properties of kubelet.service, with some others.
func kubelet(change map[string]any) map[string]any {
	p := map[string]any{
		"LoadState": "loaded", "UnitFileState": "enabled", "ActiveState": "active", "SubState": "running",
		"Result": "success", "Job": queued{0, "/"}, "NeedDaemonReload": true,
		"After":   []string{"prelet.service", "sysinit.target", "basic.target"},
		"MainPID": uint32(812), "NRestarts": uint32(3), "ExecMainStartTimestampMonotonic": uint64(12_345_678),
		"Environment":      []string{"KUBELET_CONFIG_ARGS=--config=/x"},
		"WorkingDirectory": "!/var/lib/kubelet",
		"ExecStart":        []command{{Words: []string{"/usr/bin/kubelet", "$KUBELET_CONFIG_ARGS"}, PID: 812}},
		"EnvironmentFiles": []environmentFile{{"/run/prelet/kubelet.env", false}, {"/etc/default/kubelet", true}},
	}
	maps.Copy(p, change)

	return p
}

// reach is Connect, to the peer, without a redial.
func (p *peer) reach(ctx context.Context) *Conn {
	p.t.Helper()
	bus, err := p.dial(ctx)
	must(p.t, err)
	c := &Conn{manager: bus, pid: 1, heartbeat: 5 * time.Millisecond, patience: time.Minute}
	p.t.Cleanup(c.Close)

	return c
}

func (p *peer) dial(ctx context.Context) (*sd.Conn, error) {
	return dial(ctx, func(ctx context.Context) (*sd.Conn, error) {
		p.connected = ctx
		return sd.NewConnection(func() (*dbus.Conn, error) {
			c, err := dbus.Dial("unix:path="+p.path, dbus.WithContext(ctx))
			if err != nil {
				return nil, err
			}
			return c, c.Auth([]dbus.Auth{dbus.AuthExternal("0")})
		})
	})
}

func (p *peer) hangUpDuringAJob() {
	for len(p.jobs()) == 0 { // polled: the peer has a lock, and no event
		time.Sleep(time.Millisecond)
	}
	p.hangUp()
}

func TestConnectionOutlivesItsContext(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := p.reach(ctx)
	cancel()                                  // SIGTERM
	if err := p.connected.Err(); err != nil { // the bus closes the connection once this context ends
		t.Fatalf("after SIGTERM: got %v as the end of the connection's context, want none", err)
	}
	if r, err := c.Restart(context.WithoutCancel(ctx), "kubelet.service", 0); r != Queued || err != nil {
		t.Errorf("a start after SIGTERM: got %s, %v; want %s", r, err, Done)
	}
}

func TestSystemdGoesAwayDuringAJob(t *testing.T) {
	p := newPeer(t)
	c := p.reach(t.Context())
	go p.hangUpDuringAJob()
	r, err := c.Restart(t.Context(), "kubelet.service", time.Minute)
	if r != Unanswered || !errors.Is(err, ErrGone) {
		t.Errorf("got %s, %v; want %s and ErrGone", r, err, Unanswered)
	}
	if _, err := c.Look(t.Context(), "kubelet.service"); !errors.Is(err, ErrGone) {
		t.Errorf("afterwards: got %v, want ErrGone", err)
	}
}

func TestSystemdDoesNotReply(t *testing.T) {
	p := newPeer(t)
	p.hangs = true
	c := p.reach(t.Context())

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	if _, err := c.Look(ctx, "kubelet.service"); !errors.Is(err, ErrGone) {
		t.Errorf("look: got error %v, want ErrGone", err)
	}

	if result, err := c.Restart(ctx, "kubelet.service", time.Minute); result != Unanswered || !errors.Is(err, ErrGone) {
		t.Errorf("restart: got %s, %v, want %s and ErrGone", result, err, Unanswered)
	}
}

// TestSystemdExecutesItselfAnew ends every connection, as daemon-reexec does, between calls and while a job is waited
// for.
func TestSystemdExecutesItselfAnew(t *testing.T) {
	p := newPeer(t)
	c := p.reach(t.Context())
	c.redial = p.dial

	for range 3 {
		p.hangUp()

		if u, err := c.Look(t.Context(), "kubelet.service"); err != nil || u.Active != "active" {
			t.Errorf("look after the connection ended: got %+v, %v; want the unit", u, err)
		}
	}

	go p.hangUpDuringAJob()

	if r, err := c.Restart(t.Context(), "kubelet.service", time.Minute); r != Done || err != nil {
		t.Errorf("restart, with the connection ended meanwhile: got %s, %v; want %s", r, err, Done)
	}
}

// TestNoReconnectForEver gives up on a systemd that is gone, and waits for it once.
func TestNoReconnectForEver(t *testing.T) {
	p := newPeer(t)
	c := p.reach(t.Context())
	c.patience = 200 * time.Millisecond
	redials := 0
	c.redial = func(context.Context) (*sd.Conn, error) {
		redials++
		return nil, errors.New("connection refused")
	}
	p.hangUp()

	for _, name := range []string{"first", "second"} {
		redials = 0
		if _, err := c.Look(t.Context(), "kubelet.service"); !errors.Is(err, ErrGone) {
			t.Errorf("%s look: got %v, want ErrGone", name, err)
		}
		if name == "second" && redials != 1 {
			t.Errorf("second look: got %d redials, want 1", redials)
		}
	}
}

func TestResultOf(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		What, Active, Result, Want string
	}](t, `
- {what: stop, active: inactive, result: success, want: done}
- {what: stop, active: failed, result: timeout, want: done}
- {what: stop, active: active, result: success, want: failed}
- {what: restart, active: active, result: success, want: done}
# a oneshot
- {what: start, active: inactive, result: success, want: done}
- {what: restart, active: activating, result: exit-code, want: failed}
- {what: restart, active: failed, result: exit-code, want: failed}
`) {
		if got := resultOf(c.What, Unit{State: unitfile.State{Active: c.Active, Result: c.Result}}); got != c.Want {
			t.Errorf("%s that left the unit %s (%s): got %s, want %s", c.What, c.Active, c.Result, got, c.Want)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

package systemd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// peer speaks the D-Bus protocol on a socket as systemd does on /run/systemd/private: no bus, no names, and signals
// to every connection. So what goes over the wire is decoded by the real libraries, not by what a fake of them
// thinks.
type peer struct {
	t      *testing.T
	path   string
	result string // of each job; empty: its end is never reported
	hangs  bool   // once connected, it reads calls and does not reply

	connected context.Context // of the connection that reach made

	mu    sync.Mutex
	conns []net.Conn
	calls []string
}

func newPeer(t *testing.T) *peer {
	p := &peer{t: t, path: filepath.Join(t.TempDir(), "private")}
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
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

// wasAsked reports whether a method was called.
func (p *peer) wasAsked(member string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return slices.Contains(p.calls, member)
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
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		member, _ := call.Headers[dbus.FieldMember].Value().(string)
		path, _ := call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
		p.mu.Lock()
		p.calls = append(p.calls, member)
		p.mu.Unlock()
		if p.hangs && member != "AddMatch" { // of the connection itself
			continue
		}
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}}
		const job = dbus.ObjectPath("/org/freedesktop/systemd1/job/42")
		started := false
		switch member {
		case "GetUnitByPID":
			reply.Body = []any{dbus.ObjectPath("/org/freedesktop/systemd1/unit/prelet_2eservice")}
		case "GetAll":
			if strings.HasSuffix(string(path), "missing_2eservice") {
				reply.Type = dbus.TypeError
				reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.DBus.Error.AccessDenied")
				reply.Body = []any{"Access denied"}
				break
			}
			reply.Body = []any{properties(strings.HasSuffix(string(path), "prelet_2eservice"))}
		case "StartUnit", "RestartUnit", "StopUnit":
			reply.Body = []any{job}
			started = p.result != ""
		}
		if len(reply.Body) > 0 {
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(reply.Body...))
		}
		p.send(reply, c)
		if started {
			signal := &dbus.Message{Type: dbus.TypeSignal, Body: []any{uint32(42), job, "kubelet.service", p.result},
				Headers: map[dbus.HeaderField]dbus.Variant{
					dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
					dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.systemd1.Manager"),
					dbus.FieldMember:    dbus.MakeVariant("JobRemoved"),
					dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(uint32(0), job, "", "")),
				}}
			p.mu.Lock()
			all := append([]net.Conn{}, p.conns...)
			p.mu.Unlock()
			p.send(signal, all...)
		}
	}
}

func (p *peer) send(m *dbus.Message, to ...net.Conn) {
	for _, c := range to {
		p.mu.Lock()
		err := m.EncodeTo(c, binary.LittleEndian)
		p.mu.Unlock()
		if err != nil && !errors.Is(err, net.ErrClosed) {
			p.t.Errorf("peer: got %v, want no error", err)
		}
	}
}

// properties of a unit, in systemd's D-Bus types.
func properties(own bool) map[string]dbus.Variant {
	type environmentFile struct {
		Path     string
		Optional bool
	}
	type queued struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	type command struct {
		Path                                       string
		Words                                      []string
		Ignore                                     bool
		Started, StartedMono, Stopped, StoppedMono uint64
		PID                                        uint32
		Code, Status                               int32
	}
	p := map[string]dbus.Variant{
		"Environment": dbus.MakeVariant([]string{"KUBELET_CONFIG_ARGS=--config=/x"}),
		"ExecStart": dbus.MakeVariant(
			[]command{
				{Path: "/usr/bin/kubelet", Words: []string{"/usr/bin/kubelet", "$KUBELET_CONFIG_ARGS"}, PID: 812},
			},
		),
		"LoadState": dbus.MakeVariant(
			"loaded",
		),
		"ActiveState":                     dbus.MakeVariant("active"),
		"SubState":                        dbus.MakeVariant("running"),
		"UnitFileState":                   dbus.MakeVariant("enabled"),
		"Result":                          dbus.MakeVariant("success"),
		"After":                           dbus.MakeVariant([]string{"prelet.service"}),
		"Job":                             dbus.MakeVariant(queued{0, "/"}),
		"MainPID":                         dbus.MakeVariant(uint32(812)),
		"NRestarts":                       dbus.MakeVariant(uint32(2)),
		"ExecMainStartTimestampMonotonic": dbus.MakeVariant(uint64(9_000_001)),
		"EnvironmentFiles": dbus.MakeVariant(
			[]environmentFile{{"/run/prelet/kubelet.env", false}, {"/etc/default/kubelet", true}},
		),
	}
	if own {
		p["Job"] = dbus.MakeVariant(queued{7, "/org/freedesktop/systemd1/job/7"})
	}
	return p
}

// reach is Connect, to the peer, without a redial.
func (p *peer) reach(ctx context.Context, t *testing.T) *Conn {
	t.Helper()
	bus, err := p.dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := &Conn{manager: bus, pid: 1, heartbeat: 5 * time.Millisecond, patience: time.Second}
	t.Cleanup(c.Close)

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

func TestOverTheWire(t *testing.T) {
	p := newPeer(t)
	p.result = "done"
	c := p.reach(t.Context(), t)
	u, err := c.Look(t.Context(), "kubelet.service")
	if err != nil {
		t.Fatal(err)
	}
	if u.Active != "active" || u.Job != 0 || u.MainPID != 812 || u.Restarts != 2 || u.Started != 9_000_001*time.Microsecond ||
		len(u.EnvironmentFiles) != 2 || u.EnvironmentFiles[0].Path != "/run/prelet/kubelet.env" ||
		u.EnvironmentFiles[0].Optional ||
		!u.EnvironmentFiles[1].Optional {
		t.Errorf("Look: got %+v; want the unit of the peer", u)
	}
	if want := []string{
		"/usr/bin/kubelet",
		"$KUBELET_CONFIG_ARGS",
	}; !slices.Equal(u.Command, want) ||
		len(u.Environment) != 1 {
		t.Errorf("how it starts: got %q, %q; want %q and one variable", u.Command, u.Environment, want)
	}
	if may, err := c.MayWait(t.Context(), "kubelet.service"); may || err != nil {
		t.Errorf("in prelet.service with a job: got may wait %v, %v; want false", may, err)
	}
	if err := c.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := c.Restart(t.Context(), "kubelet.service", time.Minute); r != Done || err != nil {
		t.Errorf("restart: got %s, %v; want %s", r, err, Done)
	}
	if _, err := c.Look(t.Context(), "missing.service"); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a refusal: got %v, want another error than ErrGone", err)
	}
}

func TestConnectionOutlivesItsContext(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := p.reach(ctx, t)
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
	c := p.reach(t.Context(), t)
	time.AfterFunc(20*time.Millisecond, p.hangUp)
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
	c := p.reach(t.Context(), t)

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
	c := p.reach(t.Context(), t)
	c.redial = func(ctx context.Context) (manager, error) { return p.dial(ctx) }

	for range 3 {
		p.hangUp()

		if u, err := c.Look(t.Context(), "kubelet.service"); err != nil || u.Active != "active" {
			t.Errorf("look after the connection ended: got %+v, %v; want the unit", u, err)
		}
	}

	go func() {
		for !p.wasAsked("RestartUnit") {
			time.Sleep(time.Millisecond)
		}

		time.Sleep(20 * time.Millisecond) // it has the reply, and waits
		p.hangUp()
	}()

	if r, err := c.Restart(t.Context(), "kubelet.service", time.Minute); r != Done || err != nil {
		t.Errorf("restart, with the connection ended meanwhile: got %s, %v; want %s", r, err, Done)
	}
}

// TestNoReconnectForEver gives up on a systemd that is gone, and waits for it once.
func TestNoReconnectForEver(t *testing.T) {
	p := newPeer(t)
	c := p.reach(t.Context(), t)
	c.patience = 200 * time.Millisecond
	c.redial = func(context.Context) (manager, error) { return nil, errors.New("connection refused") }
	p.hangUp()

	for _, most := range []time.Duration{time.Second, 100 * time.Millisecond} {
		begun := time.Now()

		if _, err := c.Look(t.Context(), "kubelet.service"); !errors.Is(err, ErrGone) || time.Since(begun) > most {
			t.Errorf("look after %s: got %v, want ErrGone within %s", time.Since(begun), err, most)
		}
	}
}

func TestResultOf(t *testing.T) {
	for _, c := range []struct {
		what, active, result, want string
	}{
		{"stop", "inactive", "success", Done},
		{"stop", "failed", "timeout", Done},
		{"stop", "active", "success", Failed},
		{"restart", "active", "success", Done},
		{"start", "inactive", "success", Done}, // a oneshot
		{"restart", "activating", "exit-code", Failed},
		{"restart", "failed", "exit-code", Failed},
	} {
		if got := resultOf(c.what, Unit{Active: c.active, Result: c.result}); got != c.want {
			t.Errorf("%s that left the unit %s (%s): got %s, want %s", c.what, c.active, c.result, got, c.want)
		}
	}
}

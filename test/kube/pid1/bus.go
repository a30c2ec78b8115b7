package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// bus are the connections to /run/systemd/private: D-Bus without a bus, no names, and signals to everybody.
type bus struct {
	mu    sync.Mutex
	conns []net.Conn
}

const objectPath = "/org/freedesktop/systemd1"

func (m *manager) listen(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.bus.mu.Lock()
			m.bus.conns = append(m.bus.conns, c)
			m.bus.mu.Unlock()
			go m.serve(c)
		}
	}()
	return nil
}

// serve says who one is as systemd does, which asks the kernel and takes anybody's word for the rest.
func (m *manager) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	if _, err := in.ReadByte(); err != nil { // the null byte of the protocol
		return
	}
	for {
		line, err := in.ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) == 0 {
			return
		}
		answer := "ERROR"
		switch {
		case words[0] == "BEGIN":
			for {
				call, err := dbus.DecodeMessage(in)
				if err != nil {
					return
				}
				go m.answer(c, call)
			}
		case words[0] == "AUTH" && len(words) == 1:
			answer = "REJECTED EXTERNAL"
		case words[0] == "AUTH" && len(words) == 2:
			answer = "DATA"
		case words[0] == "AUTH", words[0] == "DATA":
			answer = "OK 0123456789abcdef0123456789abcdef"
		}
		if _, err := c.Write([]byte(answer + "\r\n")); err != nil {
			return
		}
	}
}

func (m *manager) answer(c net.Conn, call *dbus.Message) {
	member, _ := call.Headers[dbus.FieldMember].Value().(string)
	path, _ := call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	reply := &dbus.Message{
		Type: dbus.TypeMethodReply,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
		},
	}
	refuse := func(name, text string) {
		reply.Type = dbus.TypeError
		reply.Body = []any{text}
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(name)
	}
	var job func() string
	switch member {
	case "GetUnitByPID":
		refuse("org.freedesktop.systemd1.NoUnitForPID", "PID does not belong to any loaded unit.")
	case "GetAll":
		p := m.properties(strings.HasSuffix(string(path), "/"+escape(m.name)))
		state, err := os.ReadFile(resolvedState)
		isResolved := strings.HasSuffix(string(path), "/"+escape("systemd-resolved.service"))
		if err == nil && isResolved {
			p["LoadState"] = dbus.MakeVariant("loaded")
			p["ActiveState"] = dbus.MakeVariant(strings.TrimSpace(string(state)))
		}
		reply.Body = []any{p}
	case "StartUnit", "RestartUnit", "StopUnit":
		name, _ := call.Body[0].(string)
		if name != m.name {
			refuse("org.freedesktop.systemd1.NoSuchUnit", "Unit "+name+" not found.")
			break
		}
		job = map[string]func() string{
			"StartUnit": func() string { return m.start(false) },
			"StopUnit":  m.stop,
			"RestartUnit": func() string {
				m.stop()
				return m.start(false)
			},
		}[member]
	case "Reload", "Subscribe", "Unsubscribe":
	default:
		refuse("org.freedesktop.DBus.Error.UnknownMethod", "Unknown method "+member)
	}
	var id uint32
	var jobPath dbus.ObjectPath
	if job != nil {
		m.mu.Lock()
		m.job++
		id = m.job
		m.mu.Unlock()
		jobPath = dbus.ObjectPath(fmt.Sprintf("%s/job/%d", objectPath, id))
		reply.Body = []any{jobPath}
	}
	if len(reply.Body) > 0 {
		reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(reply.Body...))
	}
	m.send(reply, c)
	if job == nil {
		return
	}
	time.Sleep(
		time.Millisecond,
	) // so that who asked knows the job's name before it hears of its end
	signal := &dbus.Message{Type: dbus.TypeSignal, Body: []any{id, jobPath, m.name, job()},
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath(objectPath)),
			dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.systemd1.Manager"),
			dbus.FieldMember:    dbus.MakeVariant("JobRemoved"),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(uint32(0), jobPath, "", "")),
		}}
	m.bus.mu.Lock()
	all := append([]net.Conn{}, m.bus.conns...)
	m.bus.mu.Unlock()
	m.send(signal, all...)
}

func (m *manager) send(message *dbus.Message, to ...net.Conn) {
	m.bus.mu.Lock()
	defer m.bus.mu.Unlock()
	for _, c := range to {
		_ = message.EncodeTo(c, binary.LittleEndian) // who hung up does not listen
	}
}

// resolvedState is the ActiveState of a systemd-resolved that does not run, for tests.
const resolvedState = "/run/resolved-state"

// escape is the name of a unit in an object's path.
func escape(name string) string {
	return strings.NewReplacer(".", "_2e", "-", "_2d").Replace(name)
}

// execution is an ExecStart= as D-Bus has it.
type execution struct {
	Path                                             string
	Words                                            []string
	Ignore                                           bool
	Started, StartedMonotonic, Ended, EndedMonotonic uint64
	PID                                              uint32
	Code, Status                                     int32
}

// properties are a unit's, in systemd's D-Bus types; of any other unit only that it is not there.
func (m *manager) properties(ours bool) map[string]dbus.Variant {
	type queued struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	p := map[string]dbus.Variant{}
	set := func(name string, value any) { p[name] = dbus.MakeVariant(value) }

	set("Job", queued{0, "/"})
	set("UnitFileState", "")
	set("LoadState", "not-found")
	set("ActiveState", "inactive")
	set("SubState", "dead")
	if !ours {
		return p
	}
	u, err := loadUnit(m.name)
	if errors.Is(err, fs.ErrNotExist) {
		return p
	}
	if err != nil {
		set("LoadState", "error")
		return p
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	files := u.files
	if files == nil {
		files = []environmentFile{}
	}
	kubelet := execution{
		Path:  "/usr/bin/kubelet",
		Words: append([]string{}, u.exec...),
	}

	set("LoadState", "loaded")
	set("UnitFileState", "enabled")
	set("ActiveState", m.active)
	set("SubState", m.sub)
	set("Result", m.result)
	set("After", append([]string{}, u.after...))
	set("EnvironmentFiles", files)
	set("Environment", append([]string{}, u.environment...))
	set("ExecStart", []execution{kubelet})
	set("MainPID", uint32(m.pid))
	set("NRestarts", m.restarts)
	set("ExecMainStartTimestampMonotonic", uint64(m.started/time.Microsecond))
	return p
}

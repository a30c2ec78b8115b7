package boot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// hold stops prelet at a moment: the kernel asks us (fanotify(7)) before a process may open a file or a folder in
// those that are watched, and the process waits for the answer, in the middle of what it does. What is on the disk
// then is asked each time; where that is what the test waits for, no answer is given until it lets go. Nothing
// depends on how long anything takes.
type hold struct {
	m    *machine
	fan  *os.File
	at   func() bool
	held chan int // process id of who waits

	mu      sync.Mutex
	waits   []int32 // descriptors of events that are not answered yet
	free    bool    // everybody passes from now on
	looking bool    // somebody waits already, or is being looked at
}

// Folders in which a run that changes something opens what it works on, one after the other.
var (
	onDisk = []string{
		"/etc/default",
		"/etc/kubernetes",
		"/var/lib/kubelet",
		"/var/lib/prelet",
		"/var/lib/prelet/generations",
	}
	atTheGate = []string{"/run/prelet"}
)

// hold begins to watch. at is asked, with prelet waiting, whether this is the moment; it must not run anything inside
// the machine.
func (m *machine) hold(folders []string, at func() bool) *hold {
	m.T.Helper()
	fd, err := unix.FanotifyInit(
		unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK,
		unix.O_RDONLY|unix.O_CLOEXEC|unix.O_LARGEFILE,
	)
	if err != nil {
		m.T.Fatalf("fanotify: got %v (the kernel needs CONFIG_FANOTIFY_ACCESS_PERMISSIONS); want no error", err)
	}
	h := &hold{m: m, fan: os.NewFile(uintptr(fd), "fanotify"), at: at, held: make(chan int, 1)}
	m.T.Cleanup(h.release)
	for _, f := range folders {
		if err := unix.FanotifyMark(
			fd,
			unix.FAN_MARK_ADD|unix.FAN_MARK_ONLYDIR,
			unix.FAN_OPEN_PERM|unix.FAN_ONDIR|unix.FAN_EVENT_ON_CHILD,
			unix.AT_FDCWD,
			m.inside(f),
		); err != nil &&
			!errors.Is(err, unix.ENOENT) {
			m.T.Fatalf("fanotify: %s: %v", f, err)
		}
	}
	go h.serve()
	return h
}

// inside is a path of the machine as we reach it: what lies on its disk, or in its memory.
func (m *machine) inside(path string) string {
	if m.Leader != 0 && strings.HasPrefix(path, "/run/") {
		return fmt.Sprintf("/proc/%d/root%s", m.Leader, path)
	}
	return m.Root + path
}

func (h *hold) serve() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := h.fan.Read(buffer)
		if err != nil {
			return // closed
		}
		for events := bytes.NewReader(buffer[:n]); events.Len() > 0; {
			var e unix.FanotifyEventMetadata
			if binary.Read(events, binary.NativeEndian, &e) != nil || e.Vers != unix.FANOTIFY_METADATA_VERSION {
				return
			}
			h.event(e.Fd, int(e.Pid))
		}
	}
}

// event lets pass at once who is not prelet, and us above all, who look at the same files.
func (h *hold) event(fd int32, pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); h.free || h.looking ||
		strings.TrimSpace(string(comm)) != "prelet" {
		h.answer(fd)
		return
	}
	h.looking = true
	go func() {
		now := h.at()
		h.mu.Lock()
		defer h.mu.Unlock()
		if now && !h.free {
			h.waits = append(h.waits, fd)
			h.held <- pid
			return
		}
		h.answer(fd)
		h.looking = false
	}()
}

func (h *hold) answer(fd int32) {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, unix.FanotifyResponse{Fd: fd, Response: unix.FAN_ALLOW})
	_, _ = h.fan.Write(b.Bytes())
	_ = unix.Close(int(fd))
}

// reached waits until prelet is held, and returns its process id as we see it.
func (h *hold) reached() int {
	h.m.T.Helper()
	select {
	case pid := <-h.held:
		return pid
	case <-time.After(60 * time.Second):
		h.m.T.Fatal("the moment did not come")
	}
	return 0
}

// release lets it go on, and everybody from now on.
func (h *hold) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free {
		return
	}
	h.free = true
	for _, fd := range h.waits {
		h.answer(fd)
	}
	_ = h.fan.Close()
}

// journalNow is the journal of the generations as it is on the disk; its phase is "" where there is none.
func (m *machine) journalNow() (j struct {
	Phase string
	Gen   int
	Tries int
}) {
	text, err := os.ReadFile(m.Root + "/var/lib/prelet/journal.json")
	if err == nil {
		_ = json.Unmarshal(text, &j) // it is renamed into place whole
	}
	return j
}

// The files that both() changes.
const (
	flagsFile  = "/etc/default/kubelet"
	configFile = "/var/lib/kubelet/config.yaml"
)

// has says whether a file has what a change brings.
func (m *machine) has(path, name string) bool {
	text, _ := os.ReadFile(m.Root + path)
	return bytes.Contains(text, []byte(name))
}

// open says whether the gate is.
func (m *machine) open() bool {
	_, err := os.Stat(m.inside("/run/prelet/kubelet.env"))
	return err == nil
}

// targets lists which files of a change are in place, or none.
func (m *machine) targets(name string) string {
	var files []string
	for _, path := range []string{configFile, flagsFile} {
		if m.has(path, name) {
			files = append(files, filepath.Base(path))
		}
	}
	if len(files) == 0 {
		return "none"
	}

	return strings.Join(files, " ")
}

// middle is a moment of a run that both(name) makes make a generation: a state of the disk, not a time.
type middle struct {
	name    string
	folders []string // with atTheGate, the gate is still shut
	phase   string   // of the journal; "": before COMMIT, when all temporaries are written next to the targets
	targets string
}

func middles() []middle {
	const none, one, all = "none", "config.yaml", "config.yaml kubelet"
	return []middle{
		{"staged", onDisk, "", none},
		{"committed", atTheGate, "publish", none}, // and the kubelet still runs
		{"mixed", onDisk, "publish", one},
		{"published", atTheGate, "verify", all},
		{"awaited", onDisk, "verify", all},
	}
}

// isAt reports whether a run is at a moment.
func (m *machine) isAt(at middle, generation int, name string) bool {
	_, err := os.Stat(fmt.Sprintf("%s/var/lib/prelet/generations/%d.staged", m.Root, generation))
	isShut := slices.Equal(at.folders, onDisk) || !m.open()

	return m.journalNow().Phase == at.phase && (at.phase != "" || err == nil) && isShut && m.targets(name) == at.targets
}

// caught begins a run by hand that changes both files, and returns when it is held there.
func (m *machine) caught(at middle, generation int, name string, command ...string) (*hold, <-chan ran) {
	m.T.Helper()
	m.both(name)
	h := m.hold(at.folders, func() bool { return m.isAt(at, generation, name) })
	run := m.later(command...)
	h.reached()
	return h, run
}

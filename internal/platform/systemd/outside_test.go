package systemd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/prelet/prelet/internal/model/secret"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer socket.Close()

	t.Setenv("NOTIFY_SOCKET", path)

	var n Notifier
	for _, tc := range []struct {
		send func() error
		want string
	}{
		{func() error { return n.Status("fetch-ca: 2 of 3\nREADY=1\n") }, "STATUS=fetch-ca: 2 of 3 READY=1"},
		{n.Ready, "READY=1"},
		{func() error { return n.Extend(90 * time.Second) }, "EXTEND_TIMEOUT_USEC=90000000"},
	} {
		must(t, tc.send())
		got := make([]byte, 256)
		must(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
		size, err := socket.Read(got)
		if err != nil || string(got[:size]) != tc.want {
			t.Errorf("%q, %v; want %q", got[:size], err, tc.want)
		}
	}

	if err := n.Status(strings.Repeat("x", 1<<20)); err == nil {
		t.Error("with a message larger than a datagram: got no error, want one")
	}

	t.Setenv("NOTIFY_SOCKET", "")

	if err := n.Status("x"); err != nil {
		t.Errorf("without a socket: got error %v, want none", err)
	}

	t.Setenv("NOTIFY_SOCKET", path+"x")

	if err := n.Ready(); err == nil {
		t.Error("with a socket that does not exist: got no error, want one")
	}
}

// TestNotifyDoesNotHang: a service manager that reads nothing fails each message after a second.
func TestNotifyDoesNotHang(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer socket.Close()

	t.Setenv("NOTIFY_SOCKET", path)

	const most = 10000 // messages: the queue has 10 by default (net.unix.max_dgram_qlen), 512 under systemd
	failed := make(chan error, 1)
	go func() {
		for range most {
			if err := (Notifier{}).Status("x"); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()

	select {
	case err := <-failed:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got error %v; want a deadline that is exceeded", err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("got nothing after 5m; want an error after one second")
	}
}

func credentials(t *testing.T) (string, Credentials) {
	dir := t.TempDir()
	return dir, NewCredentials(env("CREDENTIALS_DIRECTORY", dir))
}

func TestCredential(t *testing.T) {
	dir, c := credentials(t)
	for name, content := range map[string]string{"bootstrap-token": "abc.def\n", "prelet.var.region": "", "big": strings.Repeat("x", CredentialLimit)} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o400))
		if got, err := c.Read(name); err != nil || string(got) != content {
			t.Errorf("%s: got %d bytes, %v; want the content", name, len(got), err)
		}
	}
	names, err := c.Names()
	if err != nil || strings.Join(names, " ") != "big bootstrap-token prelet.var.region" {
		t.Errorf("got %v, %v; want the valid names", names, err)
	}
}

func TestCredentialThatIsNotThere(t *testing.T) {
	_, c := credentials(t)
	if _, err := c.Read("bootstrap-token"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnusable) ||
		errors.Is(err, ErrNoCredentials) {
		t.Errorf("missing: got %v, want fs.ErrNotExist alone", err)
	}
	if _, err := NewCredentials(env()).Read("bootstrap-token"); !errors.Is(err, fs.ErrNotExist) ||
		!errors.Is(err, ErrNoCredentials) {
		t.Errorf("no folder: got %v, want ErrNoCredentials and fs.ErrNotExist", err)
	}
	if names, err := NewCredentials(env()).Names(); names != nil || err != nil {
		t.Errorf("no folder: got %v, %v; want nothing", names, err)
	}
}

func TestCredentialIsRefused(t *testing.T) {
	const secret = "s3cr3t-canary"
	for name, make := range map[string]func(path string) error{
		"a link": func(p string) error {
			return errors.Join(os.WriteFile(p+".real", []byte(secret), 0o400), os.Symlink(p+".real", p))
		},
		"a FIFO":   func(p string) error { return syscall.Mkfifo(p, 0o400) },
		"a folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"a socket": func(p string) error { _, err := net.Listen("unix", p); return err },
		"readable by others": func(p string) error {
			return errors.Join(os.WriteFile(p, []byte(secret), 0o400), os.Chmod(p, 0o444))
		},
		"writable by group": func(p string) error {
			return errors.Join(os.WriteFile(p, []byte(secret), 0o400), os.Chmod(p, 0o620))
		},
		"too long": func(p string) error {
			return os.WriteFile(p, bytes.Repeat([]byte(secret), 1+CredentialLimit/len(secret)), 0o400)
		},
	} {
		dir, c := credentials(t)
		if err := make(filepath.Join(dir, "x")); err != nil {
			t.Fatalf("making %s: got %v, want no error", name, err)
		}
		got, err := c.Read("x")
		if got != nil || !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: got %d bytes, %v; want ErrUnusable", name, len(got), err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got the secret in the error, want it without", name)
		}
	}
}

// TestCredentialReaders refuses a credential that another group, or a user in an ACL, may read, and takes one that
// systemd gives to this user.
func TestCredentialReaders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another group")
	}
	// The owner reads, and so does one user by an ACL, whose mask is the group's bits of the mode.
	acl := func(uid uint32) []byte {
		none := ^uint32(0)
		out := binary.LittleEndian.AppendUint32(nil, 2)
		for _, e := range []struct{ tagPerm, id uint32 }{{0x01 | 4<<16, none}, {0x02 | 4<<16, uid}, {0x04, none}, {0x10 | 4<<16, none}, {0x20, none}} {
			out = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(out, e.tagPerm), e.id)
		}
		return out
	}
	for name, c := range map[string]struct {
		mode os.FileMode
		gid  int
		acl  []byte
		want string // "": it is read
	}{
		"0400":                 {mode: 0o400},
		"0440 of root":         {mode: 0o440},
		"0440 of a group":      {mode: 0o440, gid: 998, want: "group 998 can read it"},
		"0640 of a group":      {mode: 0o640, gid: 998, want: "group 998 can read it"},
		"0400 of a group":      {mode: 0o400, gid: 998},
		"an ACL for a user":    {mode: 0o400, acl: acl(1000), want: "uid 1000 can read it"},
		"an ACL for this user": {mode: 0o400, acl: acl(0)},
	} {
		dir, creds := credentials(t)
		file := filepath.Join(dir, "x")
		must(t, errors.Join(os.WriteFile(file, []byte("s3cr3t"), 0o600), os.Chown(file, 0, c.gid), os.Chmod(file, c.mode)))
		if c.acl != nil {
			if err := unix.Setxattr(file, "system.posix_acl_access", c.acl, 0); errors.Is(err, unix.ENOTSUP) {
				continue // needs a TMPDIR whose file system has ACLs
			} else if err != nil {
				t.Fatal(err)
			}
		}
		got, err := creds.Read("x")
		isRead := err == nil && string(got) == "s3cr3t"
		if isRead != (c.want == "") || err != nil && (!errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %d bytes, %v; want %q", name, len(got), err, c.want)
		}
	}
}

func TestCredentialNames(t *testing.T) {
	dir, _ := credentials(t)
	must(t, errors.Join(
		os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o400),
		os.Mkdir(filepath.Join(dir, "sub"), 0o700),
	))
	c := NewCredentials(env("CREDENTIALS_DIRECTORY", filepath.Join(dir, "sub")))
	for _, name := range []string{"", ".", "..", "../secret", "/etc/passwd", "a/b", "a:b", "a b", "a\nb", "a\x00b", "ä", strings.Repeat("a", 256)} {
		if _, err := c.Read(name); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q: got %v, want ErrUnusable", name, err)
		}
	}
}

func FuzzCredentialName(f *testing.F) {
	f.Add("bootstrap-token")
	f.Add("../../etc/shadow")
	f.Add("/")
	f.Fuzz(func(t *testing.T, name string) {
		if secret.CheckCredentialName(name) == nil && (name != filepath.Base(name) || !filepath.IsLocal(name)) {
			t.Errorf("%q: got a name that leaves the folder, want it refused", name)
		}
	})
}

func TestJournalFields(t *testing.T) {
	type entry struct {
		message  string
		priority journal.Priority
		fields   map[string]string
	}
	var got []entry
	send := func(message string, priority journal.Priority, fields map[string]string) error {
		got = append(got, entry{message, priority, fields})
		return nil
	}
	redact := strings.NewReplacer("s3cr3t", "(sensitive)").Replace
	log := newJournalLog(send, redact)
	log(7, "not kept", nil)
	log(3, "held back: s3cr3t", map[string]string{"OBJECT_SYSTEMD_UNIT": "kubelet.service"})
	log(4, "slow", map[string]string{"PRELET_STAGE": "s3cr3t"})

	want := []entry{
		{
			"held back: (sensitive)",
			journal.PriErr,
			map[string]string{"SYSLOG_IDENTIFIER": "prelet", "OBJECT_SYSTEMD_UNIT": "kubelet.service"},
		},
		{
			"slow",
			journal.PriWarning,
			map[string]string{"SYSLOG_IDENTIFIER": "prelet", "PRELET_STAGE": "(sensitive)"},
		},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d entries %v, want two", len(got), got)
	}
	for i := range want {
		if got[i].message != want[i].message || got[i].priority != want[i].priority ||
			!maps.Equal(got[i].fields, want[i].fields) {
			t.Errorf("entry %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

// TestJournalDoesNotHang: a journald that reads nothing costs one second, and not one for each entry. Entries are sent
// again once it reads.
func TestJournalDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := make(chan struct{})
		var got []string
		send := func(message string, _ journal.Priority, _ map[string]string) error {
			<-reads
			got = append(got, message)
			return nil
		}
		log := newJournalLog(send, strings.ToUpper)

		began := time.Now()
		for range 3 {
			log(6, "first", nil)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("three entries took %v, want 1s", took)
		}

		close(reads)
		synctest.Wait()
		log(6, "last", nil)
		if want := "FIRST LAST"; strings.Join(got, " ") != want {
			t.Errorf("journald got %q, want %q", got, want)
		}
	})
}

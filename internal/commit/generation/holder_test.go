package generation

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLockOwner(t *testing.T) {
	const table = "1: POSIX  ADVISORY  WRITE 1 fd:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 fd:01:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 4712 fd:01:77 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 5 00:2a:77 0 EOF\n4: FLOCK  ADVISORY  WRITE 6 00:2a:78 0 EOF\n5: FLOCK  ADVISORY  WRITE -1 00:2a:79 0 EOF\n\nbroken\n6: FLOCK ADVISORY WRITE x fd:01:80 0 EOF\n7: FLOCK ADVISORY WRITE 8 81 0 EOF\n"
	for _, c := range []struct {
		major, minor uint32
		ino          uint64
		want         int
	}{{0xfd, 1, 77, 4711}, {0, 0x2a, 77, 5}, {9, 9, 77, 0}, {9, 9, 78, 6}, {0, 0x2a, 79, -1}, {0xfd, 1, 80, 0}, {0, 0, 81, 0}, {0, 0, 1, 0}} {
		if got := lockOwner(table, c.major, c.minor, c.ino); got != c.want {
			t.Errorf("%x:%x:%d is held by %d, want %d", c.major, c.minor, c.ino, got, c.want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for in, want := range map[string]string{
		"prelet\x00run\x00":                  "prelet run",
		"a\nb\x1b[0m\x00":                    "a·b·[0m",
		strings.Repeat("ä", 200) + "\x00":    strings.Repeat("ä", longestCommand) + "…",
		"":                                   "",
		"\x00\x00":                           "",
		"prelet\x00--var\x00a=b\x00\x00\x00": "prelet --var a=b",
	} {
		if got := commandLine([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzAgeOf(f *testing.F) {
	f.Add("1 (a) b) R " + strings.Repeat("0 ", 30))
	f.Add("")
	f.Add(")")
	f.Fuzz(func(t *testing.T, s string) {
		if age, ok := ageOf(s); ok && age < 0 {
			t.Errorf("%q began %s from now", s, -age)
		}
	})
}

// Who waits in vain is told who holds the lock: here it is this very process.
func TestLockedSaysWho(t *testing.T) {
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Skip("no /proc/locks here:", err)
	}
	b := newBox(t)
	b.o.Now = time.Now
	b.open()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, b.o)
	h, ok := HeldBy(err)
	if !ok || h.PID != os.Getpid() || !strings.Contains(h.Command, "generation.test") {
		t.Fatalf("%+v %v: %v", h, ok, err)
	}
	if age := time.Since(h.Since); age < 0 || age > time.Hour {
		t.Errorf("it began %s ago", age)
	}
	for _, want := range []string{"process " + itoa(os.Getpid()), "/var/lib/prelet/lock", "begun ", "waited "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// Who only looks is told as well, and of a lock that nobody holds nothing.
func TestLockHolder(t *testing.T) {
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Skip("no /proc/locks here:", err)
	}
	b := newBox(t)
	b.o.Now = time.Now
	look := func() (Holder, bool) {
		s, err := OpenReadOnly(b.o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.LockHolder()
	}
	if h, ok := look(); ok {
		t.Errorf("before there is a lock: %+v", h)
	}
	s := b.open()
	if h, ok := look(); !ok || h.PID != os.Getpid() {
		t.Errorf("while it is held: %+v, %t", h, ok)
	}
	if err := s.Unlock(); err != nil {
		t.Fatal(err)
	}
	if h, ok := look(); ok {
		t.Errorf("after it was let go: %+v", h)
	}
}

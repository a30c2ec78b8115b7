package probe

import (
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"testing"

	"github.com/prelet/prelet/internal/plan/lang"
)

// changing gives another secret each time, after it was not there at first.
type changing struct{ reads int }

func (c *changing) Read(string) ([]byte, error) {
	c.reads++
	runtime.Gosched() // lets another that asks at the same time come this far, if nothing holds it back
	if c.reads == 1 {
		return nil, fs.ErrNotExist
	}
	return []byte{byte('0' + c.reads), '\n'}, nil
}

// TestSecretEndsWithItsText removes the newline that an editor adds to a text, and no other byte.
func TestSecretEndsWithItsText(t *testing.T) {
	for content, want := range map[string]string{
		"one\n": "one", "two\n\n": "two\n", "dos\r\n": "dos\r", "": "", "\n": "", "key\xff\n": "key\xff\n",
	} {
		l := newLive(t, Sources{Root: t.TempDir(), Site: &lang.Site{}, Credentials: given{"x": content}})
		if got, err := l.Secret("x"); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", content, got, err, want)
		}
	}
}

// A run knows one secret of a name; that there was none is asked again.
func TestSecretIsReadOnce(t *testing.T) {
	l := newLive(t, Sources{Root: t.TempDir(), Site: &lang.Site{}, Credentials: &changing{}})
	if _, err := l.Secret("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("first: got error %v, want fs.ErrNotExist", err)
	}
	for range 2 {
		if b, err := l.Secret("x"); err != nil || string(b) != "2" {
			t.Errorf("second: got %q, %v; want 2", b, err)
		}
	}
	var both sync.WaitGroup
	got := make([]string, 2)
	for i := range got { // who is first, and reads, is first for both
		both.Go(func() {
			b, _ := l.Secret("z")
			got[i] = string(b)
		})
	}
	both.Wait()
	if got[0] != "3" || got[1] != "3" {
		t.Errorf("two at once: got %q, want 3 for both", got)
	}
	if b, err := l.Secret("y"); err != nil || string(b) != "4" {
		t.Errorf("another: got %q, %v; want 4", b, err)
	}
}

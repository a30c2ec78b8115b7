package detector

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// capture reads a pipe to its end, or until it is stopped, and keeps the beginning and the end of the data.
type capture struct {
	f    *os.File
	done chan struct{}
	mu   sync.Mutex
	head []byte
	tail []byte
	lost int // bytes between head and tail
}

func startCapture(f *os.File) *capture {
	c := &capture{f: f, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			c.keep(buf[:n])
			if err != nil {
				return
			}
		}
	}()

	return c
}

func (c *capture) keep(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()

	const half = contract.MaxStderr / 2
	n := min(half-len(c.head), len(p))
	c.head = append(c.head, p[:n]...)
	c.tail = append(c.tail, p[n:]...)
	if extra := len(c.tail) - half; extra > 0 {
		c.lost += extra
		c.tail = append(c.tail[:0], c.tail[extra:]...)
	}
}

// stop ends the reading. Written data is in the pipe already. It does not wait for other holders of the pipe.
func (c *capture) stop() {
	_ = c.f.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	<-c.done
	_ = c.f.Close()
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()

	gap := ""
	if c.lost > 0 {
		gap = fmt.Sprintf("\n… %d bytes …\n", c.lost)
	}

	return string(c.head) + gap + string(c.tail)
}

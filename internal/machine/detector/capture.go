package detector

import (
	"fmt"
	"sync"

	"github.com/prelet/prelet/plugins/contract"
)

// capture is a writer that keeps the beginning and the end of its input.
type capture struct {
	mu   sync.Mutex
	head []byte
	tail []byte
	lost int // bytes between head and tail
}

// Write implements io.Writer.
func (c *capture) Write(p []byte) (int, error) {
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

	return len(p), nil
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()

	gap := ""
	if c.lost > 0 { // next to an ellipsis, the redactor finds a part of a secret
		gap = fmt.Sprintf("…\n%d bytes are left out\n…", c.lost)
	}

	return string(c.head) + gap + string(c.tail)
}

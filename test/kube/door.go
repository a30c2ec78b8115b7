package kube

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Door forwards an address in a node's network to a server outside. It can be shut and opened again, and counts
// connections.
type Door struct {
	Opened atomic.Int64 // connections that came

	node    *Node
	address string
	to      string

	accepting sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

// Door opens a door at an address of the node ("10.0.0.11:6443") to an address outside ("127.0.0.1:41234").
func (n *Node) Door(address, to string) (*Door, error) {
	d := &Door{
		node:    n,
		address: address,
		to:      to,
		open:    map[net.Conn]bool{},
	}
	if err := d.Open(); err != nil {
		return nil, err
	}
	n.doors = append(n.doors, d)
	return d, nil
}

// Reach opens a door to a cluster's API server at each of the addresses.
func (n *Node) Reach(c *Cluster, addresses ...string) error {
	for _, a := range addresses {
		if _, err := n.Door(a, fmt.Sprintf("127.0.0.1:%d", c.Port)); err != nil {
			return err
		}
	}
	return nil
}

// Open lets connections through.
func (d *Door) Open() error {
	listen := func() (net.Listener, error) { return net.Listen("tcp", d.address) }
	l, err := inNetwork(d.node.first.pid, listen)
	// A program that is being started has the listener of before for a moment, until its exec.
	for end := time.Now().Add(time.Minute); errors.Is(err, unix.EADDRINUSE) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		l, err = inNetwork(d.node.first.pid, listen)
	}
	if err != nil {
		return fmt.Errorf("a door at %s: %w", d.address, err)
	}
	d.mu.Lock()
	d.listener = l
	d.mu.Unlock()
	d.accepting.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			d.Opened.Add(1)
			go d.carry(in)
		}
	})

	return nil
}

// Shut refuses connections and ends those that there are.
func (d *Door) Shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		_ = d.listener.Close()
		d.listener = nil
		d.accepting.Wait() // the address is free only then
	}
	for c := range d.open {
		_ = c.Close()
	}
}

func (d *Door) carry(in net.Conn) {
	out, err := net.Dial("tcp", d.to)
	if err != nil {
		_ = in.Close()
		return
	}
	d.mu.Lock()
	shut := d.listener == nil
	d.open[in], d.open[out] = true, true
	d.mu.Unlock()
	if shut {
		_, _ = in.Close(), out.Close()
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
	d.mu.Lock()
	delete(d.open, in)
	delete(d.open, out)
	d.mu.Unlock()
}

// inNetwork runs open in the network namespace of a process: a socket stays in the namespace where it was created.
func inNetwork[T any](pid int, open func() (T, error)) (made T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked, so the thread ends with this goroutine
		var f *os.File
		if f, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("setns: %w", err)
			return
		}
		made, err = open()
	}()
	<-done
	return made, err
}

package rpc

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Sockets are made by system calls, and are files that Go's poller knows: package net would bring its resolver, of which every
// start would pay a part.

// socket returns a stream socket of the machine itself.
func socket() (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	return fd, os.NewSyscallError("socket", err)
}

// Dial connects to a socket. A listener whose queue is full is waited for as long as ctx allows.
func Dial(ctx context.Context, path string) (Conn, error) {
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil:
			time.Sleep(time.Millisecond)
		default:
			_ = syscall.Close(fd)
			return nil, os.NewSyscallError("connect", err)
		}
	}
}

// Listen makes a socket, and listens on it.
func Listen(path string) (Listener, error) {
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		_ = syscall.Close(fd)
		return nil, &os.PathError{Op: "bind", Path: path, Err: err}
	}
	if err := syscall.Listen(fd, 16); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("listen", err)
	}
	return &listener{os.NewFile(uintptr(fd), path)}, nil
}

type listener struct{ f *os.File }

// Accept implements Listener.
func (l *listener) Accept() (Conn, error) {
	raw, err := l.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var accepted error
	if err := raw.Read(func(from uintptr) bool {
		for {
			fd, _, accepted = syscall.Accept4(int(from), syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
			if !errors.Is(accepted, syscall.EINTR) && !errors.Is(accepted, syscall.ECONNABORTED) {
				return !errors.Is(accepted, syscall.EAGAIN)
			}
		}
	}); err != nil {
		return nil, err
	}
	if accepted != nil {
		return nil, os.NewSyscallError("accept", accepted)
	}
	return os.NewFile(uintptr(fd), l.f.Name()), nil
}

// Close implements Listener. The socket's file goes with it.
func (l *listener) Close() error {
	_ = os.Remove(l.f.Name())
	return l.f.Close()
}

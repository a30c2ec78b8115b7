package hardware

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
)

const (
	maxListeners = 8                      // that are reported
	maxTable     = 1 << 20                // bytes of a table of sockets; those that listen are at its beginning
	maxOpenFiles = 4096                   // of a process that are looked at
	walkTime     = 300 * time.Millisecond // for looking at the open files of processes
)

// Listener is a TCP socket that listens.
type Listener struct {
	At    netip.AddrPort
	inode string
}

// ReadListeners returns the sockets that listen on some of the ports, by a folder like /proc, one for each address.
func ReadListeners(proc string, ports []int64) (out []Listener) {
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		file, err := os.Open(filepath.Join(proc, table))
		if err != nil {
			continue // a kernel without IPv6
		}
		for _, l := range parseListeners(file, ports) {
			isSame := func(other Listener) bool { return other.At == l.At }
			if len(out) < maxListeners && !slices.ContainsFunc(out, isSame) {
				out = append(out, l)
			}
		}
		_ = file.Close()
	}

	return out
}

// parseListeners parses a table like /proc/net/tcp. The kernel lists sockets that listen before all others, which may
// be many.
// Source: net/ipv4/tcp_ipv4.c, tcp_get_idx and get_tcp4_sock.
func parseListeners(table io.Reader, ports []int64) (out []Listener) {
	const listening = "0A"
	lines := bufio.NewScanner(io.LimitReader(table, maxTable))
	lines.Scan() // the heading
	for lines.Scan() {
		// number, local address, remote address, state, …, inode as the tenth field
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != listening {
			break
		}
		at, isValid := parseSocketAddress(f[1])
		if isValid && slices.Contains(ports, int64(at.Port())) {
			out = append(out, Listener{at, f[9]})
		}
	}

	return out
}

// parseSocketAddress parses an address and a port as /proc/net/tcp has them: 0100007F:280A. Each four bytes of the
// address are a number in the byte order of the machine.
func parseSocketAddress(text string) (at netip.AddrPort, isValid bool) {
	address, portText, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(address)
	port, portErr := strconv.ParseUint(portText, 16, 16)
	if err != nil || portErr != nil || len(b)%4 != 0 {
		return at, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, isValid := netip.AddrFromSlice(b)

	return netip.AddrPortFrom(ip, uint16(port)), isValid
}

// IdentifyListeners returns the sockets with the processes that have them, as far as this user may read their open
// files: prelet's unit may not read those of other services.
func IdentifyListeners(
	ctx context.Context,
	proc string,
	listeners []Listener,
) (out []tape.ListenerAns) {
	missing := map[string]int{} // by the link of an open file, such as socket:[4711]
	for i, l := range listeners {
		out = append(out, tape.ListenerAns{At: l.At})
		missing["socket:["+l.inode+"]"] = i
	}

	ctx, cancel := context.WithTimeout(ctx, walkTime)
	defer cancel()
	processes, _ := os.ReadDir(proc)
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, process.Name())
		for _, name := range listOpenFiles(dir) {
			if len(missing) == 0 || ctx.Err() != nil {
				return out
			}
			target, _ := os.Readlink(filepath.Join(dir, "fd", name))
			i, isListener := missing[target]
			if !isListener {
				continue
			}
			delete(missing, target)
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			out[i].PID = pid
			out[i].Process = string(bytes.TrimSuffix(comm, []byte("\n")))
		}
	}

	return out
}

// listOpenFiles returns the numbers of a process's open files.
func listOpenFiles(dir string) []string {
	folder, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(maxOpenFiles) // none: the process has ended, or may not be read

	return names
}

package hostile

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// socket returns the path of the detector's socket.
func socket() string {
	return filepath.Join(socketDir(), "s")
}

func socketDir() string { return os.Getenv("PLUGIN_UNIX_SOCKET_DIR") }

func printHandshake() {
	fmt.Println("1|1|unix|" + socket() + "|grpc")
}

// wrongLines returns what some detectors print in place of a handshake before they hang.
func wrongLines() map[string]string {
	return map[string]string{
		"hang-start":     "",
		"long-line":      strings.Repeat("z", 300<<10),
		"noise":          "Vendor driver 1.2 starting\n",
		"wrong-core":     "9|1|unix|" + socket() + "|grpc\n",
		"wrong-version":  "1|7|unix|" + socket() + "|grpc\n",
		"netrpc":         "1|1|unix|" + socket() + "|netrpc\n",
		"tcp":            "1|1|tcp|127.0.0.1:6443|grpc\n",
		"foreign-socket": "1|1|unix|/run/dbus/system_bus_socket|grpc\n",
		"dotted-socket":  "1|1|unix|" + socketDir() + "/../x|grpc\n",
		"dead-socket":    "1|1|unix|" + socket() + "|grpc\n",
	}
}

// runDetector runs a detector. It returns when a detector would end.
func runDetector(name string) {
	if line, ok := wrongLines()[name]; ok {
		_, _ = os.Stdout.WriteString(line)
		time.Sleep(time.Hour)
	}

	switch name {
	case "sleeper": // the child of other detectors
		ignoreSignals()
		time.Sleep(time.Hour)
	case "timers": // another process of the user, which has more of them than a detector may
		n, err := repeat(1<<12, makeTimer)
		fmt.Println(n, err)
		time.Sleep(time.Hour)
	case "reader": // the child of "page-tables"
		_ = fillPageTables()
		time.Sleep(time.Hour)
	case "crash-before":
		fmt.Fprintln(os.Stderr, "loading libvendor.so.1\nvendor library not found: libvendor.so.1")
		os.Exit(3)
	case "secret":
		fmt.Fprintln(os.Stderr, "cannot log in with "+Secret)
		os.Exit(1)
	case "other-protocol":
		serveRaw(func(c net.Conn) {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
		})
	case "ping-flood":
		serveRaw(floodPings)
	case "chatty": // go-plugin's own server sends its output over the stdio stream
		own := protocol.Plugin{Service: server{name: name}}
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig:  protocol.Handshake(),
			VersionedPlugins: protocol.Plugins(own),
			GRPCServer:       plugin.DefaultGRPCServer,
			Logger:           hclog.NewNullLogger(),
		})
	case "ignores":
		ignoreSignals()
		serve(name)
	default:
		serve(name)
	}
}

func ignoreSignals() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
}

// listen listens on the detector's socket, or ends the program.
func listen() net.Listener {
	l, err := net.Listen("unix", socket())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	return l
}

// serveRaw accepts one connection without gRPC, and hangs then.
func serveRaw(respond func(net.Conn)) {
	l := listen()
	printHandshake()
	c, err := l.Accept()
	if err == nil {
		respond(c)
	}
	time.Sleep(time.Hour)
}

// floodPings sends settings and then HTTP/2 pings, and reads no answer.
func floodPings(c net.Conn) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00pingpong"
	pings := strings.Repeat(ping, 1000)

	_, err := io.WriteString(c, settings)
	for err == nil {
		_, err = io.WriteString(c, pings)
	}
}

// serve serves gRPC.
func serve(name string) {
	l := listen()
	s := grpc.NewServer(grpc.MaxSendMsgSize(1<<30), grpc.UnknownServiceHandler(handleStream(name)))
	detectorv1.RegisterDetectorServiceServer(s, server{name: name})
	printHandshake()
	if name == "crash-after" {
		panic("nil device table")
	}
	_ = s.Serve(l)
}

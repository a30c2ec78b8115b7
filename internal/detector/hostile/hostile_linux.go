// Package hostile is detectors that no site wants: each breaks, hangs, floods, lies, or tries to get out, in the way that its name
// says. Tests run them. They speak the protocol by hand, since the SDK would keep them from half of it.
package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// Secret is what the detector "secret" prints.
const Secret = "abcdef.0123456789abcdef"

// Domain is where all of these recommend labels.
const Domain = "vendor.example.com"

// Describe is what a detector of that name would say of itself. All have something to do everywhere.
func Describe(name string) contract.Description {
	d := contract.Description{Name: name, Version: "1.0.0", Vendor: "Example", Match: contract.Match{Always: true}, LabelDomains: []string{Domain},
		Facts: []contract.Attribute{{Name: "sensors", Type: contract.Type{Kind: contract.List, Element: &contract.Type{Kind: contract.Object,
			Attributes: []contract.Attribute{{Name: "name", Type: contract.Type{Kind: contract.String}}, {Name: "celsius", Type: contract.Type{Kind: contract.Number}}}}}}},
		Config: []contract.Attribute{{Name: "seconds", Type: contract.Type{Kind: contract.Number}}}}
	switch name {
	case "no-limit":
		d.Config[0].Maximum = new(math.Inf(-1))
	case "tries": // each is a path to try
		for _, a := range []string{"read_file", "read_passwd", "read_token", "read_cpuinfo", "list_folder", "list_sys", "make_folder", "truncate_file", "run_program", "device_zero", "device_null",
			"connect_path", "connect_abstract", "connect_bus", "tcp_listener", "signal_neighbour"} {
			d.Config = append(d.Config, contract.Attribute{Name: a, Type: contract.Type{Kind: contract.String}})
		}
	case "needy":
		d.Needs.Execute = []string{"/usr/bin/id"}
	}
	return d
}

// Main is one of them. It returns when a detector would.
func Main(name string) {
	switch name {
	case "sleeper": // a child of another
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		time.Sleep(time.Minute)
		return
	case "crash-before":
		fmt.Fprintln(os.Stderr, "loading libvendor.so.1\nvendor library not found: libvendor.so.1")
		os.Exit(3)
	case "secret":
		fmt.Fprintln(os.Stderr, "cannot log in with "+Secret)
		os.Exit(1)
	case "hang-start":
		time.Sleep(time.Hour)
	case "long-line":
		_, _ = os.Stdout.WriteString(strings.Repeat("z", 300<<10))
		time.Sleep(time.Hour)
	case "noise":
		fmt.Println("Vendor driver 1.2 starting")
		time.Sleep(time.Hour)
	case "wrong-core":
		fmt.Println("9|1|unix|" + socket() + "|grpc")
		time.Sleep(time.Hour)
	case "wrong-version":
		fmt.Println("1|7|unix|" + socket() + "|grpc")
		time.Sleep(time.Hour)
	case "netrpc":
		fmt.Println("1|1|unix|" + socket() + "|netrpc")
		time.Sleep(time.Hour)
	case "tcp":
		fmt.Println("1|1|tcp|127.0.0.1:6443|grpc")
		time.Sleep(time.Hour)
	case "foreign-socket":
		fmt.Println("1|1|unix|/run/dbus/system_bus_socket|grpc")
		time.Sleep(time.Hour)
	case "dotted-socket":
		fmt.Println("1|1|unix|" + os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/../x|grpc")
		time.Sleep(time.Hour)
	case "dead-socket":
		fmt.Println("1|1|unix|" + socket() + "|grpc")
		time.Sleep(time.Hour)
	case "other-protocol":
		raw(func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) })
	case "ping-flood":
		raw(func(c net.Conn) {
			flood := []byte(strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x00pingpong", 1000))
			_, err := c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
			for err == nil {
				_, err = c.Write(flood) // and reads no answer
			}
		})
	case "ignores":
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	case "chatty": // and go-plugin's own server sends what it prints over its stdio stream
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig:  protocol.Handshake(),
			VersionedPlugins: protocol.Plugins(protocol.Plugin{Service: server{name: name}}),
			GRPCServer:       plugin.DefaultGRPCServer,
			Logger:           hclog.NewNullLogger(),
		})
		return
	}
	serve(name)
}

func socket() string { return filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s") }

// raw answers without any gRPC, and lives on.
func raw(answer func(net.Conn)) {
	l, err := net.Listen("unix", socket())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("1|1|unix|" + socket() + "|grpc")
	if c, err := l.Accept(); err == nil {
		answer(c)
	}
	time.Sleep(time.Hour)
}

func serve(name string) {
	l, err := net.Listen("unix", socket())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := grpc.NewServer(grpc.MaxSendMsgSize(1<<30), grpc.UnknownServiceHandler(streams(name)))
	detectorv1.RegisterDetectorServiceServer(s, server{name: name})
	fmt.Println("1|1|unix|" + socket() + "|grpc")
	if name == "crash-after" {
		panic("nil device table")
	}
	_ = s.Serve(l)
}

// streams answers the calls of go-plugin's own services.
func streams(name string) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		switch {
		case method == "/plugin.GRPCBroker/StartStream":
			panic("prelet opened the stream of go-plugin's broker")
		case method != "/plugin.GRPCStdio/StreamStdio":
		case name == "huge-stdio":
			return stream.SendMsg(stdioData(8 * contract.MaxAnswer))
		case name == "flood-stdio":
			for {
				if err := stream.SendMsg(stdioData(1 << 19)); err != nil {
					return err
				}
			}
		}
		return status.Error(codes.Unimplemented, method)
	}
}

// stdioData returns go-plugin's message with that many bytes for standard error. Its generated type is internal.
func stdioData(size int) proto.Message {
	const channel, data, standardError = 1, 2, 2
	b := protowire.AppendTag(nil, channel, protowire.VarintType)
	b = protowire.AppendVarint(b, standardError)
	b = protowire.AppendTag(b, data, protowire.BytesType)
	b = protowire.AppendBytes(b, make([]byte, size))
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(b)
	return m
}

type server struct {
	detectorv1.UnimplementedDetectorServiceServer
	name string
}

// Describe implements the service.
func (s server) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	d := Describe(s.name)
	switch s.name {
	case "nameless":
		d.Name = "../../etc"
	case "wordy":
		d.Doc = strings.Repeat("x", 1<<20)
	}
	return protocol.DescriptionToProto(d), nil
}

// Good is what the detector "good" finds.
func Good() contract.Answer {
	name := "Example 9000"
	return contract.Answer{Attributes: map[string]string{"firmware": "1.20"}, Warnings: []string{"the fan is loud"},
		Devices: []contract.Device{{Name: &name}},
		Facts:   []contract.Fact{{Name: "sensors", Value: []any{map[string]any{"name": "die", "celsius": 41.5}}, Evidence: "/sys/class/hwmon"}},
		Labels:  []contract.Label{{Key: Domain + "/firmware", Value: "1.20", Evidence: "firmware"}}}
}

// Detect implements the service.
func (s server) Detect(ctx context.Context, r *detectorv1.DetectRequest) (*detectorv1.DetectResponse, error) {
	a := Good()
	switch s.name {
	case "chatty": // more than a pipe holds
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<10))
		}
		fmt.Fprintln(os.Stderr, "the driver is older than 1.20")
		time.Sleep(200 * time.Millisecond) // until the stream has it
		os.Exit(1)
	case "crash-call":
		fmt.Fprintln(os.Stderr, "ioctl failed: no such device\nassertion failed: table != NULL")
		os.Exit(134)
	case "says-no":
		return nil, errors.New("the driver is older than 1.20; install a newer one")
	case "hang-call":
		select {}
	case "hang-child": // and what it started has its pipes
		_ = child("sleeper").Start()
		select {}
	case "flood-stdout":
		line := []byte(strings.Repeat("x", 60) + "\n")
		for {
			_, _ = os.Stdout.Write(line)
		}
	case "flood-stderr":
		line := []byte(strings.Repeat("x", 1<<20))
		for range 200 {
			_, _ = os.Stderr.Write(line)
		}
	case "bad-label":
		a.Labels = []contract.Label{{Key: Domain + "/gpu memory", Value: "80"}}
	case "foreign-label":
		a.Labels = []contract.Label{{Key: "other.example.org/x", Value: "1"}}
	case "role-label":
		a.Labels = []contract.Label{{Key: "node-role.kubernetes.io/control-plane", Value: ""}}
	case "contrary":
		a.Labels[0].Value = "2.0"
	case "undescribed":
		a.Facts = []contract.Fact{{Name: "seats", Value: 4.0}}
	case "wrong-type":
		a.Facts = []contract.Fact{{Name: "sensors", Value: "many"}}
	case "bad-address":
		a.Devices[0].Address = "../../1"
	case "placeholder":
		a.Attributes["firmware"] = "\ue000cred:bootstrap-token\ue001"
	case "terminal":
		a.Warnings = []string{"\x1b]0;owned\a\x1b[2J"}
	case "problem":
		return protocol.AnswerToProto(contract.Answer{Problems: []contract.Problem{{Path: "seconds", Summary: "too long", Detail: "At most 60."}}}), nil
	case "huge":
		a.Attributes["x"] = strings.Repeat("x", 100<<20)
	case "crowd": // empty devices, of two bytes each
		answer := &detectorv1.DetectResponse{}
		answer.ProtoReflect().SetUnknown(bytes.Repeat([]byte{1<<3 | byte(protowire.BytesType), 0}, contract.MaxAnswer/2))
		return answer, nil
	case "nulls":
		var list []any
		for range contract.MaxAnswer/4 - 1000 {
			list = append(list, nil)
		}
		a.Facts[0].Value = list
	case "no-number":
		a.Facts[0].Value = []any{map[string]any{"name": "die", "celsius": math.NaN()}}
	case "no-speed":
		a.Devices[0].SpeedGbps = new(math.Inf(1))
	case "warns": // one more than a list may have on its way
		a.Warnings = make([]string, contract.MaxValues+1)
	case "many":
		for i := range 2000 {
			name := fmt.Sprint("device ", i)
			a.Devices = append(a.Devices, contract.Device{Name: &name})
		}
	case "grandchild":
		report(&a, "start", child("sleeper").Start())
	case "setsid":
		c := child("sleeper")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		report(&a, "start", c.Start())
	case "fork-bomb":
		n := 0
		var err error
		for err == nil && n < 2000 {
			if err = child("sleeper").Start(); err == nil {
				n++
			}
		}
		a.Attributes["children"] = fmt.Sprint(n)
		report(&a, "last", err)
	case "hog":
		report(&a, "allocated", hog())
	case "shared-hog":
		n := 0
		var err error
		for err == nil && n < 2048 {
			var b []byte
			if b, err = unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON); err == nil {
				touch(b)
				n++
			}
		}
		a.Attributes["mebibytes"] = fmt.Sprint(n)
		report(&a, "last", err)
	case "fills": // as many files as there can be, and then it waits, with them
		n, err := fill(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		a.Attributes["files"] = fmt.Sprint(n)
		report(&a, "last", err)
		time.Sleep(time.Second)
	case "nests": // where there is no Landlock
		n, err := nest(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		a.Attributes["folders"] = fmt.Sprint(n)
		report(&a, "last", err)
	case "kill-host":
		report(&a, "kill", unix.Kill(os.Getppid(), unix.SIGKILL))
	case "tries":
		a.Attributes = tries(r.GetConfig().AsMap())
		a.Attributes["root"] = r.GetRoot()
	}
	return protocol.AnswerToProto(a), nil
}

func report(a *contract.Answer, key string, err error) { a.Attributes[key] = said(err) }

// said is how a try went: "ok", or what refused it.
func said(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(err.Error())
}

// child is this program once more, under another name, with our pipes.
func child(name string) *exec.Cmd {
	c := exec.Command("/proc/self/fd/3")
	c.Args[0] = name
	c.ExtraFiles = []*os.File{os.NewFile(3, "program")}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c
}

// hog takes memory until there is none. Go ends the process then.
func hog() error {
	var keep [][]byte
	for range 4096 {
		b := make([]byte, 1<<20)
		touch(b)
		keep = append(keep, b)
	}
	return fmt.Errorf("took %d MiB", len(keep))
}

func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

// fill makes files until it cannot.
func fill(dir string) (int, error) {
	for n := range 200000 {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("f", n)), os.O_CREATE|os.O_WRONLY, 0)
		if err != nil {
			return n, err
		}
		_ = f.Close()
	}
	return 200000, nil
}

// nest makes folders in folders until it cannot.
func nest(dir string) (int, error) {
	if err := os.Chdir(dir); err != nil {
		return 0, err
	}
	for n := range 3000 {
		if err := os.Mkdir("d", 0o700); err != nil {
			return n, err
		}
		if err := os.Chdir("d"); err != nil {
			return n, err
		}
	}
	return 3000, os.Chmod(".", 0)
}

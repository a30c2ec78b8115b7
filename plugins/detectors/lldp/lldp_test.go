package lldp

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestDetector(t *testing.T) { detectortest.Run(t, New("1.0.0")) }

// tlv is a field of an LLDP frame.
func tlv(kind int, value string) string {
	head := []byte{byte(kind<<1 | len(value)>>8), byte(len(value))}
	return string(head) + value
}

// frame is a frame of a switch.
func frame(system, port string) []byte {
	text := "\x01\x80\xc2\x00\x00\x0e\x02\x00\x5e\x00\x53\x10\x88\xcc" +
		tlv(1, "\x04\x02\x00\x5e\x00\x53\x01") + tlv(2, "\x05"+port) + tlv(3, "\x00\x78") +
		tlv(4, "rack 7, unit 12") + tlv(5, system) + tlv(0, "")
	return []byte(text)
}

// file is a file of networkd with frames.
func file(frames ...[]byte) []byte {
	var out []byte
	for _, f := range frames {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(f)))
		out = append(out, f...)
	}
	return out
}

// root is a machine with two interfaces, and networkd's files.
func root(t testing.TB, files map[string][]byte) sdk.Root {
	t.Helper()
	tree := "/sys/class/net/ens1/ifindex = 2\n/sys/class/net/ens2/ifindex = 3\n"
	for name, b := range files {
		tree += fmt.Sprintf("%s/%s = %q\n", frameFolder, name, b)
	}
	return detectortest.Root(t, tree)
}

func detectOn(t testing.TB, r sdk.Root, config map[string]any) contract.Answer {
	t.Helper()
	return detectortest.Detect(t, New("1.0.0"), r, config)
}

// facts returns the neighbours as JSON.
func facts(a contract.Answer) string {
	b, _ := json.Marshal(a.Facts[0].Value) // of an answer that was checked
	return string(b)
}

// TestFrames reads two interfaces, one with the same neighbour twice, and a file of an interface that is gone.
func TestFrames(t *testing.T) {
	r := root(t, map[string][]byte{
		"2": file(frame("leaf-07", "Ethernet1/7"), frame("leaf-07", "Ethernet1/7")),
		"3": file(frame("leaf-08", "\x01\x02")),
		"9": file(frame("x", "y")),
	})
	a := detectOn(t, r, map[string]any{"interfaces": []any{"ens1", "ens2", "ens3"}})
	const want = `[{"chassis":"02:00:5e:00:53:01","interface":"ens1","port":"Ethernet1/7","port_description":"rack 7, unit 12","system":"leaf-07"},` +
		`{"chassis":"02:00:5e:00:53:01","interface":"ens2","port":"0102","port_description":"rack 7, unit 12","system":"leaf-08"}]`
	if got := facts(a); got != want {
		t.Errorf("got neighbours\n%s\nwant\n%s", got, want)
	}
	if len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], "no LLDP neighbour on ens3: ") {
		t.Errorf("got warnings %q, want one about ens3", a.Warnings)
	}
}

// TestGarbage: a frame that is none is left out with a warning, and the others stay.
func TestGarbage(t *testing.T) {
	good := frame("leaf-07", "Ethernet1/7")
	for name, tt := range map[string]struct {
		file      []byte
		neighbors int
	}{
		"noise":                   {file([]byte("\xff\xfe noise"), good), 1},
		"another protocol":        {file([]byte("\x01\x80\xc2\x00\x00\x0e\x02\x00\x5e\x00\x53\x10\x08\x00\x45"), good), 1},
		"cut in a field":          {file(good[:20], good), 1},
		"a length without end":    {append(file(good), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), 1},
		"no length":               {append(file(good), 1, 2), 1},
		"a frame without content": {file(nil, good), 1},
	} {
		a := detectOn(t, root(t, map[string][]byte{"2": tt.file}), nil)
		var list []any
		_ = json.Unmarshal([]byte(facts(a)), &list)
		if len(list) != tt.neighbors || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "ens1") {
			t.Errorf("%s: got %s, warnings %q; want %d neighbour and a warning about ens1", name, facts(a), a.Warnings, tt.neighbors)
		}
	}
}

// TestTerminalCodes: texts of the wire cannot control a terminal.
func TestTerminalCodes(t *testing.T) {
	a := detectOn(t, root(t, map[string][]byte{"2": file(frame("leaf\x1b[2J\xff", "Ethernet1\n/7"))}), nil)
	if got := facts(a); strings.ContainsAny(got, "\x1b\n") || !strings.Contains(got, `"leaf [2J?"`) {
		t.Errorf("got %s, want texts without control characters", got)
	}
}

// TestFlood: more neighbours than a machine has ports.
func TestFlood(t *testing.T) {
	var frames [][]byte
	for i := range 100 {
		frames = append(frames, frame("x", fmt.Sprintf("port%03d", i)))
	}
	a := detectOn(t, root(t, map[string][]byte{"2": file(frames...)}), nil)
	if n := strings.Count(facts(a), `"port":`); n != maxNeighbors || len(a.Warnings) != 1 {
		t.Errorf("got %d neighbours, warnings %q; want %d and one warning", n, a.Warnings, maxNeighbors)
	}
}

// TestNoNetworkd: a machine without networkd's files has no neighbours, and the reason.
func TestNoNetworkd(t *testing.T) {
	a := detectOn(t, root(t, nil), nil)
	if a.Facts[0].Value != nil || !strings.Contains(a.Facts[0].Unknown, "it does not run, or its .network files have LLDP=no") {
		t.Errorf("got %+v, want no value and the reason", a.Facts[0])
	}
}

// answer is a networkd that answers with a text, or ends the connection.
func answer(t *testing.T, text string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			question := make([]byte, 512)
			n, _ := c.Read(question)
			if want := `"io.systemd.Network.GetLLDPNeighbors"`; !strings.Contains(string(question[:n]), want) {
				text = `{"error":"wrong question"}` + "\x00"
			}
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
	return at
}

// TestNetworkd is the varlink of systemd 256 and newer. The reply is in the form of its source.
func TestNetworkd(t *testing.T) {
	const good = `{"parameters":{"Neighbors":[{"InterfaceIndex":2,"InterfaceName":"ens1","Neighbors":[` +
		`{"ChassisID":"02:00:5e:00:53:01","RawChassisID":[2,0,94,0,83,1],"PortID":"Ethernet1/7","RawPortID":[5],` +
		`"PortDescription":"rack 7","SystemName":"leaf-07","EnabledCapabilities":20},` +
		`{"ChassisID":"02:00:5e:00:53:02","RawChassisID":[2],"PortID":"7","RawPortID":[55],"EnabledCapabilities":4}]}]}}` + "\x00"
	r, err := askNetworkd(t.Context(), answer(t, good))
	if err != nil || len(r.neighbors) != 2 {
		t.Fatalf("got %+v, %v; want two neighbours", r, err)
	}
	if n := r.neighbors[0]; n.Interface != "ens1" || *n.System != "leaf-07" || n.Port != "Ethernet1/7" || *n.PortDescription != "rack 7" {
		t.Errorf("first neighbour: got %+v, want leaf-07 at Ethernet1/7", n)
	}
	if n := r.neighbors[1]; n.System != nil || n.PortDescription != nil || n.Chassis != "02:00:5e:00:53:02" {
		t.Errorf("second neighbour: got %+v, want one without a name", n)
	}

	for text, want := range map[string]string{
		`{"error":"org.varlink.service.MethodNotFound","parameters":{}}` + "\x00": errOldNetworkd.Error(),
		`{"error":"io.systemd.Network.\u001b[2J"}` + "\x00":                       "it refused: io.systemd.Network. [2J",
		`{"parameters":{"Neighbors":7}}` + "\x00":                                 "the reply is not JSON",
		`{"parameters"`: "reading the reply: EOF",
		"":              "reading the reply: EOF",
	} {
		if _, err := askNetworkd(t.Context(), answer(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the reply %q: got %v, want an error with %q", text, err, want)
		}
	}
}

// TestNetworkdHangs: a networkd that does not answer ends with the context.
func TestNetworkdHangs(t *testing.T) {
	at := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50e6)
	defer cancel()
	if _, err := askNetworkd(ctx, at); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a passed deadline", err)
	}
	if _, err := askNetworkd(t.Context(), at+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: got %v, want that it does not exist", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(file(frame("leaf-07", "Ethernet1/7")))
	f.Add(append(file([]byte("\xff")), 0xff))
	f.Fuzz(func(t *testing.T, b []byte) {
		detectOn(t, root(t, map[string][]byte{"2": b}), nil)
	})
}

package cri

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What servers of Kubernetes' own library answered (k8s.io/cri-client/pkg/fake over google.golang.org/grpc), byte for byte:
// settings, an acknowledgement, a window, a ping, and then both answers, the second one first.
const (
	settings = "000006040000000000000500004000" + "000000040100000000" + "000004080000000000" + "00000005" + "0000080600000000000" + "2041010090e0707"
	headers  = "00000e010400000003885f8b1d75d0620d263d4c4d6564"
	trailers = "000018010500000003" + "40889acac8b21234da8f01304089" + "9acac8b5254207317f00"
	// fakeRuntime 0.1.0
	versioned = "000002010400000001" + "88c0" + "000027000000000001" + "00000000220a05302e312e30120b66616b6552756e74696d651a05302e312e302205302e312e30" + "000002010500000001" + "bfbe"
	cgroupfs  = settings + headers + "000009000000000003" + "00000000040a020801" + trailers + versioned
	systemd   = settings + headers + "000007000000000003" + "00000000020a00" + trailers + versioned
	silent    = settings + headers + "000005000000000003" + "0000000000" + trailers + versioned
	// containerd 1.6: the call fails, so that its first headers are its last.
	unimplemented = settings + "000004010500000003" + "885f8b1d" + versioned
	reset         = settings + "000004030000000003" + "00000008" + versioned
	goingAway     = settings + versioned + "000008070000000000" + "0000000000000000"
)

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTold(t *testing.T) {
	const name, version = "fakeRuntime", "0.1.0"
	for _, c := range []struct {
		name, answer string
		want         Runtime
		err          string
	}{
		{"cgroupfs", cgroupfs, Runtime{name, version, "cgroupfs"}, ""},
		{"systemd", systemd, Runtime{name, version, "systemd"}, ""},
		{"it says nothing of Linux", silent, Runtime{name, version, ""}, ""},
		{"it has no such call", unimplemented, Runtime{name, version, ""}, ""},
		{"it ends that call", reset, Runtime{name, version, ""}, ""},
		{"it goes away", goingAway, Runtime{name, version, ""}, "closes"},
		{"a driver of tomorrow", strings.Replace(cgroupfs, "0a020801", "0a020802", 1), Runtime{name, version, ""}, ""},
		{"a name that no terminal should see", strings.Replace(cgroupfs, "66616b65", "1b5b316d", 1), Runtime{"", version, "cgroupfs"}, ""},
		{"it breaks off", settings, Runtime{}, "EOF"},
		{"nothing", "", Runtime{}, "EOF"},
		{"HTTP/1.1", hex.EncodeToString([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")), Runtime{}, "not gRPC"},
		{"padding", settings + "000006000900000003" + "000000000000", Runtime{}, "not gRPC"},
		{"no end of it", settings + strings.Repeat("004000000000000005"+strings.Repeat("00", 1<<14), 5), Runtime{}, "EOF"},
	} {
		got, err := talk(&peer{answer: bytes.NewReader(bytesOf(t, c.answer))})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %s", c.name, got, err, c.want, c.err)
		}
	}
}

// What is asked: one preface, our settings, two calls without an argument, and no more than an acknowledgement behind.
func TestAsked(t *testing.T) {
	p := &peer{answer: bytes.NewReader(bytesOf(t, cgroupfs))}
	if _, err := talk(p); err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(p.asked.Bytes(), []byte(preface))
	var kinds []byte
	var paths []string
	for in := bytes.NewReader(rest); in.Len() > 0; {
		kind, _, _, body, err := readFrame(in)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
		if _, after, found := strings.Cut(string(body), "/runtime.v1."); found {
			path, _, _ := strings.Cut(after, "\x00")
			paths = append(paths, path)
		}
	}
	if got := strings.Join(paths, " "); !ok || got != "RuntimeService/Version RuntimeService/RuntimeConfig" || !bytes.Equal(kinds, []byte{4, 1, 0, 1, 0, 4}) {
		t.Errorf("%t, %s, %v", ok, got, kinds)
	}
}

// peer answers what it was given, whatever it is asked.
type peer struct {
	answer io.Reader
	asked  bytes.Buffer
}

func (p *peer) Read(b []byte) (int, error)  { return p.answer.Read(b) }
func (p *peer) Write(b []byte) (int, error) { return p.asked.Write(b) }

// A socket at which nobody answers holds up no longer than the context lets it; one that is not there not at all.
func TestPatience(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if _, err := Ask(t.Context(), socket); err == nil {
		t.Error("nobody is there")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := Ask(ctx, socket); done <- err }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("nobody answered")
		}
	case <-time.After(time.Minute):
		t.Error("it waits on")
	}
}

func FuzzAnswer(f *testing.F) {
	for _, text := range []string{cgroupfs, systemd, silent, unimplemented, reset, goingAway} {
		f.Add(bytesOf(f, text))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, _ := talk(&peer{answer: bytes.NewReader(answer)})
		if len(r.Name) > 64 || len(r.Version) > 64 || r.Driver != "" && r.Driver != "systemd" && r.Driver != "cgroupfs" {
			t.Errorf("%+v", r)
		}
	})
}

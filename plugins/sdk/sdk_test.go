package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

// toy is a detector whose Detect is the test's.
type toy struct {
	detect func(context.Context, sdk.Request, *sdk.Answer) error
	config []sdk.Declaration
	facts  []sdk.Declaration
}

// Describe implements sdk.Detector.
func (d toy) Describe() sdk.Description {
	return sdk.Description{
		Name:    "toy",
		Version: "1",
		Config:  d.config,
		Facts:   d.facts,
		Domains: []string{"toy.example"},
		Match:   sdk.Match{Always: true},
	}
}

// Detect implements sdk.Detector.
func (d toy) Detect(ctx context.Context, r sdk.Request, a *sdk.Answer) error {
	if d.detect == nil {
		return nil
	}
	return d.detect(ctx, r, a)
}

// Validate implements sdk.Validator.
func (toy) Validate(c sdk.Config) []sdk.Problem {
	if c["ports"] == 13.0 {
		return []sdk.Problem{{Path: "ports", Summary: "13 is no number of ports"}}
	}
	return nil
}

type firmware struct {
	Minimum *string `json:"minimum" doc:"The oldest that is good."`
	Channel string  `json:"channel" one_of:"stable,beta" required:"true"`
}

type version struct {
	Of   string  `json:"of"`
	Text *string `json:"text"`
}

var (
	ports    = sdk.Attr[int]{Name: "ports", Doc: "How many.", Default: new(2), Minimum: new(1.0)}
	names    = sdk.Attr[[]string]{Name: "names"}
	nested   = sdk.Attr[firmware]{Name: "firmware"}
	warm     = sdk.Fact[float64]{Name: "temperature", Unit: "celsius"}
	versions = sdk.Fact[[]version]{Name: "versions"}
)

func TestMain(m *testing.M) { detectortest.Main(m, toy{}) }

func TestDeclarations(t *testing.T) {
	d, err := sdk.Describe(
		toy{config: []sdk.Declaration{ports, names, nested}, facts: []sdk.Declaration{warm, versions}},
	)
	must(t, err)
	var types []string
	for _, a := range append(d.Config, d.Facts...) {
		types = append(types, a.Name+" "+a.Type.String())
	}
	want := []string{
		"ports number",
		"names list(string)",
		"firmware object({minimum=string, channel=string})",
		"temperature number",
		"versions list(object({of=string, text=string}))",
	}
	if !reflect.DeepEqual(types, want) {
		t.Errorf("got types %q, want %q", types, want)
	}
	if a := d.Config[2].Type.Attributes[1]; !a.Required || !reflect.DeepEqual(a.OneOf, []string{"stable", "beta"}) {
		t.Errorf("got %+v, want it required, one of stable and beta", a)
	}
}

func TestConfig(t *testing.T) {
	all := []sdk.Declaration{ports, names, nested}
	var got []any
	d := toy{config: all, detect: func(_ context.Context, r sdk.Request, _ *sdk.Answer) error {
		got = []any{ports.Of(r.Config), names.Of(r.Config), nested.Of(r.Config)}
		return nil
	}}
	ask := func(config map[string]any) []contract.Problem {
		t.Helper()
		a, err := sdk.Detect(t.Context(), d, config, nil, sdk.Root{})
		must(t, err)
		return a.Problems
	}
	if p := ask(nil); len(p) > 0 || !reflect.DeepEqual(got, []any{2, []string(nil), firmware{}}) {
		t.Errorf("defaults: got %+v (problems %v), want ports 2 and nothing else", got, p)
	}
	if p := ask(map[string]any{"ports": 3.0, "names": []any{"a"}, "firmware": map[string]any{"channel": "beta"}}); len(
		p,
	) > 0 ||
		!reflect.DeepEqual(got, []any{3, []string{"a"}, firmware{Channel: "beta"}}) {
		t.Errorf("given values: got %+v (problems %v), want them", got, p)
	}
	for name, tt := range map[string]struct {
		config map[string]any
		path   string
	}{
		"unknown":                     {map[string]any{"port": 1.0}, "port"},
		"nested":                      {map[string]any{"firmware": map[string]any{"channel": "gamma"}}, "firmware.channel"},
		"a fraction where T is whole": {map[string]any{"ports": 1.5}, "ports"},
		"the detector's own rule":     {map[string]any{"ports": 13.0}, "ports"},
		"required inside":             {map[string]any{"firmware": map[string]any{}}, "firmware.channel"},
	} {
		if p := ask(tt.config); len(p) != 1 || p[0].Path != tt.path || strings.Contains(fmt.Sprint(p), "type int") {
			t.Errorf("%s: got %v, want one problem at %s, without a type of Go", name, p, tt.path)
		}
	}
}

func TestGuards(t *testing.T) {
	answer := func(fill func(a *sdk.Answer)) (contract.Answer, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		asked := []sdk.PCIDevice{{Address: "0000:01:00.0"}, {Address: "0000:02:00.0"}}
		detect := func(_ context.Context, _ sdk.Request, a *sdk.Answer) error { fill(a); return nil }
		return sdk.Detect(ctx, toy{detect: detect, facts: []sdk.Declaration{warm}}, nil, asked, sdk.Root{})
	}
	_, err := answer(func(*sdk.Answer) { panic("out of cheese") })
	if p := (*sdk.Panicked)(nil); !errors.As(err, &p) || !strings.Contains(err.Error(), "out of cheese") ||
		!strings.Contains(string(p.Stack), "TestGuards") {
		t.Errorf("panic: got %v, want Panicked with its stack", err)
	}
	if _, err = answer(func(*sdk.Answer) { select {} }); !errors.Is(
		err,
		context.DeadlineExceeded,
	) {
		t.Errorf("hanging detector: got %v, want the deadline", err)
	}
	if _, err = answer(func(a *sdk.Answer) { a.Recommend("other.example/x", "y", "") }); err == nil {
		t.Error("a label of another's domain")
	}
	if _, err = answer(func(a *sdk.Answer) { a.Add(sdk.Device{Address: "0000:1b:00.0"}) }); err == nil || !strings.Contains(err.Error(), "any_pci_device") {
		t.Errorf("another's device: got %v; want what to describe", err)
	}
	a, err := answer(func(a *sdk.Answer) {
		a.Add(sdk.Device{Address: "0000:02:00.0", Name: new("\xff\x1b[31mred\n"), Model: new("\x00")})
		a.Add(sdk.Device{Address: "0000:01:00.0"})
		a.AddFacts(warm.Unknown("line\nbreak"))
	})
	if err != nil || a.Devices[0].Address != "0000:01:00.0" || *a.Devices[1].Name != "? [31mred" ||
		a.Devices[1].Model != nil ||
		a.Facts[0].Unknown != "line break" {
		t.Errorf("got %+v, %v, want sorted devices with printable names", a, err)
	}
}

func TestRoot(t *testing.T) {
	r := detectortest.Root(t, `
pci 0000:17:00.0 1234:0001 abcd:0002 120000 toy numa=1
/sys/class/toy/x = " 0x10\n"
/proc/link -> ../../../../../../../../etc/hostname
`)
	if n, err := r.Int("/sys/class/toy/x"); n != 16 || err != nil {
		t.Error(n, err)
	}
	if _, err := r.Text("/proc/link"); err == nil {
		t.Error("a link leads out of the root")
	}
	if _, err := r.Text("/../../../etc/hostname"); err == nil {
		t.Error("a path leads out of the root")
	}
	if _, err := r.Text("/sys/nothing"); err == nil || !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "/sys/nothing: ") {
		t.Error(err)
	}
	want := []sdk.PCIDevice{
		{
			Address:         "0000:17:00.0",
			Vendor:          "1234",
			Device:          "0001",
			SubsystemVendor: "abcd",
			SubsystemDevice: "0002",
			Class:           "120000",
			Driver:          "toy",
			NUMA:            new(1),
		},
	}
	if got := r.PCIDevices(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if g := r.Glob("/sys/class/*/x"); !reflect.DeepEqual(g, []string{"/sys/class/toy/x"}) {
		t.Error(g)
	}
	var zero sdk.Root
	if zero.Exists("/") || zero.Names("/sys") != nil || zero.Real() {
		t.Error("the zero root is not empty")
	}
}

// TestCommand runs the commands for people.
func TestCommand(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other") // as it would be for another architecture
	must(t, os.WriteFile(other, []byte("foo"), 0o755))
	for _, tt := range []struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		{nil, 64, "describe", ""},
		{[]string{"help"}, 0, "detect", ""},
		{[]string{"describe"}, 0, `"name": "toy"`, ""},
		{[]string{"describe", "-o", "json"}, 0, `"name": "toy"`, ""},
		{[]string{"describe", "-o", "lock"}, 0, `"sha256": "`, ""},
		{[]string{"detect", "-o", "lock"}, 64, "", "lock"},
		{[]string{"describe", "-o", "lock", "--program", other}, 0, `"sha256": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"`, ""},
		{[]string{"describe", "-o", "lock", "--program", other + ".gone"}, 1, "", "no such file"},
		{[]string{"describe", "--program", other}, 64, "", "--program is for describe -o lock"},
		{[]string{"detect", "--root", t.TempDir()}, 0, `"devices": null`, ""},
		{[]string{"detect", "-o", "json"}, 0, `"devices": null`, ""},
		{[]string{"detect", "--config", `{"x":1}`}, 1, "no such attribute", ""},
		{[]string{"detect", "--config", `nonsense`}, 64, "", "want a JSON object"},
		{[]string{"detect", "--root", "/does/not/exist"}, 1, "", "does/not/exist"},
		{[]string{"detct"}, 64, "", `no command "detct"`},
		{[]string{"detect", "-o", "yaml"}, 64, "", "yaml"},
	} {
		var stdout, stderr strings.Builder
		if status := sdk.Command(
			toy{},
			tt.args,
			&stdout,
			&stderr,
		); status != tt.status || !strings.Contains(stdout.String(), tt.stdout) ||
			!strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%q: got %d\n%s%s\nwant %d, %q, %q",
				tt.args, status, stdout.String(), stderr.String(), tt.status, tt.stdout, tt.stderr)
		}
	}
}

// old is a detector of a protocol before Validate.
type old struct {
	detectorv1.UnimplementedDetectorServiceServer
}

// Describe implements detector.v1.
func (old) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	return &detectorv1.DescribeResponse{Name: "old", Version: "1", Match: &detectorv1.Match{Always: true}}, nil
}

func TestMissingMethodsFallBack(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(t, err)
	s := grpc.NewServer()
	detectorv1.RegisterDetectorServiceServer(s, old{})
	go func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	defer s.Stop()
	c, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer c.Close()
	client := protocol.NewClient(c)
	d, err := client.Describe(t.Context())
	if err != nil || d.Name != "old" {
		t.Fatal(d, err)
	}
	if p, err := client.Validate(t.Context(), nil); p != nil || err != nil {
		t.Errorf("Validate without the method: got %v, %v, want neither", p, err)
	}
	if _, err := client.Detect(t.Context(), contract.Request{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a detector without Detect: got %v; want the status Unimplemented", err)
	}
}

// TestVersions checks the version in the handshake for the offered versions.
func TestVersions(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	for offered, want := range map[string]string{"1": "1|1|unix|", "2,1": "1|1|unix|", "": "1|1|unix|", "7": "1|1|unix|"} {
		c := exec.CommandContext(t.Context(), program, "detectortest-is-the-detector")
		c.Env = []string{
			protocol.CookieKey + "=" + protocol.CookieValue,
			"PLUGIN_PROTOCOL_VERSIONS=" + offered,
			"PLUGIN_UNIX_SOCKET_DIR=" + t.TempDir(),
		}
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		b := make([]byte, len(want))
		if _, err := io.ReadFull(out, b); err != nil || string(b) != want {
			t.Errorf("versions %q: got %q, %v, want %q", offered, b, err, want)
		}
		c.Process.Kill()
		c.Wait()
	}
}

// TestStandsAlone checks that the packages for vendors import neither prelet's internals, nor HCL, nor Kubernetes, nor
// the dependencies of the shipped detectors.
func TestStandsAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/prelet/prelet/plugins/sdk/...", "github.com/prelet/prelet/plugins/conformance").
		Output()
	must(t, err)
	for p := range strings.FieldsSeq(string(out)) {
		for _, bad := range []string{"github.com/prelet/prelet/internal", "github.com/prelet/prelet/schema", "github.com/prelet/prelet/stages", "github.com/hashicorp/hcl", "github.com/zclconf",
			"k8s.io/", "sigs.k8s.io/", "github.com/ovn-kubernetes", "github.com/NVIDIA", "github.com/prometheus"} {
			if strings.HasPrefix(p, bad) {
				t.Errorf("got the import %s, want none of %s", p, bad)
			}
		}
	}
}

// TestRefusedTypes declares types whose JSON is not what a site would write: a number of nanoseconds, and nothing.
func TestRefusedTypes(t *testing.T) {
	type nested struct {
		Wait time.Duration `json:"wait"`
	}
	for name, test := range map[string]struct {
		declaration sdk.Declaration
		want        string
	}{
		"duration":         {sdk.Attr[time.Duration]{Name: "wait"}, "cannot declare time.Duration"},
		"list of these":    {sdk.Fact[[]time.Duration]{Name: "waits"}, "cannot declare time.Duration"},
		"field of a block": {sdk.Attr[nested]{Name: "block"}, "cannot declare time.Duration"},
		"time":             {sdk.Fact[time.Time]{Name: "at"}, "time.Time, which has no exported fields"},
		"address":          {sdk.Attr[netip.Addr]{Name: "address"}, "netip.Addr, which has no exported fields"},
		"channel":          {sdk.Attr[chan int]{Name: "x"}, "chan int"},
		"bytes":            {sdk.Fact[[]byte]{Name: "x"}, "uint8"},
		"no tag":           {sdk.Fact[struct{ X int }]{Name: "x"}, "X"},
	} {
		_, err := sdk.Describe(toy{facts: []sdk.Declaration{test.declaration}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

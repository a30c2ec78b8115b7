package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
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

// asToy is the argument with which the test's program becomes the detector toy.
const asToy = "toy"

// toy returns a detector with a function of the test.
func toy(detect func(m *sdk.Machine) error) sdk.Detector {
	if detect == nil {
		detect = func(*sdk.Machine) error { return nil }
	}
	return sdk.Detector{
		Name:    "toy",
		Version: "1",
		Domains: []string{"toy.example"},
		Match:   sdk.Match{Always: true},
		Detect:  detect,
		Validate: func(c sdk.Config) []sdk.Problem {
			if c["ports"] == 13.0 {
				return []sdk.Problem{{Path: "ports", Summary: "13 is no number of ports"}}
			}
			return nil
		},
	}
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

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asToy {
		sdk.Serve(toy(nil))
	}
	os.Exit(m.Run())
}

func TestDeclarations(t *testing.T) {
	declared := toy(nil)
	declared.Config = []sdk.Declaration{ports, names, nested}
	declared.Facts = []sdk.Declaration{warm, versions}
	d, err := sdk.Describe(declared)
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
	var got []any
	d := toy(func(m *sdk.Machine) error {
		got = []any{ports.Of(m.Config), names.Of(m.Config), nested.Of(m.Config)}
		return nil
	})
	d.Config = []sdk.Declaration{ports, names, nested}
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
	answerWithin := func(ctx context.Context, fill func(m *sdk.Machine)) (contract.Answer, error) {
		asked := []sdk.PCIDevice{{Address: "0000:01:00.0"}, {Address: "0000:02:00.0"}}
		d := toy(func(m *sdk.Machine) error { fill(m); return nil })
		d.Facts = []sdk.Declaration{warm}
		return sdk.Detect(ctx, d, nil, asked, sdk.Root{})
	}
	answer := func(fill func(m *sdk.Machine)) (contract.Answer, error) { return answerWithin(t.Context(), fill) }
	_, err := answer(func(*sdk.Machine) { panic("out of cheese") })
	if p := (*sdk.Panicked)(nil); !errors.As(err, &p) || !strings.Contains(err.Error(), "out of cheese") ||
		!strings.Contains(string(p.Stack), "TestGuards") {
		t.Errorf("panic: got %v, want Panicked with its stack", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = answerWithin(ctx, func(*sdk.Machine) { select {} }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hanging detector: got %v, want the deadline", err)
	}
	if _, err = answer(func(m *sdk.Machine) { m.Recommend("other.example/x", "y", "") }); err == nil {
		t.Error("a label of another's domain")
	}
	if _, err = answer(func(m *sdk.Machine) { m.Add(&sdk.Device{Address: "0000:1b:00.0"}) }); err == nil || !strings.Contains(err.Error(), "any_pci_device") {
		t.Errorf("another's device: got %v; want what to describe", err)
	}
	a, err := answer(func(m *sdk.Machine) {
		m.Add(&sdk.Device{Address: "0000:02:00.0", Name: "\xff\x1b[31mred\n", Model: "\x00"})
		m.Add(&sdk.Device{Address: "0000:01:00.0"})
		m.AddFacts(warm.Unknown("line\nbreak"))
	})
	if err != nil || a.Devices[0].Address != "0000:01:00.0" || *a.Devices[1].Name != "? [31mred" ||
		a.Devices[1].Model != nil ||
		a.Facts[0].Unknown != "line break" {
		t.Errorf("got %+v, %v, want sorted devices with printable names", a, err)
	}
}

// TestZeroIsAValue reports empty values: none of them is unknown.
func TestZeroIsAValue(t *testing.T) {
	type port struct {
		Name  *string  `json:"name"`
		Lanes []int    `json:"lanes"`
		Peers []string `json:"peers"`
	}
	tests := map[string]struct{ fact, want any }{
		"false":       {sdk.Fact[bool]{Name: "x"}.Is(false, "").Value, false},
		"0":           {sdk.Fact[int]{Name: "x"}.Is(0, "").Value, 0.0},
		"text":        {sdk.Fact[string]{Name: "x"}.Is("", "").Value, ""},
		"nil list":    {sdk.Fact[[]string]{Name: "x"}.Is(nil, "").Value, []any{}},
		"nil map":     {sdk.Fact[map[string]int]{Name: "x"}.Is(nil, "").Value, map[string]any{}},
		"nil pointer": {sdk.Fact[*bool]{Name: "x"}.Is(nil, "").Value, nil},
		"inside": {sdk.Fact[[]port]{Name: "x"}.Is([]port{{Peers: []string{"a"}}}, "").Value, []any{
			map[string]any{"name": nil, "lanes": []any{}, "peers": []any{"a"}}}},
	}
	for name, tt := range tests {
		if !reflect.DeepEqual(tt.fact, tt.want) {
			t.Errorf("%s: got %#v, want %#v", name, tt.fact, tt.want)
		}
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
	names := strings.NewReplacer("OTHER", other, "FOLDER", t.TempDir())
	for line := range strings.Lines(strings.Trim(`
		                                     | 64 | describe          |
		help                                 | 0  | detect            |
		describe                             | 0  | "name": "toy"     |
		describe -o json                     | 0  | "name": "toy"     |
		describe -o lock                     | 0  | "sha256": "       |
		detect -o lock                       | 64 |                   | lock
		describe -o lock --program OTHER     | 0  | "sha256": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" |
		describe -o lock --program OTHER.gone | 1  |                   | no such file
		describe --program OTHER             | 64 |                   | --program is for describe -o lock
		detect --root FOLDER                 | 0  | "devices": null   |
		detect -o json                       | 0  | "devices": null   |
		detect --config {"x":1}              | 1  | no such attribute |
		detect --config nonsense             | 64 |                   | want a JSON object
		detect --root /does/not/exist        | 1  |                   | does/not/exist
		detct                                | 64 |                   | no command "detct"
		package --program OTHER              | 1  |                   | it is not an ELF program
		describe --out x                     | 64 |                   | not defined: -out
		describe --help                      | 0  | detect            |
		detect -o yaml                       | 64 |                   | yaml
	`, "\n\t")) {
		cells := strings.Split(line, "|") // arguments, status, and parts of standard output and standard error
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		var stdout, stderr strings.Builder
		status := fmt.Sprint(sdk.Command(toy(nil), strings.Fields(names.Replace(cells[0])), &stdout, &stderr))
		if status != cells[1] || !strings.Contains(stdout.String(), cells[2]) || !strings.Contains(stderr.String(), cells[3]) {
			t.Errorf("%q: got %s\n%s%s\nwant %q", cells[0], status, stdout.String(), stderr.String(), cells[1:])
		}
	}
}

// TestNotReady calls a Detect again that is not ready: until it is, until its limit, and until the deadline.
func TestNotReady(t *testing.T) {
	root, err := sdk.NewRoot(t.TempDir())
	must(t, err)
	tests := map[string]struct {
		ready    int // the call that is ready
		limit    time.Duration
		deadline time.Duration
		warning  string
	}{
		"ready at once":       {1, time.Minute, time.Minute, ""},
		"ready later":         {3, time.Minute, time.Minute, ""},
		"until its limit":     {99, 600 * time.Millisecond, time.Minute, "the driver loads"},
		"before its deadline": {99, time.Minute, 700 * time.Millisecond, "the driver loads"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			calls := 0
			d := toy(func(m *sdk.Machine) error {
				calls++
				m.Recommend("toy.example/calls", fmt.Sprint(calls), "")
				if calls < tt.ready {
					m.NotReady(tt.limit, "the driver %s", "loads")
				}
				return nil
			})
			var a contract.Answer
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				var err error
				a, err = sdk.Detect(ctx, d, nil, nil, root)
				must(t, err)
			})

			if len(a.Labels) != 1 || a.Labels[0].Value != fmt.Sprint(calls) {
				t.Errorf("got labels %v after %d calls, want that of the last one", a.Labels, calls)
			}
			if tt.warning == "" && (calls != tt.ready || len(a.Warnings) > 0) {
				t.Errorf("got %d calls and %q, want %d without a warning", calls, a.Warnings, tt.ready)
			}
			if tt.warning != "" && (calls < 2 || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], tt.warning)) {
				t.Errorf("got %d calls and %q, want several, and why it was not ready", calls, a.Warnings)
			}
		})
	}
}

// TestSetName: a later name changes the model that came from the one before, and none that the detector set.
func TestSetName(t *testing.T) {
	for model, want := range map[string]string{"": "MI300X", "set": "set", "Instinct": "MI300X"} {
		d := &sdk.Device{Vendor: "amd", Model: model, Evidence: map[string]string{}}
		if model == "Instinct" {
			d.Model = ""
			d.SetName("AMD Instinct", "pci.ids")
		}
		d.SetName("AMD MI300X", "/sys/x")
		if d.Name != "AMD MI300X" || d.Model != want || d.Evidence["name"] != "/sys/x" || (d.Evidence["model"] == "/sys/x") != (model != "set") {
			t.Errorf("model %q: got %q, %q, evidence %v; want the model %q", model, d.Name, d.Model, d.Evidence, want)
		}
	}
}

// TestDevice reads below a device's folder: what cannot be read is a warning and stays unknown.
func TestDevice(t *testing.T) {
	root := detectortest.Root(t, `
pci 0000:17:00.0 1234:0001 abcd:0002 120000 toy numa=1
@0000:17:00.0/product_name = Toy One X
@0000:17:00.0/memory_mib = 0x400
@0000:17:00.0/huge = 9223372036854775807
@0000:17:00.0/words = a b
@0000:17:00.0/empty = ""
@0000:17:00.0/sriov_totalvfs = 0
@0000:17:00.0/folder/
/dev/toy0 = 7
`)
	d := toy(func(m *sdk.Machine) error {
		card := m.Devices[0]
		card.Kind, card.Vendor = "npu", "toy"
		card.ReadName("product_name")
		card.ReadMemory("memory_mib", 1<<20)
		card.ReadMemory("huge", 1<<20)
		card.ReadAttribute("words", "words")
		card.ReadAttribute("empty", "empty")
		card.ReadAttribute("absent", "absent")
		card.ReadOptional("absent", "absent")
		card.ReadOptional("folder", "folder")
		card.ReadSRIOV()
		if n := card.Int("/dev/toy0"); n != 7 {
			t.Errorf("/dev/toy0: got %d, want 7", n)
		}
		if n := card.Int("words"); n != 0 {
			t.Errorf("words: got %d, want 0", n)
		}
		if got := card.Glob("mem*"); len(got) != 1 || card.Text(got[0]) != "0x400" {
			t.Errorf("mem*: got %q, want the path of memory_mib", got)
		}
		m.Recommend("toy.example/model", card.Model+"!", "")
		m.Recommend("toy.example/absent", "", "")
		m.Add(card)
		for range 2 * contract.MaxNotes {
			m.Warn("again")
		}
		return nil
	})
	d.Match = sdk.Match{PCIIDs: []string{"1234:*"}}
	a := detectortest.Detect(t, d, root, nil)

	const folder = "/sys/bus/pci/devices/0000:17:00.0/"
	want := contract.Device{
		Address: "0000:17:00.0", Name: new("Toy One X"), Kind: new("npu"), Vendor: new("toy"), Model: new("One X"),
		Driver: new("toy"), MemoryBytes: new(uint64(1 << 30)), NUMA: new(1), SRIOVTotalVFs: new(0),
		Attributes: map[string]string{"words": "a b"},
		Evidence: map[string]string{
			"name": folder + "product_name", "model": folder + "product_name", "memory_bytes": folder + "memory_mib",
			"attributes.words": folder + "words", "sriov_total_vfs": folder + "sriov_totalvfs",
		},
	}
	if len(a.Devices) != 1 || !reflect.DeepEqual(a.Devices[0], want) {
		t.Errorf("got devices %+v, want %+v", a.Devices, want)
	}
	warnings := []string{
		"0000:17:00.0: empty: it is empty",
		"0000:17:00.0: absent: no such file or directory",
		"0000:17:00.0: folder: is a directory",
		`0000:17:00.0: words: invalid number "a b"`,
		"again",
	}
	if len(a.Warnings) != contract.MaxNotes || !reflect.DeepEqual(a.Warnings[:len(warnings)], warnings) {
		t.Errorf("got %d warnings %q, want %d that begin with %q", len(a.Warnings), a.Warnings, contract.MaxNotes, warnings)
	}
	labels := []contract.Label{{Key: "toy.example/model", Value: "One-X"}}
	if !reflect.DeepEqual(a.Labels, labels) {
		t.Errorf("got labels %+v, want %+v", a.Labels, labels)
	}
}

// TestPackage checks what nfpm is called with, by a program that replaces it.
func TestPackage(t *testing.T) {
	bin, out := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	d := toy(nil)
	d.Doc = "Toys."
	d.Package = sdk.Package{Maintainer: "Toy <toy@toy.example>", License: "MIT", Devices: []string{"char-toy"}}
	run := func() (status int, text string) {
		var b strings.Builder
		status = sdk.Command(d, []string{"package", "--out", out}, &b, &b)
		return status, b.String()
	}
	if status, text := run(); status != 1 || !strings.Contains(text, "go install github.com/goreleaser/nfpm") {
		t.Errorf("without nfpm: got %d, %q; want 1 and how to install it", status, text)
	}

	script := "#!/bin/sh\nfor x in \"$@\"; do printf '%s\\n' \"$x\"; done >>" + out + "/calls\n" +
		"read -r config <\"$3\"; printf '%s' \"$config\" >" + out + "/config; read -r x <\"${3%/*}/devices.conf\"\n"
	must(t, os.WriteFile(filepath.Join(bin, "nfpm"), []byte(script), 0o755))
	if status, text := run(); status != 0 {
		t.Fatalf("got %d, %q; want 0", status, text)
	}
	calls, err := os.ReadFile(filepath.Join(out, "calls"))
	must(t, err)
	for _, want := range []string{"--packager\ndeb\n", "--packager\nrpm\n", "--target\n" + out + "/\n"} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("got the calls %q, want %q in them", calls, want)
		}
	}

	var config struct {
		Name, Arch, Maintainer string
		Contents               []struct{ Src, Dst string }
	}
	text, err := os.ReadFile(filepath.Join(out, "config"))
	must(t, err)
	must(t, json.Unmarshal(text, &config))
	var paths []string
	for _, c := range config.Contents {
		paths = append(paths, c.Dst)
	}
	wantPaths := []string{
		"/usr/lib/prelet/detectors/toy",
		"/usr/lib/prelet/detectors.lock.d/toy.json",
		"/usr/lib/systemd/system/prelet.service.d/50-detector-toy.conf",
		"/usr/lib/systemd/system/prelet-apply.service.d/50-detector-toy.conf",
		"/usr/lib/systemd/system/prelet-check.service.d/50-detector-toy.conf",
	}
	if config.Name != "prelet-detector-toy" || config.Arch != runtime.GOARCH ||
		config.Maintainer != d.Package.Maintainer || !reflect.DeepEqual(paths, wantPaths) {
		t.Errorf("got nfpm's configuration %s, want %s of %s with %q", text, "prelet-detector-toy", runtime.GOARCH, wantPaths)
	}
	lock, err := os.ReadFile(filepath.Join(out, "toy.json"))
	must(t, err)
	var described strings.Builder
	if sdk.Command(d, []string{"describe", "-o", "lock"}, &described, io.Discard); string(lock) != described.String() {
		t.Errorf("got the lock %s, want that of describe -o lock: %s", lock, described.String())
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
		c := exec.CommandContext(t.Context(), program, asToy)
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
		d := toy(nil)
		d.Facts = []sdk.Declaration{test.declaration}
		_, err := sdk.Describe(d)
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

package hardware

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
)

func TestParseTOML(t *testing.T) {
	const document = "a = 1\n[x.\"y.z\".'w']\nb = \"q\\\"\\\\\" # c\nc = '''\nb = \"hidden\"\n'''\nd = [\"1\", " +
		"'2', # two\n 3]\n" +
		"e.f = true\ng = {h = \"i\"}\n[[t]]\nb = 2\n"
	got, err := parseTOML([]byte(document))
	must(t, err)
	for path, want := range map[string][]string{
		"a": {"1"}, "x|y.z|w|b": {`q"\`}, "x|y.z|w|c": {"b = \"hidden\"\n"}, "x|y.z|w|d": {"1", "2", "3"},
		"x|y.z|w|e|f": {"true"}, "x|y.z|w|g|h": {"i"}, "t": {}, "t|b": nil, "x|y.z": nil, "a|b": nil, "b": nil,
	} {
		if diff := cmp.Diff(want, got.list(strings.Split(path, "|")...)); diff != "" {
			t.Errorf("values at %s differ (-want +got):\n%s", path, diff)
		}
	}
}

func TestMergeTOML(t *testing.T) {
	parse := func(text string) table {
		values, err := parseTOML([]byte(text))
		must(t, err)
		return values
	}
	got := parse("a = 1\nb.c = 1\nb.d = 1\nx.y = 1\nz = 1\n")
	got.merge(parse("b.c = 2\nb.e = 2\nx = 2\nz.y = 2\n"))
	want := parse("a = 1\nb.c = 2\nb.d = 1\nb.e = 2\nx = 2\nz.y = 2\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the merged document differs (-want +got):\n%s", diff)
	}
}

// deepTOML are documents of the largest size that is read, with one key as deep as there is room for.
var deepTOML = map[string]string{
	"a dotted key": strings.Repeat("a.", configLimit/2-4) + "a = 1\n",
	"a header":     "[" + strings.Repeat("a.", configLimit/2-4) + "a]\n",
}

// The runtime reads a file with a deep key, and so does prelet, in the time of any file of that size.
func TestDeepTOMLIsRead(t *testing.T) {
	for name, text := range deepTOML {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), mostParsing)
			defer cancel()
			facts, err := Detect(ctx, ReadOptions{Tree: tree(t, map[string]string{"etc/containerd/config.toml": text})})
			must(t, err)
			const want = "unix:///run/containerd/containerd.sock"
			if got := value(facts.Runtime.Endpoint); got != want {
				t.Errorf("endpoint: got %v and the reason %q, want %s", got, why(facts, "runtime"), want)
			}
		})
	}
}

// The caller of RuntimeOf gets nothing that is half read.
func TestRuntimeOfEndsWithItsContext(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/containerd/config.toml"), "")
	if got := value(RuntimeOf(context.Background(), root).Name); got != "containerd" {
		t.Errorf("with time: got the name %v, want containerd", got)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if got := RuntimeOf(ended, root); got != (tape.Runtime{}) {
		t.Errorf("after the context has ended: got %+v, want nothing", got)
	}
}

// If a runtime cannot read its own configuration, prelet does not read it either: a note names the file and the line,
// without its text.
func TestInvalidTOMLIsNoted(t *testing.T) {
	const config = "etc/containerd/config.toml"
	for name, tt := range map[string]struct{ text, want string }{
		"a large file": {strings.Repeat("#", configLimit+1), "larger than 128 KiB, which is the limit"},
		"deep arrays":  {"x = " + strings.Repeat("[", configLimit/2), "not valid TOML: line 1, column 10005"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, ReadOptions{Tree: tree(t, map[string]string{config: tt.text})})
			if facts.Runtime.Endpoint != nil {
				t.Errorf("endpoint: got %v, want none", *facts.Runtime.Endpoint)
			}
			if got, want := why(facts, "runtime.name"), "/"+config+" is "+tt.want; got != want {
				t.Errorf("reason of runtime.name: got %q, want %q", got, want)
			}
			if list := degraded(facts); len(list) > 0 {
				t.Errorf("degraded: got %v, want nothing", list)
			}
		})
	}
}

func FuzzParseTOML(f *testing.F) {
	f.Add("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  x = [\"a\",\n'b']\n")
	f.Add("a = '''\n")
	f.Add("a = [")
	for _, text := range deepTOML {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > configLimit {
			t.Skip("readTOML does not parse a file of this size")
		}
		begin := time.Now()
		values, err := parseTOML([]byte(s))
		values.merge(values)
		_, _ = values.list("a"), values.text("", "a", "b", "c")
		if took := time.Since(begin); took > mostParsing {
			t.Errorf("%d bytes: got a result after %v, want it within %v", len(s), took, mostParsing)
		}
		if err != nil && values != nil {
			t.Errorf("got %q and %v, want values or an error", values, err)
		}
	})
}

// mostParsing is how long one file may take: half a second is the most that was seen, on a machine that does nothing
// else.
const mostParsing = 30 * time.Second

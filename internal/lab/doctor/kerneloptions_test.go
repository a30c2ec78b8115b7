package doctor

import (
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// writeFiles writes files below a new folder.
func writeFiles(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	must(t, os.CopyFS(root, tree))

	return root
}

// pack returns a text as /proc/config.gz has it.
func pack(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())

	return out.String()
}

// TestReadKernels reads the configuration of a kernel, and does not take garbage for one.
func TestReadKernels(t *testing.T) {
	const text = "#\n# Linux/x86 6.12\n#\nCONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_D=n\nCONFIG_E=\"y\"\nCONFIG_F=17\r\n"
	const boot, modules = "boot/config-6.12.1", "lib/modules/6.12.1/config"
	packed := pack(t, text)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no configuration", nil, ""},
		{"of the running kernel", map[string]string{"proc/config.gz": packed}, "CONFIG_A CONFIG_B"},
		{"in /boot", map[string]string{boot: text}, "CONFIG_A CONFIG_B"},
		{"of another kernel", map[string]string{"boot/config-6.12.2": text}, ""},
		{"with its modules", map[string]string{modules: text}, "CONFIG_A CONFIG_B"},
		{"the running kernel comes first", map[string]string{"proc/config.gz": packed, boot: "CONFIG_X=y\n"}, "CONFIG_A CONFIG_B"},
		{"empty", map[string]string{boot: "", modules: "CONFIG_X=y"}, "CONFIG_X"},
		{"garbage", map[string]string{"proc/config.gz": "\x1f\x8b garbage", boot: "\x00\xff=y\nCONFIG\n=y\n"}, ""},
		{"cut short", map[string]string{"proc/config.gz": packed[:len(packed)-9]}, ""},
		{"a bomb", map[string]string{"proc/config.gz": pack(t, "CONFIG_A=y\n"+strings.Repeat("\x00", 64<<20))}, ""},
		{"huge", map[string]string{boot: "CONFIG_A=y\n" + strings.Repeat("x", maxKernelConfig)}, ""},
	} {
		files := map[string]string{"proc/sys/kernel/osrelease": "6.12.1\n"}
		maps.Copy(files, c.files)
		kernels := ReadKernels(nodefile.Root(writeFiles(t, files)), true)
		got := strings.Join(slices.Sorted(maps.Keys(kernels["6.12.1"])), " ")
		if got != c.want || c.want == "" && len(kernels) > 0 {
			t.Errorf("%s: got %q (%d), want %q", c.name, got, len(kernels), c.want)
		}
	}
}

// TestReadKernelsOfImage reads each kernel of an image, and none of the machine that builds it.
func TestReadKernelsOfImage(t *testing.T) {
	root := writeFiles(t, map[string]string{
		"proc/config.gz":            pack(t, "CONFIG_X=y\n"),
		"proc/sys/kernel/osrelease": "5\n",
		"lib/modules/6.1/config":    "CONFIG_A=y\n",
		"lib/modules/6.12/modules":  "",
		"boot/config-6.12":          "CONFIG_B=m\n",
		"lib/modules/7/modules":     "",
	})
	got := ReadKernels(nodefile.Root(root), false)
	want := map[string]map[string]bool{"6.1": {"CONFIG_A": true}, "6.12": {"CONFIG_B": true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestReadKernelsOfFIFO checks that a FIFO without a writer delays nothing.
func TestReadKernelsOfFIFO(t *testing.T) {
	root := writeFiles(t, map[string]string{"proc/sys/kernel/osrelease": "6\n", "lib/modules/6/config": "CONFIG_A=y\n"})
	must(t, os.Mkdir(filepath.Join(root, "boot"), 0o755))
	must(t, syscall.Mkfifo(filepath.Join(root, "boot/config-6"), 0o644))
	if got := ReadKernels(nodefile.Root(root), true); !got["6"]["CONFIG_A"] {
		t.Errorf("got %v, want the options of the next file", got)
	}
}

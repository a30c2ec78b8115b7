package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// newImage makes a root folder with files.
func newImage(t *testing.T, files map[string]string) nodefile.Root {
	t.Helper()
	root := t.TempDir()
	osfile.WriteTree(t, root, files)
	if files["/usr/bin/kubelet"] != "" {
		if err := os.Chmod(root+"/usr/bin/kubelet", 0o755); err != nil {
			t.Fatal(err)
		}
	}

	return nodefile.Root(root)
}

const (
	kubeletUnit = "[Service]\nExecStart=/usr/bin/kubelet\n"
	gateDropIn  = "[Service]\nEnvironmentFile=/run/prelet/kubelet.env\n"
	units       = "/usr/lib/systemd/system/"
	wants       = "/etc/systemd/system/multi-user.target.wants/"
)

// installed returns the files of an image with all that a boot needs.
func installed() map[string]string {
	return map[string]string{
		units + "kubelet.service":                       kubeletUnit,
		units + "kubelet.service.d/05-prelet-gate.conf": gateDropIn,
		units + "prelet.service":                        "[Service]\n",
		units + "prelet-verify.service":                 "[Service]\n",
		wants + "kubelet.service":                       "-> " + units + "kubelet.service",
		wants + "prelet.service":                        "-> " + units + "prelet.service",
		wants + "prelet-verify.service":                 "-> " + units + "prelet-verify.service",
		"/usr/bin/kubelet":                              "\x7fELF",
		"/etc/passwd":                                   "prelet-detector-1:x:999:999::/:/bin/false\n",
	}
}

func examine(root nodefile.Root) []check.Finding {
	return Examine(Observations{Image: &ImageInput{
		Root:    root,
		Kubelet: image.Kubelet{Path: "/usr/bin/kubelet", Version: "v1.36.3"},
		Unit:    "kubelet.service",
		Runtime: "unix:///run/containerd/containerd.sock",
		Found:   image.Find(image.Subject{Root: root, Now: time.Now}),
	}})
}

// Each row breaks one part of an image, and names the finding. An image with every part has none.
func TestImage(t *testing.T) {
	const kubeletFile = units + "kubelet.service"
	for name, c := range map[string]struct {
		change map[string]string // "" removes the file
		check  string
		state  check.Level
		text   string
	}{
		"complete":         {nil, "unit", check.OK, "waits at the gate"},
		"no unit":          {map[string]string{kubeletFile: ""}, "unit", check.Problem, "cannot find"},
		"no program":       {map[string]string{"/usr/bin/kubelet": ""}, "unit", check.Problem, "/usr/bin/kubelet does not exist"},
		"no prelet":        {map[string]string{units + "prelet.service": ""}, "unit", check.Problem, "prelet.service"},
		"masked":           {map[string]string{"/etc/systemd/system/kubelet.service": "-> /dev/null"}, "unit", check.Problem, "masked"},
		"not enabled":      {map[string]string{wants + "prelet.service": ""}, "unit", check.Warning, "not enabled"},
		"no gate":          {map[string]string{kubeletFile + ".d/05-prelet-gate.conf": ""}, "unit", check.Problem, "without waiting"},
		"gate removed":     {map[string]string{"/etc/systemd/system/kubelet.service.d/20.conf": "[Service]\nEnvironmentFile=\n"}, "unit", check.Problem, "without waiting"},
		"gate masked":      {map[string]string{"/etc/systemd/system/kubelet.service.d/05-prelet-gate.conf": "-> /dev/null"}, "unit", check.Problem, "without waiting"},
		"gate is optional": {map[string]string{kubeletFile + ".d/05-prelet-gate.conf": "[Service]\nEnvironmentFile=-/run/prelet/kubelet.env\n"}, "unit", check.Problem, "without waiting"},
		"no users":         {map[string]string{"/etc/passwd": ""}, "users", check.Warning, "prelet-detector-1"},
		"users unread":     {map[string]string{"/etc/passwd": "-> /etc/passwd"}, "users", check.Unread, "cannot be read"},
		"unit unread":      {map[string]string{kubeletFile: "-> kubelet.service"}, "unit", check.Unread, "cannot be read"},
		"a link to itself": {map[string]string{"/etc/prelet": "-> prelet"}, "permissions", check.Unread, "/etc/prelet cannot be examined"},
		"an id":            {map[string]string{"/etc/machine-id": "1\n"}, "identity", check.Warning, "/etc/machine-id"},
		"a token":          {map[string]string{"/etc/credstore/bootstrap-token": "abcdef.0123456789abcdef"}, "secrets", check.Warning, "bootstrap-token"},
		"a generation":     {map[string]string{"/var/lib/prelet/generations": "x"}, "state", check.Warning, "generations"},
		"pulled images":    {map[string]string{"/var/lib/kubelet/image_manager/pulled/sha256-1": "{}"}, "state", check.Warning, "image_manager"},
		"a large file":     {map[string]string{"/etc/kubernetes/admin.conf": strings.Repeat("x", 16<<20+1)}, "secrets", check.Unread, "cannot look"},
		"hardware":         {nil, "hardware", check.Skipped, "running machine"},
	} {
		t.Run(name, func(t *testing.T) {
			files := installed()
			for file, text := range c.change {
				files[file] = text
				if text == "" {
					delete(files, file)
				}
			}
			found := examine(newImage(t, files))
			isFound := slices.ContainsFunc(found, func(f check.Finding) bool {
				hasStep := f.State == check.OK || f.State == check.Skipped || f.Do != ""
				return f.Check == c.check && f.State == c.state && strings.Contains(f.Summary, c.text) && hasStep
			})
			if !isFound {
				t.Errorf("got %+v; want a finding of %s, %s, with %q and a next step", found, c.check, c.state, c.text)
			}
			for _, f := range found {
				if f.Check == c.check && f.State == check.OK && c.state != check.OK {
					t.Errorf("got %+v; want no ok next to a worse finding", f)
				}
				if c.change == nil && (f.State == check.Problem || f.State == check.Warning || f.State == check.Unread) {
					t.Errorf("complete image: got %+v; want ok or skipped", f)
				}
			}
		})
	}
}

// A version that the kubelet itself contradicts is refused: the statement would be wrong, and the site checked for
// another kubelet.
func TestKubeletVersion(t *testing.T) {
	for given, want := range map[string]check.Level{"1.36": check.OK, "v1.36.9": check.OK, "1.35": check.Problem} {
		found := Examine(Observations{Image: &ImageInput{
			Root:     newImage(t, installed()),
			Kubelet:  image.Kubelet{Path: "/usr/bin/kubelet", Version: given},
			Reported: "v1.36.3",
		}})
		isWanted := func(f check.Finding) bool { return f.Check == "kubelet" && f.State == want }
		if !slices.ContainsFunc(found, isWanted) {
			t.Errorf("--kubelet-version %s of a kubelet v1.36.3: got %+v; want %s", given, found, want)
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

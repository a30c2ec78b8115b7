// Package scenario describes the steps of the sweep: the files from before prelet, earlier generations, and the step
// that is killed. The writer executes a scenario and the test checks the result, independently of each other.
package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
)

// Canaries are in each secret of earlier generations and of the killed one.
const (
	OldSecret = "canary-of-an-earlier-generation"
	NewSecret = "canary-of-the-killed-generation"
)

// File is a file that another program wrote.
type File struct {
	Path, Content string
	Mode          os.FileMode
	UID, GID      int
	Xattrs        map[string]string
}

// Scenario is one previous state and one step.
type Scenario struct {
	Name    string
	Foreign []File
	Earlier []generation.Proposal // committed and judged good, in this order
	Edits   []File                // made by somebody after that
	Next    *generation.Proposal  // the step: this is committed,
	Back    int                   // or, with Next nil, one goes back to this generation
	Keep    int                   // generations that stay
}

// All are the scenarios of the sweep.
func All() []Scenario {
	update := first()
	return []Scenario{
		{Name: "fresh node", Foreign: foreign(), Next: new(first()), Keep: 10},
		{
			Name:    "update",
			Foreign: foreign(),
			Earlier: []generation.Proposal{update},
			Edits:   edits(),
			Next:    new(second()),
			Keep:    10,
		},
		{
			Name:    "removal",
			Foreign: foreign(),
			Earlier: []generation.Proposal{update, second()},
			Next:    new(third()),
			Keep:    1,
		},
		{
			Name:    "rollback",
			Foreign: foreign(),
			Earlier: []generation.Proposal{update, second()},
			Back:    1,
			Keep:    10,
		},
		{
			Name:    "rollback to before prelet",
			Foreign: foreign(),
			Earlier: []generation.Proposal{update, second()},
			Edits:   edits(),
			Back:    0,
			Keep:    10,
		},
	}
}

func Named(name string) (Scenario, error) {
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q", name)
}

func foreign() []File {
	return []File{
		{Path: "/etc/kubernetes/pki/ca.crt", Content: "the CA of before\n", Mode: 0o644},
		{
			Path:    "/etc/kubernetes/extra.conf",
			Content: "as the image had it\n",
			Mode:    0o640,
			UID:     7,
			GID:     8,
			Xattrs:  map[string]string{"user.origin": "image"},
		},
		{
			Path:    "/var/lib/kubelet/config.yaml",
			Content: "maxPods: 5\n",
			Mode:    0o600,
			GID:     12,
			Xattrs:  map[string]string{"user.note": "kept"},
		},
		{
			Path:    "/etc/kubernetes/manifests/etcd.yaml",
			Content: "none of ours\n",
			Mode:    0o604,
			UID:     3,
			Xattrs:  map[string]string{"user.note": "foreign"},
		},
		{Path: "/etc/kubernetes/.prelet-like", Content: "none of ours either\n", Mode: 0o644},
	}
}

func edits() []File {
	return []File{
		{Path: "/etc/kubernetes/pki/ca.crt", Content: "edited by a person\n", Mode: 0o644},
	}
}

func proposal(id string, targets ...generation.Target) generation.Proposal {
	spec := activation.Spec{Start: activation.Start{Rollback: true}}
	encoded, err := spec.Encode()
	if err != nil {
		panic(fmt.Sprintf("a spec without a field does not encode: %v", err))
	}
	return generation.Proposal{PlanID: id, Targets: targets, Blobs: map[string][]byte{
		activation.SpecBlob: encoded,
		"plan.json":         bytes.Repeat([]byte(`{"plan":"`+id+`"}`), 300),
	}}
}

func file(path, content string) generation.Target {
	return generation.Target{
		Path:    path,
		Kind:    generation.File,
		Content: []byte(content),
		Mode:    0o644,
		UID:     generation.Keep,
		GID:     generation.Keep,
	}
}

func with(t generation.Target, change func(*generation.Target)) generation.Target {
	change(&t)
	return t
}

func secret(canary string) generation.Target {
	return with(
		file("/etc/kubernetes/bootstrap-kubelet.conf", "token: "+canary+"\n"),
		func(t *generation.Target) { t.Secret, t.Mode = true, generation.Keep },
	)
}

func first() generation.Proposal {
	return proposal(
		"first",
		generation.Target{
			Path: "/etc/kubernetes/extra.d",
			Kind: generation.Dir,
			Mode: 0o750,
			UID:  generation.Keep,
			GID:  generation.Keep,
		},
		secret(OldSecret),
		file("/etc/kubernetes/pki/ca.crt", "the CA of the first generation\n"),
		with(
			file("/etc/kubernetes/extra.conf", "first\n"),
			func(t *generation.Target) { t.Mode = generation.Keep },
		),
		file("/etc/kubernetes/extra.d/10-first.conf", "first\n"),
		with(
			file("/var/lib/kubelet/config.yaml", "maxPods: 110\n"),
			func(t *generation.Target) { t.Mode = generation.Keep },
		),
		file("/opt/new/folder/tool.conf", "first\n"),
		file("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--v=1\"\n"),
	)
}

func second() generation.Proposal {
	return proposal(
		"second",
		secret(NewSecret),
		file("/etc/kubernetes/pki/ca.crt", "the CA of the second generation\n"),
		with(
			file("/etc/kubernetes/extra.conf", "second\n"),
			func(t *generation.Target) {
				t.Mode, t.UID, t.GID = 0o600, 21, 22
			},
		),
		// Only its mode.
		with(
			file("/var/lib/kubelet/config.yaml", "maxPods: 110\n"),
			func(t *generation.Target) { t.Mode = 0o640 },
		),
		file("/srv/second/only.conf", "second\n"),
		generation.Target{Path: "/etc/kubernetes/none.conf", Kind: generation.Absent},
		file("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--v=2\"\n"),
	)
}

// third declares almost nothing, so that created files are removed and earlier ones are restored.
func third() generation.Proposal {
	return proposal(
		"third",
		file("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--v=3\"\n"),
	)
}

// Lay puts files of others below a root, all with one old time.
func Lay(root string, files []File) error {
	old := time.Date(2020, 2, 3, 4, 5, 6, 7000, time.UTC)
	for _, f := range files {
		at := filepath.Join(root, f.Path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, []byte(f.Content), 0o600)
		}
		for k, v := range f.Xattrs {
			err = errors.Join(err, unix.Setxattr(at, k, []byte(v), 0))
		}
		err = errors.Join(
			err,
			os.Chown(at, f.UID, f.GID),
			os.Chmod(at, f.Mode),
			os.Chtimes(at, old, old),
		)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

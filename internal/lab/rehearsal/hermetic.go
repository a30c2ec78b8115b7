package rehearsal

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/lang"
)

// sampleCA is the CA of a test's cluster, where the test does not give one. Its key was thrown away.
//
//go:embed sample/ca.crt
var sampleCA string

// sampleConfig is the kubelet's configuration that `kubeadm init` writes to the cluster.
//
//go:embed sample/kubelet-config.yaml
var sampleConfig string

// NoRoot is the root of a node without files. It does not exist.
const NoRoot = "/nonexistent"

// SampleObjects returns the objects of the cluster of a test that gives none: those of a new cluster of kubeadm.
func SampleObjects() tape.Source {
	return probe.ObjectsOf("", map[string]map[string]string{
		"kube-system/kubelet-config": {"kubelet": sampleConfig},
	})
}

// HermeticNode answers for a node in a test: from its recorded hardware and the files below its root, and otherwise
// what docs/reference/tests.md lists. It asks neither this machine nor a network, and starts nothing.
type HermeticNode struct {
	Node    tape.Source // a probe.Live over recorded hardware and a root
	Objects tape.Source
	Locks   tape.Source // the locks in the site's folder
	Site    *lang.Site
}

// Ask implements tape.Source.
func (h HermeticNode) Ask(ctx context.Context, q tape.Question) tape.Answer {
	switch q.Kind {
	case tape.KindCredential:
		return existingCredential()
	case tape.KindVariable:
		return h.answerVariable(ctx, q)
	case tape.KindValidation:
		return tape.Validation.Answer(tape.ValidationAns{OK: true})
	case tape.KindTrust:
		return h.answerTrust(ctx, q)
	case tape.KindObject:
		return h.Objects.Ask(ctx, q)
	case tape.KindLock:
		return h.answerLock(ctx, q)
	case tape.KindDetector:
		req, _ := tape.Detector.Request(q)
		return noDetector(req.Name)
	case tape.KindNode:
		req, _ := tape.Node.Request(q)
		return tape.Node.Answer(tape.NodeAns{Name: req.Name})
	case tape.KindOwner:
		return tape.Owner.Answer(tape.OwnerAns{})
	case tape.KindTarget:
		return ownedByRoot(tape.Target, h.Node.Ask(ctx, q))
	case tape.KindOriginal:
		return ownedByRoot(tape.Original, h.Node.Ask(ctx, q))
	case tape.KindHardware, tape.KindKubelet, tape.KindAccepts, tape.KindServing, tape.KindFile, tape.KindExists,
		tape.KindDropIns, tape.KindDryRun, tape.KindConfigDump, tape.KindUnit, tape.KindLogind, tape.KindHost,
		tape.KindPackages, tape.KindManaged:
		return h.Node.Ask(ctx, q)
	}

	return tape.NoAdapter(q.Kind)
}

// ownedByRoot returns the state of a file with root as its owner.
func ownedByRoot[Req any](topic tape.Topic[Req, tape.TargetAns], a tape.Answer) tape.Answer {
	var state tape.TargetAns
	if a.Fault != nil || json.Unmarshal(a.Value, &state) != nil {
		return a
	}
	state.UID = 0
	state.GID = 0
	state.Owner = ""
	state.Own = false

	return topic.Answer(state)
}

// TimeOfRoot returns the time of all files below the root of a test, and the time at which certificates in it are
// checked: the result of a test must not depend on when it runs, or when its files were checked out.
func TimeOfRoot() time.Time { return time.Unix(0, 0) }

// CopyRoot copies the root of a test to a new folder, which the caller removes. A checkout has the owner and the umask
// of the user who made it: in the copy all folders and executable files have the mode 0755, and other
// files 0644.
func CopyRoot(root string) (string, error) {
	folder, err := os.MkdirTemp("", "prelet-test-root-*")
	if err != nil {
		return "", err
	}
	err = os.CopyFS(folder, os.DirFS(root))
	if err == nil {
		err = filepath.WalkDir(folder, setPlainMode)
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return "", err
	}

	return folder, nil
}

// setPlainMode is an fs.WalkDirFunc.
func setPlainMode(path string, d fs.DirEntry, err error) error {
	if err != nil || d.Type() == fs.ModeSymlink {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	isExecutable := info.Mode()&0o100 != 0
	if d.IsDir() || isExecutable {
		mode = 0o755
	}

	if err := os.Chmod(path, mode); err != nil { //nolint:gosec // the folder belongs to this program
		return err
	}

	return os.Chtimes(path, TimeOfRoot(), TimeOfRoot()) //nolint:gosec // the folder belongs to this program
}

func existingCredential() tape.Answer {
	return tape.Credential.Answer(tape.CredentialAns{Source: "credential"})
}

// answerVariable answers for a variable that the test does not give. A sensitive one without any value has an
// unreadable value.
func (h HermeticNode) answerVariable(ctx context.Context, q tape.Question) tape.Answer {
	a := h.Node.Ask(ctx, q)
	req, err := tape.Variable.Request(q)
	if err != nil || a.Code() != fault.Absent || !req.Sensitive {
		return a
	}

	v := h.Site.Variables[req.Name]
	if h.Site.Values[req.Name] != nil || v == nil || v.Default != nil {
		return a
	}
	return tape.Variable.Answer(tape.VariableAns{Source: "credential"})
}

// answerTrust returns the CA of the test, which must have the pins of the site, or the sample.
func (h HermeticNode) answerTrust(ctx context.Context, q tape.Question) tape.Answer {
	if a := h.Objects.Ask(ctx, q); a.Code() != fault.Absent {
		return a
	}

	req, err := tape.Trust.Request(q)
	if err != nil {
		return tape.Unreadable(q.Kind, err)
	}
	req.CACertHashes = nil
	return probe.ObjectsOf(sampleCA, nil).Ask(ctx, tape.Trust.Question(req))
}

func (h HermeticNode) answerLock(ctx context.Context, q tape.Question) tape.Answer {
	a := h.Locks.Ask(ctx, q)
	if a.Code() != fault.Absent {
		return a
	}
	req, _ := tape.Lock.Request(q)
	return noDetector(req.Name)
}

// noDetector is the answer of a detector that the test does not give: it is absent.
func noDetector(name string) tape.Answer {
	next := fmt.Sprintf("In a test, give one in the run: detectors = { %s = { facts = { … } } }", name)
	if near := NearDetector(name); near != "" {
		next = fmt.Sprintf("If you mean the detector %q that comes with prelet, correct the name in the site. %s",
			near, next)
	}

	return tape.Failure(fault.Absent,
		fmt.Sprintf("The reply of %q is missing, so it gives no facts and has state = \"absent\"", name), next)
}

// NearDetector returns the detector that comes with prelet and resembles another name, or "".
func NearDetector(name string) string {
	shipped := []string{"amd-gpu", "intel-net", "lldp", "mellanox", "nvidia", "ovs"}
	if near := texts.Nearest(name, shipped); near != name {
		return near
	}

	return ""
}

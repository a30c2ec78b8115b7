// Package probe answers the questions of a tape on a real node. Live.Ask has one function for each kind of question,
// which calls the package that reads the answer. The answers of cluster, hardware, files, systemd and credentials are
// made here only. Those of detectors and of dry runs, which start programs with a plan's input, are made by packages
// detector and dryrun, and passed in. It must not change the node: the packages below it write only temporary folders.
package probe

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// Credentials are the secrets that this process was given. The error of Read wraps fs.ErrNotExist for a missing one.
type Credentials interface {
	Read(name string) ([]byte, error)
}

// Sources name the sources of answers. The zero value is this machine.
type Sources struct {
	Root        string // the node's files are below it; "" is /
	Hardware    string // a recorded machine's tree; "" is this machine
	Objects     string // a cluster.Folder that replaces the cluster
	Site        *lang.Site
	Credentials Credentials
	Variables   map[string]Given  // --var and --var-file
	Redactor    *secret.Redactor  // gets every secret that is read; nil: only Live itself knows them
	Store       *generation.Store // nil if it could not be opened: without generations
	StateDir    string            // prelet's own folder, including the root
	// Detectors answers the questions "lock" and "detector". If it is nil, each detector counts as absent.
	Detectors tape.Source
	// Units is systemd, nil if it is not available.
	Units Units
	Unit  string // the kubelet's; "": not known
	// InhibitDelay asks logind for its InhibitDelayMaxSec, nil if that is not possible.
	InhibitDelay func(ctx context.Context) (time.Duration, error)
	// DryRun asks the kubelet's binary whether it accepts a plan; nil: it is not asked.
	DryRun func(context.Context, tape.DryRunReq) tape.Answer

	Now       func() time.Time
	OnRetry   func(Retry) // called before the cluster is asked again, and at each wait of detect-hw and detectors
	WaitClock func(ctx context.Context) error
}

// Retry is a failed attempt to reach the cluster, before the next attempt.
type Retry = cluster.Retry

// Live is the tape.Source of a real node: it answers each question by reading. Close it at the end.
type Live struct {
	o        Sources
	adapters tape.Adapters // see listAdapters
	client   *cluster.Client
	past     func() *tape.LastGood // memoised
	trusts   *tape.Tape            // of the identities of clusters

	// findCurrent returns the current generation, nil if there is none. It is memoised, because each plan has its own
	// Live.
	findCurrent func() (*generation.Info, error)

	// unitFile reads the files of the kubelet's unit. It is memoised.
	unitFile func() (systemd.UnitFile, error)

	patience  time.Duration // see Hurry; 0 for the site's retry
	nodeRetry time.Duration // between two reads of a Node that belongs to another machine

	secrets  secrets
	program  program
	identity identity
}

// secrets are the secrets that a Live has read.
type secrets struct {
	mu        sync.Mutex
	read      map[string][]byte             // by name
	learned   sync.Once                     // see LearnSecrets
	hidden    map[string]nodefile.FileState // by path: see Hidden
	isKeeping bool                          // see KeepSecrets
	kept      map[string]keptSecret
}

// program is the kubelet's program on the node.
type program struct {
	mu      sync.Mutex
	binary  **kubeletbin.Binary // nil until findKubelet has searched
	version string              // as answerKubelet has returned it
}

// identity has the contents of kubelet.conf about the node.
type identity struct {
	mu     sync.Mutex
	joined *tape.KubeletAns // nil until membership has read it
	denied *fault.Fault     // why this user may not read kubelet.conf; set with joined
	loose  *fault.Fault     // why kubelet.conf is not trusted: other users may change it; set with joined
}

// New returns a Live. It reads nothing before the first question.
func New(o Sources) *Live {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redactor == nil {
		o.Redactor = secret.NewRedactor()
	}

	l := &Live{
		o:         o,
		nodeRetry: 5 * time.Second,
		secrets: secrets{
			read:   map[string][]byte{},
			hidden: map[string]nodefile.FileState{},
			kept:   map[string]keptSecret{},
		},
	}
	l.past = sync.OnceValue(func() *tape.LastGood {
		if o.Store == nil {
			return nil
		}

		return tape.ReadLastGood(o.Store)
	})
	l.findCurrent = sync.OnceValues(func() (*generation.Info, error) {
		if o.Store == nil {
			return nil, nil
		}

		return o.Store.Current()
	})
	l.unitFile = sync.OnceValues(func() (systemd.UnitFile, error) {
		return systemd.ReadUnitFile(l.root(), o.Unit)
	})
	l.trusts = tape.NewTape(tape.Adapters{tape.Trust.Adapt(l.fetchTrust)})
	l.client = cluster.New(cluster.ClientConfig{
		Now:       o.Now,
		WaitClock: o.WaitClock,
		OnRetry:   o.OnRetry,
	})
	l.adapters = l.listAdapters()

	return l
}

// LastGood returns the recording of this node's last good generation, nil if there is none. It is read once.
func (l *Live) LastGood() *tape.LastGood {
	return l.past()
}

// Close closes connections.
func (l *Live) Close() {
	l.client.Close()
}

// Ask implements tape.Source. An answer that contains a secret of this node is replaced by a failure.
func (l *Live) Ask(ctx context.Context, q tape.Question) tape.Answer {
	a, isGiven := AnswerGiven(ctx, l.o.Variables, l.o.Site, q)
	if !isGiven {
		a = l.adapters.Ask(ctx, q)
	}

	return l.refuseSecrets(q, a)
}

// listAdapters returns one adapter for each kind of question.
func (l *Live) listAdapters() tape.Adapters {
	return tape.Adapters{
		tape.File.Adapt(l.awaitFile),
		tape.Credential.Adapt(l.answerCredential),
		tape.Variable.Adapt(l.answerVariable),
		tape.Validation.Adapt(l.answerValidation),
		tape.Trust.Adapt(l.answerTrust),
		tape.Object.Adapt(l.answerObject),
		tape.Hardware.Adapt(l.answerFacts),
		tape.Lock.Adapt(l.answerLock),
		tape.Detector.Adapt(l.answerDetector),
		tape.Kubelet.Adapt(l.answerKubelet),
		tape.Accepts.Adapt(l.answerAccepts),
		tape.DryRun.Adapt(l.answerDryRun),
		tape.ConfigDump.Adapt(answerConfigDump),
		tape.Exists.Adapt(l.answerExists),
		tape.DropIns.Adapt(l.answerDropIns),
		tape.Serving.Adapt(l.answerServing),
		tape.Original.Adapt(l.answerOriginal),
		tape.Target.Adapt(l.answerTarget),
		tape.Node.Adapt(l.answerNode),
		tape.Owner.Adapt(l.answerOwner),
		tape.Unit.Adapt(l.answerUnit),
		tape.Logind.Adapt(l.answerLogind),
		tape.Host.Adapt(l.answerHost),
		tape.Packages.Adapt(l.answerPackages),
		tape.Managed.Adapt(l.answerManaged),
	}
}

// current returns the current generation, nil if there is none or it cannot be read.
func (l *Live) current() *generation.Info {
	current, err := l.findCurrent()
	if err != nil {
		return nil
	}

	return current
}

// root returns the folder that contains the node's files.
func (l *Live) root() nodefile.Root {
	return nodefile.Root(l.o.Root)
}

// trimNewline removes one newline at the end of a text. Content that is not UTF-8, such as a key, stays as it is.
func trimNewline(b []byte) []byte {
	if !utf8.Valid(b) {
		return b
	}

	return bytes.TrimSuffix(b, []byte("\n"))
}

// Secret returns the content of a credential, without the newline that ends a text, for commit and for the cluster's
// token. A credential is read once, so that a whole run uses the same content even if its file changes. A missing
// credential is looked up again.
func (l *Live) Secret(name string) ([]byte, error) {
	variable, isVariable := strings.CutPrefix(name, variablePrefix)
	if isVariable && l.o.Variables[variable].IsFile {
		return []byte(l.o.Variables[variable].Text), nil
	}

	l.secrets.mu.Lock()
	defer l.secrets.mu.Unlock()

	if b, ok := l.secrets.read[name]; ok {
		return b, nil
	}
	if l.o.Credentials == nil {
		return nil, os.ErrNotExist
	}

	b, err := l.o.Credentials.Read(name)
	if err != nil {
		return l.keepSecret(name, err)
	}

	b = slices.Clip(trimNewline(b))
	l.o.Redactor.Add(b)
	l.secrets.read[name] = b

	return b, nil
}

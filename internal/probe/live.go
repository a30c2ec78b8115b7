// Package live answers the questions of a tape on a real node: one function for each question, which asks the room that
// knows. It is the only package that brings the cluster, the hardware, files, credentials and the installed kubelet to
// the tape. It reads, and never writes.
package live

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe/cluster"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/world"
)

// Credentials are the secrets that this process was given. Read wraps fs.ErrNotExist in its error for one that was not.
type Credentials interface {
	Read(name string) ([]byte, error)
}

// Options name the places that answers come from. The zero value is this machine.
type Options struct {
	Root        string // files of the node are below it; "" is /
	Hardware    string // a recorded machine's tree or archive; "" is this machine
	Objects     string // a cluster.Folder that replaces the cluster
	Site        *site.Site
	Credentials Credentials
	Variables   map[string]Given  // --var and --var-file
	Redactor    *value.Redactor   // learns every secret that is read
	Store       *generation.Store // nil if it could not be opened: there never was a generation
	StateDir    string            // prelet's own folder, with the root in front
	// Detectors answers the questions "lock" and "detector". If it is nil, each detector counts as absent.
	Detectors world.Source
	// Units is systemd; nil: none answers.
	Units     Units
	Now       func() time.Time
	OnRetry   func(Retry) // called before the cluster is asked again
	WaitClock func(ctx context.Context) error
}

// Retry is a failed attempt to reach the cluster that another attempt follows.
type Retry = cluster.Retry

// Live is a world.Source. Close it at the end.
type Live struct {
	o      Options
	client *cluster.Client
	past   func() *world.LastGood // memoised
	found  func() *program.Binary // memoised

	patience  time.Duration // 0: the site's retry
	nodeRetry time.Duration // until a Node of another machine is looked at again

	secrets sync.Mutex
	secret  map[string][]byte // those that were read, by name
	learned sync.Once         // see learnSecrets

	mu     sync.Mutex
	trusts map[string]*trustCall
	joined *world.KubeletAns // nil until membership has read it
	denied *fault.Fault      // why this user may not read kubelet.conf; set with joined
	loose  *fault.Fault      // why nobody is asked as kubelet.conf says: others may change it; set with joined
}

// New returns a Live that has read nothing yet.
func New(o Options) *Live {
	if o.Now == nil {
		o.Now = time.Now
	}

	l := &Live{o: o, trusts: map[string]*trustCall{}, secret: map[string][]byte{}, nodeRetry: 5 * time.Second}
	l.past = sync.OnceValue(func() *world.LastGood {
		if o.Store == nil {
			return nil
		}
		return world.ReadLastGood(o.Store)
	})
	l.found = sync.OnceValue(func() *program.Binary { return program.Find(o.Root, l.cacheFile()) })
	l.client = cluster.New(cluster.Options{Now: o.Now, WaitClock: o.WaitClock, OnRetry: o.OnRetry})
	return l
}

// LastGood returns the recording of this node's last good generation, nil if there is none. It is read once.
func (l *Live) LastGood() *world.LastGood { return l.past() }

// Close ends connections.
func (l *Live) Close() { l.client.Close() }

// Ask implements world.Source. What holds a secret of this node is no answer, whichever way it was read.
func (l *Live) Ask(ctx context.Context, q world.Question) world.Answer {
	return l.refuseSecrets(q, l.ask(ctx, q))
}

func (l *Live) ask(ctx context.Context, q world.Question) world.Answer {
	if a, ok := AnswerGiven(ctx, l.o.Variables, l.o.Site, q); ok {
		return a
	}

	switch q.Kind {
	case world.KindFile:
		return answer(q, world.File, func(r world.FileReq) world.Answer { return l.awaitFile(ctx, r) })
	case world.KindCredential:
		return answer(q, world.Credential, l.answerCredential)
	case world.KindVariable:
		return answer(q, world.Variable, l.answerVariable)
	case world.KindValidation:
		return answer(q, world.Validation, func(r world.ValidationReq) world.Answer { return l.answerValidation(ctx, r) })
	case world.KindTrust:
		return answer(q, world.Trust, func(r world.TrustReq) world.Answer { return l.answerTrust(ctx, r.Access) })
	case world.KindObject:
		return answer(q, world.Object, func(r world.ObjectReq) world.Answer { return l.answerObject(ctx, r) })
	case world.KindFacts:
		return answer(q, world.FactsOf, func(r world.FactsReq) world.Answer { return l.answerFacts(ctx, r) })
	case world.KindDetector:
		return answer(q, world.DetectorOf, func(r world.DetectorReq) world.Answer { return l.answerDetector(ctx, r.Name, q) })
	case world.KindLock:
		return answer(q, world.LockOf, func(r world.LockReq) world.Answer { return l.answerDetector(ctx, r.Name, q) })
	case world.KindKubelet:
		return answer(q, world.Kubelet, func(world.KubeletReq) world.Answer { return l.answerKubelet(ctx) })
	case world.KindAccepts:
		return answer(q, world.Accepts, func(world.AcceptsReq) world.Answer { return l.answerAccepts(ctx) })
	case world.KindExists:
		return answer(q, world.Exists, func(r world.ExistsReq) world.Answer { return l.answerExists(r.Path) })
	case world.KindDropIns:
		return answer(q, world.DropIns, l.answerDropIns)
	case world.KindServing:
		return answer(q, world.Serving, l.answerServing)
	case world.KindOriginal:
		return answer(q, world.Original, l.answerOriginal)
	case world.KindTarget:
		return answer(q, world.Target, l.answerTarget)
	case world.KindNode:
		return answer(q, world.NodeOf, func(r world.NodeReq) world.Answer { return l.answerNode(ctx, r) })
	case world.KindOwner:
		return answer(q, world.Owner, l.answerOwner)
	case world.KindUnit:
		return answer(q, world.UnitOf, func(r world.UnitReq) world.Answer { return l.answerUnit(ctx, r) })
	case world.KindManaged:
		return answer(q, world.Managed, func(world.ManagedReq) world.Answer { return l.answerManaged() })
	}
	return world.NoAdapter(q.Kind)
}

// answer decodes the request of a question and calls f with it.
func answer[Req, Ans any](q world.Question, t world.Topic[Req, Ans], f func(Req) world.Answer) world.Answer {
	r, err := t.Request(q)
	if err != nil {
		return world.Unreadable(q.Kind, err)
	}
	return f(r)
}

// root returns the folder that the node's files are below.
func (l *Live) root() nodefile.Root { return nodefile.Root(l.o.Root) }

// Secret returns the content of a credential, without one newline at its end, for commit and for the cluster's token. A
// credential is read once: all of a run sees the same content, even if its file changes. That there is none is not
// kept.
func (l *Live) Secret(name string) ([]byte, error) {
	if variable, ok := strings.CutPrefix(name, variablePrefix); ok && l.o.Variables[variable].IsFile {
		return []byte(l.o.Variables[variable].Text), nil
	}
	if l.o.Credentials == nil {
		return nil, os.ErrNotExist
	}
	l.secrets.Lock()
	defer l.secrets.Unlock()
	if b, ok := l.secret[name]; ok {
		return b, nil
	}

	b, err := l.o.Credentials.Read(name)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	if l.o.Redactor != nil {
		l.o.Redactor.Add(b)
	}
	l.secret[name] = slices.Clip(b)
	return l.secret[name], nil
}

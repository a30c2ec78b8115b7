// Package live answers questions on a real node: it is the only room that brings the cluster, the hardware, files,
// credentials and the kubelet at hand to the tape. It reads; it never writes.
package live

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/cluster"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/kubelet/program"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// Credentials are the secrets that this process was given.
type Credentials interface {
	Read(name string) ([]byte, error)
}

// Options say where a node is looked for. The zero value is this machine.
type Options struct {
	Root        string // files and targets stand below it; "" is /
	Hardware    string // a recorded machine's tree or archive; "" is this machine
	Objects     string // a folder with ConfigMaps and the CA in place of a cluster
	Site        *site.Site
	Credentials Credentials
	Variables   map[string]string // --var
	Redactor    *value.Redactor   // learns every secret that is read
	Store       *generation.Store // nil: there never was a generation
	StateDir    string            // prelet's own folder, the root included
	// Detectors answers the questions "lock" and "detector"; nil: nobody does, and each counts as absent.
	Detectors world.Source
	Now       func() time.Time
	BootTime  func() int64
	OnRetry   func(Retry) // told before the cluster is asked again
	WaitClock func(ctx context.Context) error
}

// Retry is an attempt at the cluster that failed, and that another follows.
type Retry = cluster.Retry

// Live is a world.Source. Close it at the end.
type Live struct {
	o      Options
	client *cluster.Client
	past   func() *world.LastGood // memoised
	found  func() *program.Binary

	patience time.Duration // 0: the site's retry

	secrets sync.Mutex
	secret  map[string][]byte // that were read, by name

	mu     sync.Mutex
	trusts map[string]*trustCall
	joined *world.KubeletAns
	denied *fault.Fault // what this user may not read of kubelet.conf; known with joined
}

// New makes the adapters; nothing is read yet.
func New(o Options) *Live {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Live{o: o, trusts: map[string]*trustCall{}, secret: map[string][]byte{}}
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

// Ask implements world.Source.
func (l *Live) Ask(ctx context.Context, q world.Question) world.Answer {
	switch q.Kind {
	case world.KindFile:
		return answer(q, world.File, func(r world.FileReq) world.Answer { return l.file(r) })
	case world.KindCredential:
		return answer(q, world.Credential, func(r world.CredentialReq) world.Answer { return l.credential(r) })
	case world.KindVariable:
		return answer(q, world.Variable, func(r world.VariableReq) world.Answer { return l.variable(r) })
	case world.KindValidation:
		return answer(q, world.Validation, func(r world.ValidationReq) world.Answer { return l.validation(ctx, r) })
	case world.KindTrust:
		return answer(q, world.Trust, func(r world.TrustReq) world.Answer { return l.trust(ctx, r.Access) })
	case world.KindObject:
		return answer(q, world.Object, func(r world.ObjectReq) world.Answer { return l.object(ctx, r) })
	case world.KindFacts:
		return answer(q, world.FactsOf, func(r world.FactsReq) world.Answer { return l.facts(ctx, r) })
	case world.KindDetector:
		return answer(q, world.DetectorOf, func(r world.DetectorReq) world.Answer { return l.detector(ctx, r.Name, q) })
	case world.KindLock:
		return answer(q, world.LockOf, func(r world.LockReq) world.Answer { return l.detector(ctx, r.Name, q) })
	case world.KindKubelet:
		return answer(q, world.Kubelet, func(world.KubeletReq) world.Answer { return l.kubelet(ctx) })
	case world.KindAccepts:
		return answer(q, world.Accepts, func(world.AcceptsReq) world.Answer { return l.accepts(ctx) })
	case world.KindExists:
		return answer(q, world.Exists, func(r world.ExistsReq) world.Answer { return l.exists(r.Path) })
	case world.KindServing:
		return answer(q, world.Serving, l.serving)
	case world.KindOriginal:
		return answer(q, world.Original, func(r world.OriginalReq) world.Answer { return l.original(r) })
	case world.KindTarget:
		return answer(q, world.Target, func(r world.TargetReq) world.Answer { return l.target(r) })
	case world.KindManaged:
		return answer(q, world.Managed, func(world.ManagedReq) world.Answer { return l.managed() })
	}
	return world.NoAdapter(q.Kind)
}

func answer[Req, Ans any](q world.Question, t world.Topic[Req, Ans], f func(Req) world.Answer) world.Answer {
	r, err := t.Request(q)
	if err != nil {
		return world.Unreadable(q.Kind, err)
	}
	return f(r)
}

// root is where the node's files are.
func (l *Live) root() nodefile.Root { return nodefile.Root(l.o.Root) }

// Secret reads a credential's bytes, less one newline at the end, for commit and for the cluster's token.
func (l *Live) Secret(name string) ([]byte, error) {
	if l.o.Credentials == nil {
		return nil, os.ErrNotExist
	}
	l.secrets.Lock()
	defer l.secrets.Unlock()
	if b, ok := l.secret[name]; ok { // one run, one secret, whatever becomes of its file meanwhile
		return b, nil
	}
	b, err := l.o.Credentials.Read(name)
	if err != nil {
		return nil, err
	}
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if l.o.Redactor != nil {
		l.o.Redactor.Add(b)
	}
	l.secret[name] = slices.Clip(b)
	return l.secret[name], nil
}

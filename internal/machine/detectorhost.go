package machine

import (
	"path/filepath"
	"slices"

	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// DetectorHost returns the host that runs detectors for a command and reads their locks.
func (e *Env) DetectorHost(w Where) *detector.Host {
	o := detector.HostConfig{
		Root:    w.Root,
		Redact:  e.Redactor.String,
		NoSite:  func() bool { return Verifier(w.Root) != nil },
		Digests: filepath.Join(w.StateDir(), detector.CacheFile),
	}
	if w.Hardware != "" {
		o.Tree = w.Hardware
		if abs, err := filepath.Abs(w.Hardware); err == nil {
			o.Tree = abs
		}
	}
	places := w.Config
	o.Elsewhere = len(places) > 0
	if !o.Elsewhere {
		places = lang.DefaultLayers(w.Root)
	}
	for _, c := range slices.Backward(places) { // the latest layer has precedence
		if st, err := nodefile.Stat(c); err == nil && !st.IsDir() {
			c = filepath.Dir(c)
		}
		o.SiteLocks = append(o.SiteLocks, filepath.Join(c, lang.LockFile))
	}
	if e.Detectors != nil {
		e.Detectors(&o)
	}
	return detector.New(o)
}

package app

import (
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/pluginhost"
)

// SiteLockName is the lock file of a site that is not in /etc/prelet: it lies beside the site's files.
const SiteLockName = "detectors.lock.json"

// DetectorHost is who runs detectors for a command, and knows their locks.
func (e *Env) DetectorHost(w Where) *pluginhost.Host {
	o := pluginhost.Options{Root: w.Root, Redact: e.Redactor.String, Helper: helper()}
	if w.Hardware != "" {
		o.Tree = w.Hardware
		if abs, err := filepath.Abs(w.Hardware); err == nil {
			o.Tree = abs
		}
	}
	for _, c := range w.Config {
		if st, err := os.Stat(c); err == nil && !st.IsDir() {
			c = filepath.Dir(c)
		}
		o.SiteLocks = append(o.SiteLocks, filepath.Join(c, SiteLockName))
	}
	if e.Detectors != nil {
		e.Detectors(&o)
	}
	return pluginhost.New(o)
}

// helper is prelet-detect: the package's, or that beside this program in a folder where both were built. "" is the package's.
func helper() string {
	if _, err := os.Stat(pluginhost.DefaultHelper); err == nil {
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	beside := filepath.Join(filepath.Dir(self), filepath.Base(pluginhost.DefaultHelper))
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}

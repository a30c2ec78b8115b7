package main

import (
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/pluginhost"
	"github.com/prelet/prelet/internal/value"
)

// siteLockName is the lock file of a site that is not in /etc/prelet: it lies beside the site's files.
const siteLockName = "detectors.lock.json"

// detectorHost is who runs detectors for a command, and knows their locks.
func (a *app) detectorHost(w where, redactor *value.Redactor) *pluginhost.Host {
	o := pluginhost.Options{Root: w.root, Redact: redactor.String, Helper: helper()}
	if w.hardware != "" {
		o.Tree = w.hardware
		if abs, err := filepath.Abs(w.hardware); err == nil {
			o.Tree = abs
		}
	}
	for _, c := range w.config {
		if st, err := os.Stat(c); err == nil && !st.IsDir() {
			c = filepath.Dir(c)
		}
		o.SiteLocks = append(o.SiteLocks, filepath.Join(c, siteLockName))
	}
	if a.detectors != nil {
		a.detectors(&o)
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

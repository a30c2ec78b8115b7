// Package browser opens the pages of `prelet report --html` in a headless Chromium. It is a module of its own, so that
// the DevTools protocol is not a dependency of prelet.
package browser

package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

const (
	project    = "github.com/prelet/prelet"
	goName     = "Go" // its standard library and runtime
	minPercent = 75   // of a licence's text that must be known
)

// library is a module that is linked into a program.
type library struct {
	path, version string
	licences      []string // SPDX identifiers, sorted
	texts         []text
}

// text is one licence or notice file.
type text struct {
	name    string // relative to the module
	content string
}

// readPrograms returns the libraries of programs, each once, sorted by path and version. The modules must be in Go's
// module cache, as they are after a build.
func readPrograms(programs []string) ([]library, error) {
	cache, err := goEnv("GOMODCACHE")
	if err != nil {
		return nil, err
	}

	var libraries []library
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}

		goRoot, err := goEnv("GOROOT")
		if err != nil {
			return nil, err
		}
		found := []library{{path: goName, version: info.GoVersion}}
		found[0].texts, err = readTexts(os.DirFS(goRoot))
		if err != nil {
			return nil, err
		}

		for _, dep := range linkedModules(info) {
			l, err := readModule(cache, dep)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", program, err)
			}
			found = append(found, l)
		}
		libraries = append(libraries, found...)
	}

	byName := func(a, b library) int { return strings.Compare(a.path+" "+a.version, b.path+" "+b.version) }
	slices.SortFunc(libraries, byName)
	libraries = slices.CompactFunc(libraries, func(a, b library) bool { return byName(a, b) == 0 })
	for i := range libraries {
		if err := libraries[i].classify(); err != nil {
			return nil, err
		}
	}

	return libraries, nil
}

// linkedModules returns the modules of others in a program, with their replacements.
func linkedModules(info *debug.BuildInfo) (modules []*debug.Module) {
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		isOwn := strings.HasPrefix(dep.Path+"/", project+"/") || strings.HasPrefix(dep.Path, ".")
		if !isOwn {
			modules = append(modules, dep)
		}
	}

	return modules
}

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}

	return strings.TrimSpace(string(out)), nil
}

// readModule reads the licences of a module.
func readModule(cache string, dep *debug.Module) (library, error) {
	name, err := module.EscapePath(dep.Path)
	if err != nil {
		return library{}, err
	}
	version, err := module.EscapeVersion(dep.Version)
	if err != nil {
		return library{}, err
	}

	dir := filepath.Join(cache, name+"@"+version)
	texts, err := readTexts(os.DirFS(dir))
	if err != nil {
		return library{}, fmt.Errorf("%s: %w. Try: go mod download", dep.Path, err)
	}
	if len(texts) == 0 {
		return library{}, fmt.Errorf("%s has no licence file in %s", dep.Path, dir)
	}

	return library{path: dep.Path, version: dep.Version, texts: texts}, nil
}

var textName = regexp.MustCompile(`(?i)^(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// readTexts returns the licence and notice files at the top of a module.
func readTexts(from fs.FS) (texts []text, err error) {
	entries, err := fs.ReadDir(from, ".")
	if err != nil {
		return nil, err
	}

	for _, e := range entries {
		isText := textName.MatchString(e.Name()) && path.Ext(e.Name()) != ".go"
		if !e.Type().IsRegular() || !isText {
			continue
		}
		content, err := fs.ReadFile(from, e.Name())
		if err != nil {
			return nil, err
		}
		content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
		texts = append(texts, text{e.Name(), strings.TrimSpace(string(content))})
	}

	return texts, nil
}

var declared = regexp.MustCompile(`(?m)SPDX-License-Identifier: ([\w.+() -]*[\w)])`)

// classify finds the names of a library's licences: the licence that a text declares itself to be, or else those that
// it contains.
func (l *library) classify() error {
	for _, t := range l.texts {
		if !t.isLicence() {
			continue
		}
		if d := declared.FindStringSubmatch(t.content); d != nil {
			l.licences = append(l.licences, "("+d[1]+")")
			continue
		}

		cover := licensecheck.Scan([]byte(t.content))
		if cover.Percent < minPercent {
			return fmt.Errorf("%s: only %.0f %% of %s is a known licence: read it", l.path, cover.Percent, t.name)
		}
		for _, match := range cover.Match {
			if !match.IsURL && !slices.Contains(l.licences, match.ID) {
				l.licences = append(l.licences, match.ID)
			}
		}
	}
	slices.Sort(l.licences)
	if len(l.licences) == 0 {
		return fmt.Errorf("%s %s has no licence", l.path, l.version)
	}

	return nil
}

// isLicence reports whether the file is a licence, not a notice or a grant of patents.
func (t text) isLicence() bool {
	name := strings.ToUpper(t.name)
	return strings.HasPrefix(name, "LICEN") || strings.HasPrefix(name, "COPYING")
}

package server

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/hashicorp/hcl-lang/decoder"
	hcllang "github.com/hashicorp/hcl-lang/lang"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/editors/prelet-ls/internal/language"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/plan/lang"
)

// site is a site as an editor sees it: files with errors included, and its tests.
type site struct {
	texts  map[string]string    // all files, by path
	files  map[string]*hcl.File // the native ones, as far as they could be parsed
	unread map[string]string    // why a file could not be read, or not as a whole, by path
	index  *language.Index
}

// parsed is a file in the form in which it was parsed last.
type parsed struct {
	text string
	file *hcl.File // nil for a text beyond the limits of the language
	err  string    // the first syntax error; "" without
}

// readSite reads the site of a document. Files that cannot be read are left out: diagnostics report them.
func (s *Server) readSite(file string) site {
	files := newOverlay(s.texts())
	out := site{
		texts:  map[string]string{},
		files:  map[string]*hcl.File{},
		unread: map[string]string{},
	}

	for _, name := range s.listFiles(files, file) {
		text, err := files.ReadFile(name, lang.MaxBytes)
		if err != nil {
			out.unread[name] = fmt.Sprintf("%s cannot be read", path.Base(name))
			continue
		}
		out.texts[name] = string(text)
		if lang.IsNative(name) {
			out.add(name, s.parseFile(name, string(text)))
		}
	}
	out.index = s.language.NewIndex(out.files)

	return out
}

// add adds a native file to a site.
func (x site) add(name string, p parsed) {
	if p.file != nil {
		x.files[name] = p.file
	}
	if p.err != "" {
		x.unread[name] = p.err
	}
}

// parseFile parses a native file, once for each text.
func (s *Server) parseFile(name, text string) parsed {
	if p, ok := s.parsed[name]; ok && p.text == text {
		return p
	}

	file, diags := lang.ParseFile(name, []byte(text))
	p := parsed{text: text, file: file, err: describeError(name, diags)}
	s.parsed[name] = p

	return p
}

// describeError returns where the first error of a file is; "" without one.
func describeError(name string, diags hcl.Diagnostics) string {
	for _, d := range diags {
		switch {
		case d.Severity != hcl.DiagError:
		case d.Subject == nil:
			return path.Base(name) + " has a syntax error"
		default:
			return fmt.Sprintf("%s has a syntax error in line %d", path.Base(name), d.Subject.Start.Line)
		}
	}

	return ""
}

// maxSiteFiles bounds the files that are read for a document: a site may have 64, and some tests.
const maxSiteFiles = 256

// listFiles lists the files of a document's site, the document among them.
func (s *Server) listFiles(files lang.Files, file string) []string {
	out := []string{file}
	places := s.sitePaths(file)
	for _, place := range places {
		places = append(places, path.Join(place, lang.TestFolder))
	}
	for _, place := range places {
		if isSiteFile(place) {
			out = append(out, place)
			continue
		}

		entries, _ := files.ReadDir(place) // validate reports the error
		for _, e := range entries {
			isRead := isSiteFile(e.Name()) &&
				(path.Base(place) != lang.TestFolder || lang.IsTestFile(e.Name()))
			if !e.IsDir() && isRead && len(out) < maxSiteFiles {
				out = append(out, path.Join(place, e.Name()))
			}
		}
	}
	slices.Sort(out)

	return slices.Compact(out)
}

// isSiteFile reports whether a file belongs to a site or tests one.
func isSiteFile(name string) bool {
	return lang.IsSiteFile(name) || lang.IsTestFile(name)
}

// isApart reports whether a file is checked by itself: it is a test, or the file of a repository.
func isApart(file string) bool { return lang.IsTestFile(file) || isRepository(file) }

func isRepository(file string) bool { return path.Base(file) == repository.Name }

// sitePaths returns the folders and files of a document's site: those that are configured, or that the file of its
// repository names, if the document is in one of them, otherwise its folder.
func (s *Server) sitePaths(file string) []string {
	folder := path.Dir(file)
	if lang.IsTestFile(file) && path.Base(folder) == lang.TestFolder {
		folder = path.Dir(folder)
	}
	for _, places := range s.sites {
		if slices.Contains(places, file) || slices.Contains(places, folder) {
			return places
		}
	}

	if found, diags := repository.Find(newOverlay(s.texts()), folder); !diags.HasErrors() {
		if places := found.SiteOf(folder); len(places) > 0 {
			return places
		}
	}

	return []string{folder}
}

// decoder returns hcl-lang's view of a site.
func (s *Server) decoder(here at) *decoder.PathDecoder {
	schema := s.language.Site
	switch {
	case lang.IsVarsFile(here.file):
		schema = s.language.VarsFile(here.index.Of(language.Variable))
	case lang.IsTestFile(here.file):
		schema = s.language.Test
	case isRepository(here.file):
		schema = s.language.Repository
	}

	reader := pathReader{
		dir: path.Dir(here.file),
		context: &decoder.PathContext{
			Schema:           schema,
			ReferenceTargets: here.index.Targets(),
			Files:            here.files,
			Functions:        s.language.Functions,
		},
	}

	d, _ := decoder.NewDecoder(reader).Path(hcllang.Path{Path: reader.dir}) // the only error is that of the reader
	d.PrefillRequiredFields = s.hasSnippets

	return d
}

// pathReader gives hcl-lang the one site that a request is about.
type pathReader struct {
	dir     string
	context *decoder.PathContext
}

// Paths implements decoder.PathReader.
func (r pathReader) Paths(context.Context) []hcllang.Path {
	return []hcllang.Path{{Path: r.dir}}
}

// PathContext implements decoder.PathReader.
func (r pathReader) PathContext(hcllang.Path) (*decoder.PathContext, error) { return r.context, nil }

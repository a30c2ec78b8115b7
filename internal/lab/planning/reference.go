package planning

import (
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
	"github.com/prelet/prelet/stages/write"
)

// Language describes the blocks and arguments of a site.
func Language() schema.Document { return schema.Describe(builtin.Language()) }

// WriteReference writes the reference pages below a folder, which is created where it is missing. It removes nothing.
func WriteReference(dir string) error {
	for name, text := range referencePages() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fault.CannotWrite.Errorf("%s", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fault.CannotWrite.Errorf("%s", err)
		}
	}
	return nil
}

// referencePages returns all pages that are generated from code, by their path below docs/.
func referencePages() map[string]string {
	pages := map[string]string{
		"reference/exit-codes.md":    schema.Generated + fault.ExitStatusPage(),
		"reference/kubelet-rules.md": schema.Generated + rules.Page(),
		"reference/seal.md":          schema.Generated + image.Page(),
		"reference/paths.md":         schema.Generated + write.PathsPage(),
		"reference/tests.md":         schema.Generated + testfile.Page(),
	}
	for _, p := range Language().Pages() {
		pages["reference/"+p.Name] = p.Text
	}
	for name, text := range fault.CodePages() {
		pages["codes/"+name] = schema.Generated + text
	}
	return pages
}

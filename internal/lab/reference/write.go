package reference

import (
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/stages/write"
)

// Write writes the reference pages below a folder, which is created where it is missing. It removes nothing.
func Write(dir string) error {
	for name, text := range referencePages() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := userfile.MakeFolder(filepath.Dir(path)); err != nil {
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
		"reference/exit-codes.md":    Generated + exitStatusPage(),
		"reference/kubelet-rules.md": Generated + rules.Page(),
		"reference/seal.md":          Generated + image.Page(),
		"reference/paths.md":         Generated + write.PathsPage(),
		"reference/tests.md":         Generated + testfile.Page(),
	}
	for _, p := range Describe(Collect()).Pages() {
		pages["reference/"+p.Name] = p.Text
	}
	for name, text := range codePages() {
		pages["codes/"+name] = Generated + text
	}
	return pages
}

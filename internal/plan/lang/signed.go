package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// ListFile is the name of the signed list of a site's files, in one of the site's folders.
const ListFile = "site.sha256"

const signatureFile = ListFile + ".sig"

// checkSigned returns the counter of the signed list of a site's files, or why these files are not the signed ones. The
// contents that were read are compared, so that no file can be changed between the check and the evaluation.
func checkSigned(
	fsys Files,
	opts LoadOptions,
	files []tape.SiteFile,
) (uint64, *hcl.Diagnostic) {
	name := findList(fsys, opts)
	if name == "" {
		return 0, unsigned(
			hcl.Range{},
			"This image evaluates only sites that one of its keys has signed (/usr/lib/prelet/site-signers), and none "+
				"of the site's folders contains %s. Put it and %s next to the site's files.",
			ListFile,
			signatureFile,
		)
	}

	list, err := readList(fsys, opts, name)
	if err != nil {
		return 0, unsigned(fileRange(name), "%s. The site was not evaluated.", err)
	}

	if differences := list.compare(files); len(differences) > 0 {
		return 0, unsigned(
			fileRange(name),
			"The site is not the signed one: %s. Restore these files, or sign the site again.",
			joinSome(differences),
		)
	}

	return list.counter, nil
}

// joinSome joins the first ten of texts, and says how many more there are.
func joinSome(texts []string) string {
	const most = 10
	if len(texts) > most {
		texts = append(texts[:most:most], fmt.Sprintf("and %d more", len(texts)-most))
	}

	return strings.Join(texts, "; ")
}

// findList returns the list in the latest layer of the site that has one; "" if there is none.
func findList(fsys Files, opts LoadOptions) string {
	for _, folder := range slices.Backward(opts.places()) {
		if st, err := fsys.Lstat(folder); err == nil && !st.IsDir() { // --config with a file
			folder = path.Dir(folder)
		}

		name := path.Join(folder, ListFile)
		if _, err := fsys.Lstat(name); err == nil {
			return name
		}
	}

	return ""
}

// readList reads a list whose signature is valid.
func readList(fsys Files, opts LoadOptions, name string) (*signedList, error) {
	text, err := readTrusted(fsys, name)
	if err != nil {
		return nil, err
	}
	signature, err := readTrusted(fsys, path.Join(path.Dir(name), signatureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing next to it; sign the list: ssh-keygen -Y sign -n prelet-site -f KEY %s",
			signatureFile, ListFile)
	}
	if err != nil {
		return nil, err
	}

	if err := opts.Verify(text, signature); err != nil {
		return nil, err
	}

	return parseList(text)
}

// readTrusted reads a regular file that only root and this user may change.
func readTrusted(fsys Files, name string) ([]byte, error) {
	st, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s; put the file itself there", name, nodefile.KindOf(st.Mode()))
	}

	err = fsys.CheckTrusted(name)
	var loose *nodefile.Loose
	if errors.As(err, &loose) {
		return nil, fmt.Errorf("%w. Fix it: %s", err, loose.Fix)
	}
	if err != nil {
		return nil, err
	}

	return fsys.ReadFile(name, MaxBytes)
}

func unsigned(at hcl.Range, detail string, args ...any) *hcl.Diagnostic {
	return origin.Error(fault.SiteSignature, at, "The site's signature cannot be verified", detail, args...)
}

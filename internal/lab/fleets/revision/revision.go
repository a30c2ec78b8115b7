// Package revision reads the files of a site at a revision of git, as git ls-tree and git cat-file return them: no
// filter, no attribute and no work tree changes them, and git fetches nothing. It must not write anything.
package revision

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Prefix marks a revision of git where a path of that name exists, too.
const Prefix = "git:"

// Files are the files of a site at a revision of git. They implement lang.Files.
type Files struct {
	Paths   []string // REVISION:PATH of each path of the site
	Missing []string // paths of the site that the revision does not have

	argument string // as it was typed: the revision, or git: before it
	revision string
	trees    map[string]string // of the revision, by repository: a branch may move between two paths
	files    map[string]*file  // by REVISION:PATH
	size     int64             // of all files that were read
}

// file is a file, a link or a folder of a commit.
type file struct {
	fs.FileInfo

	text []byte // of a file; of a link its target
}

// newFile returns a file with the mode of its type; git does not have the rest, nor a time.
func newFile(name string, kind byte, text []byte) *file {
	header := tar.Header{
		Name:     name,
		Typeflag: kind,
		Mode:     0o644,
		Size:     int64(len(text)),
	}

	return &file{header.FileInfo(), text}
}

// Limits of the files that are read from git. Their sizes are known before they are read.
const (
	maxTreeBytes     = 4 << 20  // of a list of files
	maxRevisionBytes = 64 << 20 // of all files of a site
	maxGitMessage    = 64 << 10
)

// gitTimeout bounds one call of git, which reads local files only.
const gitTimeout = time.Minute

// Read reads the paths of a site at a revision, which may have the prefix. Its errors name --against.
func Read(ctx context.Context, argument string, paths []string) (*Files, error) {
	g := &Files{
		argument: argument,
		revision: strings.TrimPrefix(argument, Prefix),
		trees:    map[string]string{},
		files:    map[string]*file{},
	}
	switch {
	case g.revision == "":
		return nil, g.refuse("the revision is missing; write git:main, for example")
	case strings.HasPrefix(g.revision, "-"):
		return nil, g.refuse("a revision of git does not begin with -")
	case len(paths) == 0 && g.isMarked():
		return nil, g.refuse("name the site with --config: its files are read")
	case len(paths) == 0:
		return nil, g.refuse("no such file or folder; for a revision of git, name the site with --config")
	}

	for _, p := range paths {
		if err := g.readPath(ctx, filepath.Clean(p)); err != nil {
			return nil, err
		}
	}
	if len(g.Paths) == 0 {
		return nil, g.refuse("%s has no file at this revision; if it had another name then, "+
			"check the revision out (git worktree add) and give its path", strings.Join(g.Missing, ", "))
	}

	return g, nil
}

func (g *Files) refuse(format string, args ...any) error {
	return usage("--against "+g.argument, format, args...)
}

// usage returns an error about the value of a flag.
func usage(flag, format string, args ...any) error {
	return fault.Usage.Errorf("%s", flag+": "+fmt.Sprintf(format, args...))
}

// isMarked reports whether the argument cannot be a path.
func (g *Files) isMarked() bool { return g.argument != g.revision }

// readPath reads one path: a file, or the files directly in a folder.
func (g *Files) readPath(ctx context.Context, p string) error {
	st, err := nodefile.Stat(p)
	if err != nil {
		return usage("--config "+p, "%s", err)
	}
	dir := p
	names := []string{"./"}
	if !st.IsDir() {
		dir = filepath.Dir(p)
		names = []string{"./" + filepath.Base(p)}
	}

	args := append([]string{"ls-tree", "-z", "--long", g.findTree(ctx, dir), "--"}, names...)
	list, err := g.git(ctx, dir, maxTreeBytes, args...)
	if err != nil {
		return cmp.Or(g.findShallow(ctx, dir), err)
	}
	if len(list) == 0 {
		g.Missing = append(g.Missing, p)
		return nil
	}

	name := g.revision + ":" + filepath.ToSlash(p)
	full := func(string) string { return name }
	if st.IsDir() {
		g.files[name] = newFile(name, tar.TypeDir, nil)
		full = func(base string) string { return path.Join(name, base) }
	}
	g.Paths = append(g.Paths, name)
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if err := g.readEntry(ctx, dir, entry, full); err != nil {
			return err
		}
	}

	return nil
}

// findTree returns the tree of the revision in the repository of a folder: for all paths the same. Where git does not
// find it, it returns the revision, and the next command has the reason.
func (g *Files) findTree(ctx context.Context, dir string) string {
	out, err := g.git(ctx, dir, maxGitMessage, "rev-parse", "--show-toplevel", g.revision+"^{tree}")
	repository, tree, ok := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || !ok {
		return g.revision
	}
	if g.trees[repository] == "" {
		g.trees[repository] = tree
	}

	return g.trees[repository]
}

// findShallow returns the error for a revision that a shallow clone does not have, as those of CI are; nil for another
// clone.
func (g *Files) findShallow(ctx context.Context, dir string) error {
	isShallow, err := g.git(ctx, dir, maxGitMessage, "rev-parse", "--is-shallow-repository")
	if err != nil || strings.TrimSpace(string(isShallow)) != "true" {
		return nil
	}
	command := "git fetch --unshallow"
	if remote, branch, isRemote := strings.Cut(g.revision, "/"); isRemote {
		command = fmt.Sprintf("git fetch --depth=1 %[1]s %[2]s:refs/remotes/%[1]s/%[2]s", remote, branch)
	}

	return g.refuse(
		"this clone does not have that revision. In CI fetch it first: `%s` (GitHub: fetch-depth: 0)",
		command,
	)
}

// readEntry reads one line of git ls-tree: MODE TYPE OBJECT SIZE, a tab, and the path. full returns the name of the
// file. The size is checked before the file is read; it is not a number if the clone does not have the object.
func (g *Files) readEntry(
	ctx context.Context,
	dir, entry string,
	full func(base string) string,
) error {
	head, name, _ := strings.Cut(entry, "\t")
	fields := strings.Fields(head)
	isFile := len(fields) == 4 && fields[1] == "blob"
	base := path.Base(name)
	if !isFile || !lang.IsSiteFile(base) {
		return nil
	}

	size, err := strconv.ParseInt(fields[3], 10, 64)
	switch {
	case err != nil:
		return g.refuse("this clone does not have the content of %s at this revision, and prelet fetches nothing; "+
			"check the revision out (git worktree add) and give its path", name)
	case size > lang.MaxBytes:
		return g.refuse("%s has %d bytes at this revision; a file of a site has at most %d",
			name, size, lang.MaxBytes)
	}
	g.size += size
	if g.size > maxRevisionBytes {
		return g.refuse("the files of the site have more than %d MiB at this revision", maxRevisionBytes>>20)
	}

	text, err := g.git(ctx, dir, size, "cat-file", "blob", fields[2])
	if err != nil {
		return err
	}
	kind := byte(tar.TypeReg)
	if fields[0] == "120000" {
		kind = tar.TypeSymlink
	}
	g.files[full(base)] = newFile(base, kind, text)

	return nil
}

// git runs git in a folder and returns at most max bytes of its output. The error has the command and its output. A
// repository decides where a partial clone fetches from, and with which command: git must not fetch.
func (g *Files) git(
	ctx context.Context,
	dir string,
	max int64,
	args ...string,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()

	args = append([]string{"-C", dir}, args...)
	c := exec.CommandContext(ctx, "git", args...)
	c.Env = append(os.Environ(), "LC_ALL=C", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
	stdout := limitedBuffer{max: max}
	stderr := limitedBuffer{max: maxGitMessage}
	c.Stdout = &stdout
	c.Stderr = &stderr
	if err := c.Run(); err != nil {
		why := cmp.Or(strings.TrimSpace(stderr.String()), err.Error())
		switch {
		case strings.Contains(why, "not a git repository"):
			why = "this folder is not in a repository of git"
		case strings.Contains(why, "Not a valid object name"):
			why = "git has no revision of this name here; `git branch --all` and `git tag` list names"
		default:
			why = fmt.Sprintf("`git %s`: %s", strings.Join(args, " "), why)
		}
		path := "no such file or folder" + nodefile.SuggestBeside(g.argument) + "; "
		beside := filepath.Join("..", g.argument) // the folder of another ring, named from within one
		if _, err := nodefile.Lstat(beside); err == nil {
			path = fmt.Sprintf("no such file or folder; did you mean --against %s? As a revision: ", beside)
		}
		if g.isMarked() {
			path = ""
		}
		return nil, g.refuse("%s%s", path, why)
	}

	return stdout.Bytes(), nil
}

// limitedBuffer is a buffer whose Write fails once it would hold more than max bytes, which ends the command.
type limitedBuffer struct {
	bytes.Buffer
	max int64
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.max {
		return 0, fmt.Errorf("more than %d bytes of output", b.max)
	}

	return b.Buffer.Write(p)
}

var errNotInRevision = errors.New("not in this revision")

func (g *Files) find(name string) (*file, error) {
	if f := g.files[name]; f != nil {
		return f, nil
	}

	return nil, &fs.PathError{Op: "read", Path: name, Err: errNotInRevision}
}

// Lstat implements lang.Files.
func (g *Files) Lstat(name string) (fs.FileInfo, error) {
	f, err := g.find(name)
	if err != nil {
		return nil, err
	}

	return f, nil
}

// Readlink implements lang.Files.
func (g *Files) Readlink(name string) (string, error) {
	f, err := g.find(name)
	if err != nil {
		return "", err
	}

	return string(f.text), nil
}

// ReadDir implements lang.Files.
func (g *Files) ReadDir(name string) (out []fs.DirEntry, err error) {
	for full, f := range g.files {
		if path.Dir(full) == name && full != name {
			out = append(out, fs.FileInfoToDirEntry(f))
		}
	}
	slices.SortStableFunc(out, func(a, b fs.DirEntry) int {
		return cmp.Compare(a.Name(), b.Name())
	})

	return out, nil
}

// CheckTrusted implements lang.Files. A commit cannot be changed.
func (g *Files) CheckTrusted(string) error { return nil }

// ReadFile implements lang.Files. readEntry has refused larger files.
func (g *Files) ReadFile(name string, _ int64) ([]byte, error) {
	f, err := g.find(name)
	if err != nil {
		return nil, err
	}

	return f.text, nil
}

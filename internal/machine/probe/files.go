package probe

import (
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
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// answerFile returns the text of a file. It refuses places for secrets, because plans and recordings contain the text,
// and returns no text of a file that is not public. Ask refuses the secrets that this node was given.
func (l *Live) answerFile(r tape.FileReq) tape.Answer {
	found, f := l.root().FindText(r.Path)
	if f != nil {
		return tape.Answer{Fault: f}
	}

	why := cmp.Or(l.refusePath(path.Clean(r.Path)), l.refusePath(found.Path))
	config := parseKubeletConfig(found.Text)
	if why == "" && kubelet.HasSecrets(config) {
		why = "it contains " + kubelet.SecretField
	}

	switch {
	case why != "":
		return tape.Failure(fault.Denied, fmt.Sprintf("%s: %s, and the text of a file is in plans "+
			"and recordings. Read it by credential(\"NAME\"), "+
			"with LoadCredential=NAME:%[1]s in a drop-in of prelet.service",
			r.Path, why), "")
	case !found.IsPublic && !isOfKubelet(found.Path, found.Text):
		why := "not every user may read it, and the text of a file is in plans and recordings. If it is not a " +
			"secret, give it a mode such as 0644, and each folder above it one such as 0755. If it is one, read it " +
			"by credential(\"NAME\"), with LoadCredential=NAME:" + r.Path + " in a drop-in of prelet.service"
		return tape.File.Answer(tape.FileAns{Private: why})
	}

	text := found.Text
	if config != nil {
		text = showConfig(text, config, found.IsPublic)
	}

	return tape.File.Answer(tape.FileAns{Text: text})
}

// filePeriod is the interval of looking for a file that may come late.
const filePeriod = 250 * time.Millisecond

// awaitFile returns the text of a file, and waits for it if the site sets a time. A file that came late may be half
// written, so it is read until two reads have the same result. Files of another machine are not waited for.
func (l *Live) awaitFile(ctx context.Context, r tape.FileReq) tape.Answer {
	a := l.answerFile(r)

	patience := time.Duration(r.WaitMillis) * time.Millisecond
	if patience == 0 || l.isOtherMachine() || a.Code() != fault.Absent {
		return a
	}

	end := l.o.Now().Add(patience)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-filePeriod).Before(end) {
		end = deadline.Add(-filePeriod) // in time for an answer
	}

	for l.o.Now().Before(end) && ctx.Err() == nil {
		select {
		case <-time.After(filePeriod):
		case <-ctx.Done():
		}

		before := a
		a = l.answerFile(r)

		isStable := a.Code() == before.Code() && bytes.Equal(a.Value, before.Value)
		if a.Code() != fault.Absent && isStable {
			break
		}
	}

	return a
}

// answerExists reports whether a path exists on this machine. For another machine the answer is not known.
func (l *Live) answerExists(_ context.Context, r tape.ExistsReq) tape.Answer {
	if l.isOtherMachine() {
		return tape.Failure(fault.Absent, "whether "+r.Path+" will exist is unknown below another root", "")
	}

	out, err := nodefile.Within(r.Path, func() (tape.ExistsAns, error) { return checkExists(r) })
	if err != nil {
		return tape.Answer{Fault: nodefile.Failure(r.Path, err)}
	}

	return tape.Exists.Answer(out)
}

func checkExists(r tape.ExistsReq) (tape.ExistsAns, error) {
	_, err := os.Stat(r.Path)
	if err != nil && nodefile.Failure(r.Path, err).Code != fault.Absent {
		return tape.ExistsAns{}, err
	}

	out := tape.ExistsAns{Exists: err == nil}
	if r.Program {
		out.Refused = refuseProgram(r.Path)
	}
	if r.Providers && out.Exists {
		out.Providers, out.Refused = readProviders(r.Path)
	}
	to, err := filepath.EvalSymlinks(r.Path)
	if err == nil && to != filepath.Clean(r.Path) {
		out.Target = to
	}

	return out, nil
}

// refuseProgram returns why the kubelet, which is root, cannot execute an existing file; "" if it can. It looks as the
// kubelet does before it starts with a plugin: os/exec, LookPath.
func refuseProgram(file string) string {
	info, err := os.Stat(file)
	isRoot := os.Geteuid() == 0 // other users may be refused what root may do
	switch {
	case err != nil:
		return ""
	case info.IsDir():
		return syscall.EISDIR.Error()
	case info.Mode()&0o111 == 0:
		return fs.ErrPermission.Error()
	case isRoot:
		_, err = exec.LookPath(file)
	}

	var refusal *exec.Error
	if errors.As(err, &refusal) {
		return refusal.Err.Error()
	}

	return ""
}

// readProviders returns the names of the plugins in a file of image credential providers, or in those of a folder, and
// why the kubelet cannot read them: pkg/credentialprovider/plugin/config.go, readCredentialProviderConfig.
func readProviders(place string) (names []string, refused string) {
	files := ProviderFiles(place)
	if len(files) == 0 {
		return nil, fmt.Sprintf("no configuration files found in directory %q", place)
	}

	for _, file := range files {
		text, f := nodefile.Root("").Text(file)
		if f != nil { // the kubelet may read what prelet does not
			continue
		}
		found, err := kubelet.ReadCredentialProviders(text)
		if err != nil {
			return nil, fmt.Sprintf("error decoding config %q: %s", file, err)
		}
		for _, p := range found {
			names = append(names, p.Name)
		}
	}

	return names, ""
}

// ProviderFiles returns the configuration of image credential providers: a file, or those in a folder that the kubelet
// reads.
func ProviderFiles(place string) (files []string) {
	if info, err := os.Stat(place); err != nil || !info.IsDir() {
		return []string{place}
	}
	inFolder, _ := nodefile.Root("").Names(place, maxDropIns)
	for _, name := range slices.Sorted(slices.Values(inFolder)) {
		if kubelet.IsCredentialProviderFile(name) {
			files = append(files, path.Join(place, name))
		}
	}

	return files
}

const maxDropIns = 4096 // files of one folder

// answerDropIns lists the files below a folder that the kubelet merges.
func (l *Live) answerDropIns(_ context.Context, r tape.DropInsReq) tape.Answer {
	out := tape.DropInsAns{Paths: []string{}}
	paths, err := ListDropIns(l.root(), r.Dir)
	out.Paths = append(out.Paths, paths...)
	if err != nil {
		out.Unlisted = nodefile.Reason(err)
	}

	return tape.DropIns.Answer(out)
}

// ListDropIns returns the paths of the files below a folder that the kubelet merges: cmd/kubelet/app/server.go,
// mergeKubeletConfigurations. It reads a link to a file, and ignores a folder that is a link, also that of the flag.
// With an error the result has the files that were found before.
func ListDropIns(root nodefile.Root, dir string) (paths []string, err error) {
	dir = path.Clean(dir)
	look, err := root.Look(dir, nodefile.FollowAbove)
	if err != nil {
		return nil, err
	}
	look.Close()

	folder := root.Path(look.Path())

	return nodefile.Within(folder, func() ([]string, error) { return listConfFiles(folder, dir) })
}

// listConfFiles returns the paths, with dir as their folder, of the files below a folder of this machine.
func listConfFiles(folder, dir string) (paths []string, err error) {
	err = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case len(paths) == maxDropIns:
			return fs.SkipAll
		case !d.IsDir() && path.Ext(name) == ".conf":
			paths = append(paths, path.Join(dir, strings.TrimPrefix(name, folder)))
		}

		return nil
	})

	return paths, err
}

// answerCredential reports whether a credential can be read, without its content.
func (l *Live) answerCredential(_ context.Context, r tape.CredentialReq) tape.Answer {
	if _, err := l.Secret(r.Name); err != nil {
		return tape.Answer{Fault: systemd.CredentialFault(r.Name, err)}
	}

	return l.markKept(r.Name, tape.Credential.Answer(tape.CredentialAns{Source: "credential"}))
}

// variablePrefix precedes the name of a variable on the kernel command line and in the name of a credential.
const variablePrefix = "prelet.var."

// answerVariable returns the value of a variable from the kernel command line or, second, a credential. Both override
// the site. A sensitive variable comes from a credential only, because every user can read the command line, and its
// value is not returned.
func (l *Live) answerVariable(_ context.Context, r tape.VariableReq) tape.Answer {
	name := variablePrefix + r.Name
	machine := nodefile.Root(cmp.Or(l.o.Hardware, l.o.Root)) // the recorded one if there is one
	parameter, isParameter := machine.ReadCommandLine()[name]

	switch {
	case isParameter && r.Sensitive:
		return leaked(r, "is on the kernel command line")
	case isParameter:
		return tape.Variable.Answer(tape.VariableAns{Text: parameter, Source: tape.SourceCommandLine})
	}

	b, err := l.readVariable(r)

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tape.Failure(fault.Absent, "no source has it", "")
	case err != nil:
		return tape.Answer{Fault: systemd.CredentialFault(name, err)}
	case r.Sensitive:
		return l.markKept(name, tape.Variable.Answer(tape.VariableAns{Source: tape.SourceCredential + name}))
	case !utf8.Valid(b):
		return tape.Answer{Fault: nodefile.Unusable("credential %s is not UTF-8 text", name)}
	}

	return tape.Variable.Answer(tape.VariableAns{Text: string(b), Source: tape.SourceCredential + name})
}

// readVariable reads the credential of a variable, without one newline at its end. The redactor gets the values of
// sensitive variables only: others may be short and common, such as the name of a zone.
func (l *Live) readVariable(r tape.VariableReq) ([]byte, error) {
	if r.Sensitive {
		return l.Secret(variablePrefix + r.Name)
	}

	if l.o.Credentials == nil {
		return nil, fs.ErrNotExist
	}

	b, err := l.o.Credentials.Read(variablePrefix + r.Name)

	return trimNewline(b), err
}

// answerValidation reports whether a sensitive variable passes a validation rule of the site.
func (l *Live) answerValidation(ctx context.Context, r tape.ValidationReq) tape.Answer {
	name := variablePrefix + r.Variable

	b, err := l.Secret(name)
	if err != nil {
		return tape.Answer{Fault: systemd.CredentialFault(name, err)}
	}

	isOK := eval.CheckRule(ctx, l.o.Site, r.Variable, r.Rule, string(b))

	return tape.Validation.Answer(tape.ValidationAns{OK: isOK})
}

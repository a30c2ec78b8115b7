package live

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/world"
)

// answerFile returns the text of a file. It refuses what is a secret by its place or its form, because plans and
// recordings have the text; what holds a secret of this node, Ask refuses.
func (l *Live) answerFile(r world.FileReq) world.Answer {
	text, at, f := l.root().TextAt(r.Path)
	if f != nil {
		return world.Answer{Fault: f}
	}

	why := ""
	for _, p := range []string{path.Clean(r.Path), at} { // at: where links lead
		why = cmp.Or(why, l.refusePath(p))
	}
	if what := describeSecret(text); why == "" && what != "" {
		why = "it holds " + what
	}
	if why != "" {
		why := fmt.Sprintf("%s: %s, and what is read as a file is in plans and recordings. "+
			"Read it by credential(\"NAME\"), with LoadCredential=NAME:%s in a drop-in of prelet.service", r.Path, why, r.Path)
		return world.Failure(fault.Denied, why, "")
	}
	return world.File.Answer(world.FileAns{Text: text})
}

// lookAgain is how often a file that may come late is looked for.
const lookAgain = 250 * time.Millisecond

// awaitFile returns the text of a file, after waiting for it to come. What the files of another machine lack cannot come.
// A file that came late is read until two looks have the same answer, as it may be half written.
func (l *Live) awaitFile(ctx context.Context, r world.FileReq) world.Answer {
	patience := time.Duration(r.WaitMillis) * time.Millisecond
	a := l.answerFile(r)
	if patience == 0 || l.isOtherMachine() || a.Code() != fault.Absent {
		return a
	}

	end := l.o.Now().Add(patience)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-lookAgain).Before(end) {
		end = deadline.Add(-lookAgain) // an answer in time
	}
	for l.o.Now().Before(end) && ctx.Err() == nil {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
		before := a
		a = l.answerFile(r)
		if a.Code() != fault.Absent && a.Code() == before.Code() && bytes.Equal(a.Value, before.Value) {
			break
		}
	}
	return a
}

// answerExists reports whether a path exists on this machine. What another node has when it boots is not known.
func (l *Live) answerExists(path string) world.Answer {
	if l.isOtherMachine() {
		return world.Failure(fault.Absent, "what will be at "+path+" is not known below another root", "")
	}

	_, err := os.Stat(path)
	if err != nil {
		if f := nodefile.Failure(path, err); f.Code != fault.Absent {
			return world.Answer{Fault: f}
		}
	}
	out := world.ExistsAns{Exists: err == nil}
	if to, err := filepath.EvalSymlinks(path); err == nil && to != filepath.Clean(path) {
		out.Target = to
	}
	return world.Exists.Answer(out)
}

// maxDropIns is how many files of a folder are looked at.
const maxDropIns = 256

// answerDropIns lists the files below a folder that the kubelet merges: cmd/kubelet/app/server.go,
// mergeKubeletConfigurations. A folder that cannot be read has none; the kubelet refuses to start with it.
func (l *Live) answerDropIns(r world.DropInsReq) world.Answer {
	out := world.DropInsAns{Paths: []string{}}
	_ = fs.WalkDir(os.DirFS(path.Join("/", l.o.Root, r.Dir)), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || len(out.Paths) == maxDropIns:
			return fs.SkipAll
		case !d.IsDir() && path.Ext(name) == ".conf":
			out.Paths = append(out.Paths, path.Join(r.Dir, name))
		}

		return nil
	})

	return world.DropIns.Answer(out)
}

// answerCredential reports whether a credential can be read, not its content.
func (l *Live) answerCredential(r world.CredentialReq) world.Answer {
	if _, err := l.Secret(r.Name); err != nil {
		return world.Answer{Fault: systemd.CredentialFault(r.Name, err)}
	}
	return world.Credential.Answer(world.CredentialAns{Source: "credential"})
}

// variablePrefix precedes the name of a variable on the kernel command line and in the name of a credential.
const variablePrefix = "prelet.var."

// answerVariable returns the value of a variable from the sources that override the site and that the command line does
// not: the kernel command line and credentials, in this order. A sensitive variable comes from a credential only, because everyone can read both
// command lines, and its value is not returned.
func (l *Live) answerVariable(r world.VariableReq) world.Answer {
	name := variablePrefix + r.Name
	parameter, isParameter := l.commandLine()[name]
	switch {
	case isParameter && r.Sensitive:
		return leaked(r, "stands on the kernel command line")
	case isParameter:
		return world.Variable.Answer(world.VariableAns{Text: parameter, Source: "the kernel command line"})
	}

	b, err := l.readVariable(r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return world.Failure(fault.Absent, "no source has it", "")
	case err != nil:
		return world.Answer{Fault: systemd.CredentialFault(name, err)}
	}

	a := world.VariableAns{Source: "credential " + name}
	if !r.Sensitive {
		if !utf8.Valid(b) {
			return world.Answer{Fault: nodefile.Unusable("credential %s is no UTF-8 text", name)}
		}
		a.Text = string(b)
	}
	return world.Variable.Answer(a)
}

// readVariable reads the credential of a variable, without one newline at its end. The redactor does not learn the
// value of a variable that is not sensitive: it may be as short and common as the name of a zone.
func (l *Live) readVariable(r world.VariableReq) ([]byte, error) {
	if r.Sensitive {
		return l.Secret(variablePrefix + r.Name)
	}
	if l.o.Credentials == nil {
		return nil, fs.ErrNotExist
	}
	b, err := l.o.Credentials.Read(variablePrefix + r.Name)
	return bytes.TrimSuffix(b, []byte("\n")), err
}

// commandLine returns the parameters of the kernel command line, those of the recorded machine if there is one.
func (l *Live) commandLine() map[string]string {
	return nodefile.Root(cmp.Or(l.o.Hardware, l.o.Root)).ReadCommandLine()
}

// answerValidation reports whether a sensitive variable passes a validation rule of the site.
func (l *Live) answerValidation(ctx context.Context, r world.ValidationReq) world.Answer {
	name := variablePrefix + r.Variable
	b, err := l.Secret(name)
	if err != nil {
		return world.Answer{Fault: systemd.CredentialFault(name, err)}
	}
	return world.Validation.Answer(world.ValidationAns{OK: eval.Judge(ctx, l.o.Site, r.Variable, r.Rule, string(b))})
}

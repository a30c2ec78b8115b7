package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/systemd"
	"github.com/prelet/prelet/internal/world"
)

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

// readFile reads a regular file of the node that is a text.
func (l *Live) readFile(path string) (string, *fault.Fault) {
	b, f := l.readBytes(path)
	if f == nil && !utf8.Valid(b) {
		return "", unusable("%s is no UTF-8 text", path)
	}
	return string(b), f
}

// unusable is a file that cannot be used, and why.
func unusable(format string, args ...any) *fault.Fault {
	return &fault.Fault{Code: fault.FileUnusable, Why: fmt.Sprintf(format, args...)}
}

// readBytes reads a regular file of the node. It opens without waiting, so that a FIFO cannot hold a boot.
func (l *Live) readBytes(path string) ([]byte, *fault.Fault) {
	f, err := os.OpenFile(l.path(path), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileFailure(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fileFailure(path, err)
	case !st.Mode().IsRegular():
		return nil, unusable("%s is a %s, not a file", path, kindOf(st.Mode()))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fileFailure(path, err)
	case len(b) > maxFile:
		return nil, unusable("%s is larger than 1 MiB", path)
	}
	return b, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeSymlink != 0:
		return "link"
	}
	return "device"
}

func fileFailure(path string, err error) *fault.Fault {
	f := unusable("%s: %s", path, reason(err))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		f.Code = fault.Absent
	case errors.Is(err, fs.ErrPermission):
		f.Code, f.Next = fault.Denied, "Run as root, or give the file a mode that this user may read"
	}
	return f
}

// reason is an error without the path in it, which would be the path below --root.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (l *Live) file(r world.FileReq) world.Answer {
	text, f := l.readFile(r.Path)
	if f != nil {
		return world.Answer{Fault: f}
	}
	if strings.Contains(text, "PRIVATE KEY-----") { // PEM's armour, whatever kind of key
		return world.Failure(fault.Denied, fmt.Sprintf("%s: it holds a private key, and what is read as a file stands in plans and recordings. "+
			"Read it by credential(\"NAME\"), with LoadCredential=NAME:%s in a drop-in of prelet.service", r.Path, r.Path), "")
	}
	return world.File.Answer(world.FileAns{Text: text})
}

func (l *Live) credential(r world.CredentialReq) world.Answer {
	if _, err := l.Secret(r.Name); err != nil {
		return world.Answer{Fault: credentialFailure(r.Name, err)}
	}
	return world.Credential.Answer(world.CredentialAns{Source: "credential"})
}

func credentialFailure(name string, err error) *fault.Fault {
	prefix := fmt.Sprintf("credential %q: ", name)
	why := reason(err)
	for strings.HasPrefix(why, prefix) {
		why = strings.TrimPrefix(why, prefix)
	}
	why = strings.TrimPrefix(strings.TrimSuffix(why, ": file does not exist"), systemd.ErrUnusable.Error()+": ")
	switch {
	case strings.HasPrefix(why, fmt.Sprintf("%q ", name)):
		why = "credential " + why
	case !strings.HasPrefix(why, fmt.Sprintf("credential %q ", name)):
		why = prefix + why
	}
	f := &fault.Fault{Code: fault.Denied, Why: why,
		Next: fmt.Sprintf("Give it as systemd does, with mode 0400: LoadCredential=%s:/PATH in a drop-in of prelet.service", name)}
	switch {
	case errors.Is(err, systemd.ErrNoCredentials):
		f.Code, f.Next = fault.Absent, "" // it says what to do
	case errors.Is(err, systemd.ErrUnusable):
		f.Code = fault.FileUnusable
	case errors.Is(err, fs.ErrPermission):
		f.Next = "Run as root, or let the unit do it: systemctl start prelet-apply"
	case errors.Is(err, fs.ErrNotExist):
		f.Code = fault.Absent
		f.Next = fmt.Sprintf("Give it to prelet.service: LoadCredential=%s:/PATH or ImportCredential=%s in a drop-in", name, name)
	}
	return f
}

// variable looks where later sources win: --var, the kernel command line, credentials. Default and vars files
// belong to the site. A sensitive variable comes from a credential only, for both command lines are public.
func (l *Live) variable(r world.VariableReq) world.Answer {
	if !r.Sensitive {
		if v, ok := l.o.Variables[r.Name]; ok {
			return world.Variable.Answer(world.VariableAns{Text: v, Source: "--var"})
		}
		if v, ok := l.cmdline()["prelet.var."+r.Name]; ok {
			return world.Variable.Answer(world.VariableAns{Text: v, Source: "the kernel command line"})
		}
	} else if _, ok := l.o.Variables[r.Name]; ok {
		return world.Failure(fault.Denied, fmt.Sprintf("variable %q is sensitive and was given with --var, where everybody reads it", r.Name),
			"Take the value as leaked, change it, and pass it as credential prelet.var."+r.Name)
	} else if _, ok := l.cmdline()["prelet.var."+r.Name]; ok {
		return world.Failure(fault.Denied, fmt.Sprintf("variable %q is sensitive and stands on the kernel command line, where everybody reads it", r.Name),
			"Take the value as leaked, change it, and pass it as credential prelet.var."+r.Name)
	}
	b, err := l.secretOf(r)
	switch {
	case err == nil:
		a := world.VariableAns{Source: "credential prelet.var." + r.Name}
		if !r.Sensitive {
			if !utf8.Valid(b) {
				return world.Answer{Fault: unusable("credential prelet.var.%s is no UTF-8 text", r.Name)}
			}
			a.Text = string(b)
		}
		return world.Variable.Answer(a)
	case errors.Is(err, fs.ErrNotExist):
		return world.Failure(fault.Absent, "no source has it", "")
	}
	return world.Answer{Fault: credentialFailure("prelet.var."+r.Name, err)}
}

// secretOf reads the credential of a variable. One that is not sensitive is no secret: the redactor must not learn
// a word as short and common as a zone.
func (l *Live) secretOf(r world.VariableReq) ([]byte, error) {
	if r.Sensitive {
		return l.Secret("prelet.var." + r.Name)
	}
	if l.o.Credentials == nil {
		return nil, fs.ErrNotExist
	}
	b, err := l.o.Credentials.Read("prelet.var." + r.Name)
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	return b, err
}

// cmdline is the kernel command line, of a recorded machine where there is one.
func (l *Live) cmdline() map[string]string {
	path := "/proc/cmdline"
	switch {
	case l.o.Hardware != "":
		path = filepath.Join(l.o.Hardware, path)
	case l.o.Root != "":
		path = filepath.Join(l.o.Root, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return ParseCmdline(string(b))
}

// ParseCmdline splits a kernel command line into its parameters. Double quotes keep spaces together, as the
// kernel reads them; of a parameter given twice the last counts; one without a value has "".
func ParseCmdline(s string) map[string]string {
	out := map[string]string{}
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			k, v, _ := strings.Cut(word.String(), "=")
			out[k] = v
		}
		word.Reset()
	}
	for _, r := range s {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r == ' ' || r == '\t' || r == '\n'):
			flush()
		default:
			word.WriteRune(r)
		}
	}
	flush()
	return out
}

func (l *Live) validation(ctx context.Context, r world.ValidationReq) world.Answer {
	b, err := l.Secret("prelet.var." + r.Variable)
	if err != nil {
		return world.Answer{Fault: credentialFailure("prelet.var."+r.Variable, err)}
	}
	return world.Validation.Answer(world.ValidationAns{OK: eval.Judge(ctx, l.o.Site, r.Variable, r.Rule, string(b))})
}

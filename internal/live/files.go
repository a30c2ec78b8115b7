package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/systemd"
	"github.com/prelet/prelet/internal/world"
)

func (l *Live) file(r world.FileReq) world.Answer {
	text, f := l.root().Text(r.Path)
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
		return world.Answer{Fault: systemd.CredentialFault(r.Name, err)}
	}
	return world.Credential.Answer(world.CredentialAns{Source: "credential"})
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
				return world.Answer{Fault: nodefile.Unusable("credential prelet.var.%s is no UTF-8 text", r.Name)}
			}
			a.Text = string(b)
		}
		return world.Variable.Answer(a)
	case errors.Is(err, fs.ErrNotExist):
		return world.Failure(fault.Absent, "no source has it", "")
	}
	return world.Answer{Fault: systemd.CredentialFault("prelet.var."+r.Name, err)}
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
		return world.Answer{Fault: systemd.CredentialFault("prelet.var."+r.Variable, err)}
	}
	return world.Validation.Answer(world.ValidationAns{OK: eval.Judge(ctx, l.o.Site, r.Variable, r.Rule, string(b))})
}

package eval

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
)

// Functions returns the functions of the language, with those that read the machine.
func (e *Eval) Functions() map[string]function.Function {
	if e.funcs != nil {
		return e.funcs
	}

	var options functions.Checking
	if e.Checking() {
		options.OnUnsupported = func(d *hcl.Diagnostic) {
			*e.unsupported = append(*e.unsupported, d)
		}
	}
	e.funcs = functions.AllWith(options)
	e.funcs["file"] = e.reader("path", cty.String, e.readFile)
	e.funcs["fileexists"] = e.reader("path", cty.Bool, e.fileExists)
	e.funcs["credential"] = e.reader("name", cty.String, e.readCredential)
	e.funcs["templatefile"] = e.templateFile()
	e.funcs["sitedata"] = e.reader("name", cty.DynamicPseudoType, e.readData)

	return e.funcs
}

// WithFunctions returns a fork of e for expressions that can call these functions and no others.
func (e *Eval) WithFunctions(functions map[string]function.Function) *Eval {
	c := e.Fork()
	c.funcs = functions

	return c
}

// reader makes a function of one text that reads the machine or the site.
func (e *Eval) reader(
	parameter string, t cty.Type, read func(string) (cty.Value, error),
) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: parameter, Type: cty.String}},
		Type:   function.StaticReturnType(t),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return read(args[0].AsString())
		},
	})
}

// suggestData returns, after a semicolon, how the site reads a file that is probably its own; "" for others.
func (e *Eval) suggestData(file string) string {
	folder, base := path.Split(file)
	isOwn := slices.Contains(lang.DefaultLayers("/"), path.Clean(folder)) || lang.IsSiteFile(base)
	for _, f := range e.site.Files {
		isOwn = isOwn || path.Dir(f.Name) == path.Clean(folder)
	}
	if !isOwn {
		return ""
	}

	return "; file() reads the node's files, and sitedata(NAME) those of the site"
}

// readData returns the value of a data file of the site.
func (e *Eval) readData(name string) (cty.Value, error) {
	v, ok := e.site.Data[name]
	if !ok {
		known := sortedKeys(e.site.Data)
		return cty.NilVal, fmt.Errorf("the site has no data file %q; put it into the folder of the site's other "+
			"files, with a name that ends in .preletdata.yaml, .preletdata.json or .preletdata.txt, and give its "+
			"name without the folder (it has: %s%s)",
			name, cmp.Or(strings.Join(known, ", "), "none"), askName(name, known))
	}

	return v, nil
}

// askName asks for the name of a file of the site that was probably meant, to follow a message; "" for none.
func askName(name string, known []string) string {
	meant := texts.Nearest(name, known)
	if meant == "" {
		return ""
	}

	return fmt.Sprintf("; did you mean %q?", meant)
}

func (e *Eval) readFile(file string) (cty.Value, error) {
	if e.Checking() {
		return cty.UnknownVal(cty.String), nil
	}

	req := tape.FileReq{Path: file}
	a, ans, err := tape.File.Ask(e.ctx, e.source, req)
	switch {
	case ans.Code() == fault.Unread:
		return cty.NilVal, &notRecorded{"file " + file}
	case ans.Code() == fault.Absent:
		return cty.NilVal, fmt.Errorf(
			"there is no %[1]s on this machine; put it into the image, or ask first: fileexists(%[1]q)%[2]s",
			file, e.suggestData(file))
	case err != nil:
		return cty.NilVal, fileError(file, ans)
	case a.Private != "":
		return cty.NilVal, fmt.Errorf("%s: %s", file, a.Private)
	case secret.HasPlaceholder(a.Text):
		return cty.NilVal, fmt.Errorf("%s contains U+E000 or U+E001, which prelet reserves; remove them", file)
	case !value.IsExact(a.Text):
		return cty.NilVal, fmt.Errorf(
			"%s has letters with combining marks (Unicode NFD), which a value cannot keep: "+
				"write it in NFC, as `uconv -x nfc` does",
			file,
		)
	}

	return cty.StringVal(a.Text), nil
}

func (e *Eval) fileExists(path string) (cty.Value, error) {
	if e.Checking() {
		return cty.UnknownVal(cty.Bool), nil
	}

	req := tape.FileReq{Path: path}
	_, ans, _ := tape.File.Ask(e.ctx, e.source, req)
	switch ans.Code() {
	case fault.Unread:
		return cty.NilVal, &notRecorded{"file " + path}
	case "", fault.Absent:
		return cty.BoolVal(ans.Fault == nil), nil
	}

	return cty.NilVal, fileError(path, ans)
}

func (e *Eval) readCredential(name string) (cty.Value, error) {
	if err := secret.CheckCredentialName(name); err != nil {
		return cty.NilVal, function.NewArgError(0, err)
	}
	if e.Checking() {
		return secret.Credential(name), nil
	}

	req := tape.CredentialReq{Name: name}
	_, ans, err := tape.Credential.Ask(e.ctx, e.source, req)
	switch {
	case ans.Code() == fault.Unread:
		return cty.NilVal, &notRecorded{"credential " + name}
	case err != nil:
		return cty.NilVal, &MissingCredential{
			Name:   name,
			Why:    ans.Fault.Why,
			exists: ans.Code() == fault.FileUnusable,
		}
	}

	return secret.Credential(name), nil
}

// notRecorded is the error of a function whose answer the recording does not contain.
type notRecorded struct{ what string }

// IsUncaught implements functions.Uncaught.
func (*notRecorded) IsUncaught() bool { return true }

func (n *notRecorded) Error() string { return "this recording does not contain " + n.what }

// fileError returns why a file cannot be read, with its name once.
func fileError(path string, a tape.Answer) error {
	err := fmt.Errorf("%s: %s", path, strings.TrimPrefix(a.Why(), path+": "))
	if a.Code() == fault.NoAnswer {
		return &noAnswer{err, a.Fault.Next}
	}

	return err
}

// noAnswer is the error of a file on a file system that does not answer.
type noAnswer struct {
	error
	next string // the next step; "" where a recording has none
}

// IsUncaught implements functions.Uncaught: a boot is tried again, and does not go on with another value.
func (*noAnswer) IsUncaught() bool { return true }

// MissingCredential is the error of credential() for a credential that does not exist or cannot be used.
type MissingCredential struct {
	Name, Why string
	exists    bool // and cannot be used
}

// IsUncaught implements functions.Uncaught.
func (m *MissingCredential) IsUncaught() bool { return m.exists }

func (m *MissingCredential) Error() string {
	why := strings.TrimSuffix(m.Why, ".")
	if !strings.HasPrefix(why, fmt.Sprintf("credential %q", m.Name)) {
		why = fmt.Sprintf("credential %q: %s", m.Name, why)
	}

	return why + ". " + secret.CredentialHint(m.Name) + "."
}

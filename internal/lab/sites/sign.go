package sites

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/signature"
)

// SignOptions are the folder of a layer, the key, and the headers of its list. A header that is zero or "" stays as
// in the list that the folder has.
type SignOptions struct {
	Dir     string
	Key     string // a file with a private key, or with the public key of one in the agent
	List    lang.SignedList
	Expires string // RFC 3339
}

// SignedFolder is a folder with a signed list. As JSON it is the document of `site sign` and `site verify`.
type SignedFolder struct {
	FormatVersion int              `json:"format_version"`
	Folder        string           `json:"folder"`
	Files         int              `json:"files"` // masks too
	Key           string           `json:"key"`   // the fingerprint of the signer's
	List          *lang.SignedList `json:"list"`
}

// Sign writes the list of a folder's files and its signature, which ssh-keygen makes. It writes nothing without it.
func Sign(ctx context.Context, o SignOptions) (SignedFolder, error) {
	if o.Key == "" {
		return SignedFolder{}, fault.Usage.Errorf("--key is missing: name the file of the key that signs")
	}
	files, masks, diags := lang.ReadFolder(lang.AnyOwner(), o.Dir)
	if diags.HasErrors() {
		return SignedFolder{}, refuseFolder(diags)
	}
	// On a mount that does not answer ssh-keygen would hang.
	if _, err := nodefile.Stat(o.Key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return SignedFolder{}, fault.Usage.Errorf("--key %s: %s", o.Key, err)
	}
	list, err := o.complete(time.Now())
	if err != nil {
		return SignedFolder{}, err
	}
	for i := range masks {
		masks[i] = filepath.Base(masks[i])
	}
	list.Add(files, masks...)
	text, err := list.Format()
	if err != nil {
		return SignedFolder{}, fault.Usage.Errorf("the list of %s cannot be made: %s", o.Dir, err)
	}

	sig, err := runKeygen(ctx, o.Key, text)
	if err != nil {
		return SignedFolder{}, err
	}
	key, fingerprint, err := signature.SignerOf(sig)
	if err == nil {
		err = signature.Verify(key, text, sig, machine.SignatureNamespace)
	}
	if err != nil {
		return SignedFolder{}, fault.SiteSignature.Errorf("a node would refuse the signature of %s: %s; use an "+
			"ed25519 key", o.Key, err)
	}

	// The signature first: there is never a list without one.
	for _, f := range []struct {
		name string
		text []byte
	}{{lang.SignatureFile, sig}, {lang.ListFile, text}} {
		if err := userfile.WriteReport(filepath.Join(o.Dir, f.name), f.text); err != nil {
			return SignedFolder{}, err
		}
	}

	return SignedFolder{1, o.Dir, list.Files(), fingerprint, list}, nil
}

// complete returns the headers of the list: a header that is not given is that of the list in the folder.
func (o SignOptions) complete(now time.Time) (*lang.SignedList, error) {
	name := filepath.Join(o.Dir, lang.ListFile)
	last := &lang.SignedList{}
	text, err := userfile.Read(name, lang.MaxBytes)
	if err == nil {
		last, err = lang.ParseList(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Usage.Errorf("%s: %s. Restore that list, or remove it: then the counter begins with 1, or "+
			"at --counter", name, err)
	}

	list := o.List
	abs, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fault.Usage.Errorf("%s: %s", o.Dir, err)
	}
	list.Name = cmp.Or(list.Name, last.Name, filepath.Base(abs))
	list.Ring = cmp.Or(list.Ring, last.Ring)
	list.Repository = cmp.Or(list.Repository, last.Repository)
	list.Counter = cmp.Or(list.Counter, last.Counter+1)
	list.NotBelow = cmp.Or(list.NotBelow, last.NotBelow)
	list.Expires = last.Expires
	if o.Expires != "" {
		list.Expires, err = time.Parse(time.RFC3339, o.Expires)
	}
	switch {
	case err != nil:
		return nil, fault.Usage.Errorf("--expires %s: write a time as 2027-01-31T12:00:00Z", o.Expires)
	case !list.Expires.IsZero() && !now.Before(list.Expires):
		return nil, fault.Usage.Errorf("the list would have expired at %s; give a later time: --expires TIME",
			list.Expires.UTC().Format(time.RFC3339))
	}

	return &list, nil
}

// runKeygen returns the signature of a text. ssh-keygen asks for a passphrase on the terminal by itself.
func runKeygen(ctx context.Context, key string, text []byte) ([]byte, error) {
	c := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-n", machine.SignatureNamespace, "-f", key)
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.Stdin = bytes.NewReader(text)
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	c.Stderr = &stderr

	err := c.Run()
	if stopped := machine.CheckStopped(ctx); stopped != nil {
		return nil, stopped
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fault.SiteSignature.Errorf("ssh-keygen is not in PATH, and it makes the signature. Install " +
			"OpenSSH's client: the package openssh-client or openssh-clients")
	case err != nil:
		words := cmp.Or(strings.Join(strings.Fields(stderr.String()), " "), err.Error())
		return nil, fault.SiteSignature.Errorf("ssh-keygen cannot sign with %s: %s. Name the file of a private key, "+
			"or of a public key whose private key is in the agent: `ssh-add -l` lists those", key, words)
	}

	return stdout.Bytes(), nil
}

// VerifyFolder checks a folder as a node checks a layer, with the keys of a file.
func VerifyFolder(dir, signers string) (SignedFolder, error) {
	if err := refuseReference(dir); err != nil {
		return SignedFolder{}, err
	}
	keys, err := userfile.ReadInput(signers, nodefile.Max)
	if err != nil && signers == machine.SignersFile {
		return SignedFolder{}, fault.Usage.Errorf("%s: %s; name a file with public keys: --signers FILE", signers, err)
	}
	if err != nil {
		return SignedFolder{}, fault.Usage.Errorf("--signers %s: %s", signers, err)
	}

	var fingerprint string
	list, diags := lang.CheckFolder(lang.AnyOwner(), dir, func(text, sig []byte) error {
		if _, fingerprint, err = signature.SignerOf(sig); err != nil {
			return err
		}

		return signature.Verify(keys, text, sig, machine.SignatureNamespace)
	})
	if diags.HasErrors() {
		return SignedFolder{}, refuseFolder(diags)
	}

	return SignedFolder{1, dir, list.Files(), fingerprint, list}, nil
}

func refuseFolder(diags hcl.Diagnostics) error { return lab.RefuseSite(&lang.Site{}, diags) }

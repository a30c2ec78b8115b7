package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// CredentialFault returns the fault of a credential that could not be read. Its code is Absent, Denied,
// CredentialMissing or FileUnusable.
func CredentialFault(name string, err error) *fault.Fault {
	prefix := fmt.Sprintf("credential %q: ", name)
	why := strings.TrimSuffix(nodefile.Reason(err), ": file does not exist")
	f := &fault.Fault{Why: prefix + strings.ReplaceAll(why, prefix, "")}
	unit := "prelet-apply"
	if name == secret.RegistryCredential || name == secret.SiteCredential {
		unit = "prelet-site"
	}

	switch {
	case errors.Is(err, ErrNoCredentials): // it contains the next step
		f.Code = fault.Absent
	case errors.Is(err, fs.ErrNotExist):
		f.Code = fault.Absent
		f.Next = secret.CredentialHint(name)
	case errors.Is(err, ErrEncrypted):
		f.Code = fault.CredentialMissing
		f.Next = "Let the unit do it: systemctl start " + unit
	case errors.Is(err, fs.ErrPermission):
		f.Code = fault.Denied
		f.Next = "Run as root, or let the unit do it: systemctl start " + unit
	default:
		f.Code = fault.Denied
		if errors.Is(err, ErrUnusable) {
			f.Code = fault.FileUnusable
		}
		f.Next = secret.CredentialHint(name)
	}

	return f
}

package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// CredentialFault is why a credential could not be read. Its code is Absent, Denied or FileUnusable.
func CredentialFault(name string, err error) *fault.Fault {
	prefix := fmt.Sprintf("credential %q: ", name)
	why := nodefile.Reason(err)
	for strings.HasPrefix(why, prefix) {
		why = strings.TrimPrefix(why, prefix)
	}
	why = strings.TrimPrefix(strings.TrimSuffix(why, ": file does not exist"), ErrUnusable.Error()+": ")
	switch {
	case strings.HasPrefix(why, fmt.Sprintf("%q ", name)):
		why = "credential " + why
	case !strings.HasPrefix(why, fmt.Sprintf("credential %q ", name)):
		why = prefix + why
	}
	f := &fault.Fault{Code: fault.Denied, Why: why,
		Next: fmt.Sprintf("Give it as systemd does, with mode 0400: LoadCredential=%s:/PATH in a drop-in of prelet.service", name)}
	switch {
	case errors.Is(err, ErrNoCredentials):
		f.Code, f.Next = fault.Absent, "" // it says what to do
	case errors.Is(err, ErrUnusable):
		f.Code = fault.FileUnusable
	case errors.Is(err, fs.ErrPermission):
		f.Next = "Run as root, or let the unit do it: systemctl start prelet-apply"
	case errors.Is(err, fs.ErrNotExist):
		f.Code = fault.Absent
		f.Next = fmt.Sprintf("Give it to prelet.service: LoadCredential=%s:/PATH or ImportCredential=%s in a drop-in", name, name)
	}
	return f
}

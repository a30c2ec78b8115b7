package live

import (
	"os"

	"github.com/prelet/prelet/internal/systemd"
)

// SystemCredentials are those that systemd gave to this process.
func SystemCredentials(getenv func(string) string) Credentials { return systemd.NewCredentials(getenv) }

// BootID is the identity of this boot; "" where the machine has none.
func BootID(getenv func(string) string) string {
	id, err := systemd.BootID(getenv, os.DirFS("/"))
	if err != nil {
		return ""
	}
	return id
}

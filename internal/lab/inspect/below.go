package inspect

import (
	"strings"

	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// BelowRoot returns a message about a machine below a root without the commands that are for the running one, and the
// flag --root for the others.
func BelowRoot(text, root string) (message, flag string) {
	return strings.ReplaceAll(text, machineid.SealHere, "prelet seal --yes"), "--root " + nodefile.QuoteWord(root)
}

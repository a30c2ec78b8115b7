package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// nameTime bounds the lookup of the node's name.
const nameTime = 2 * time.Second

// ResolveName returns why the name of the node does not resolve. The resolver of Go does not ask nss-myhostname, which
// resolves the host name.
func ResolveName(
	ctx context.Context, root nodefile.Root,
	lookup func(context.Context, string) ([]string, error),
	name, hostname string,
) error {
	if name == "" {
		return nil
	}
	for line := range strings.Lines(root.TextIfReadable("/etc/nsswitch.conf")) {
		services, isHosts := strings.CutPrefix(strings.TrimSpace(line), "hosts:")
		services, _, _ = strings.Cut(services, "#")
		if isHosts && strings.EqualFold(name, hostname) && strings.Contains(services, "myhostname") {
			return nil
		}
	}

	ctx, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	_, err := lookup(ctx, name)

	return err
}

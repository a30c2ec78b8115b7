package live

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// resolverFile is where systemd-resolved lists the servers that it asks itself. Its stub, which /etc/resolv.conf mostly
// leads to, cannot be reached from inside of a pod.
const resolverFile = "/run/systemd/resolve/resolv.conf"

// chooseResolver returns the resolvConf that kubeadm writes at a join, on a node where systemd-resolved is active or
// activating (cmd/kubeadm/app/componentconfigs, kubeletConfig.Mutate). It is decided once: where a generation is in place,
// its recording tells what was decided, as long as the file is there.
func (l *Live) chooseResolver(ctx context.Context) string {
	if l.isOtherMachine() {
		return ""
	}

	if was, isDecided := l.resolverInPlace(); isDecided {
		if _, f := l.root().Text(was); was == "" || f != nil && f.Code == fault.Absent {
			return ""
		}
		return was
	}
	if l.o.Units == nil {
		return ""
	}

	u, err := l.o.Units.Look(ctx, "systemd-resolved.service")
	if err != nil || u.Load != "loaded" || u.Active != "active" && u.Active != "activating" {
		return ""
	}

	return resolverFile
}

// resolverInPlace returns what was decided for the generation in place; isDecided is false without one.
func (l *Live) resolverInPlace() (resolver string, isDecided bool) {
	if l.o.Store == nil {
		return "", false
	}
	cur, err := l.o.Store.Current()
	if err != nil || cur == nil || cur.Restores == 0 {
		return "", false
	}

	b, err := l.o.Store.Blob(cur.Gen, world.RecordingBlob)
	if err != nil {
		return "", true
	}
	r, err := world.Decode(bytes.NewReader(b))
	if err != nil {
		return "", true
	}
	for _, e := range r.Entries {
		var k world.KubeletAns
		if e.Kind == world.KindKubelet && e.Answer.Fault == nil && json.Unmarshal(e.Answer.Value, &k) == nil {
			return k.Resolver, true
		}
	}

	return "", true
}

package probe

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// resolverFile is the file in which systemd-resolved lists its upstream servers. Its stub, which /etc/resolv.conf
// usually points to, cannot be reached from a pod.
const resolverFile = "/run/systemd/resolve/resolv.conf"

// chooseResolver returns the resolvConf that kubeadm writes at a join, on a node where systemd-resolved is active or
// activating (cmd/kubeadm/app/componentconfigs, kubeletConfig.Mutate). It is decided once: a node with a generation
// keeps the value in that recording, as long as the file exists.
func (l *Live) chooseResolver(ctx context.Context) string {
	if l.isOtherMachine() {
		return ""
	}

	if resolver, isDecided := l.decidedResolver(); isDecided {
		if resolver == "" {
			return ""
		}

		_, f := l.root().Text(resolver)
		if f != nil && f.Code == fault.Absent {
			return ""
		}

		return resolver
	}

	if l.o.Units == nil {
		return ""
	}

	u, err := l.o.Units.Look(ctx, "systemd-resolved.service")
	isActive := u.Active == "active" || u.Active == "activating"

	if err != nil || u.Load != "loaded" || !isActive {
		return ""
	}

	return resolverFile
}

// decidedResolver returns the resolver in the recording of the current generation. isDecided is false without one.
func (l *Live) decidedResolver() (resolver string, isDecided bool) {
	current := l.current()
	if current == nil || current.Restores == 0 {
		return "", false
	}

	b, _ := l.o.Store.Blob(current.Gen, tape.RecordingBlob)

	r, err := tape.Decode(bytes.NewReader(b))
	if err != nil {
		return "", true
	}

	for _, e := range r.Entries {
		var k tape.KubeletAns

		isAnswer := e.Kind == tape.KindKubelet && e.Answer.Fault == nil
		if isAnswer && json.Unmarshal(e.Answer.Value, &k) == nil {
			return k.Resolver, true
		}
	}

	return "", true
}

package probe

import (
	"context"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/machineid"
)

const (
	nodeTimeout = 20 * time.Second
	// nodeWait limits all reads while another machine has the name. A machine that was installed again has an old
	// Node, which stays Ready for 40 to 50 s after its kubelet has stopped.
	nodeWait = 75 * time.Second
)

// answerNode returns whether another machine has the name under which this one will join. A cluster that does not
// answer does not prevent a join. A folder that replaces the cluster has no nodes.
func (l *Live) answerNode(ctx context.Context, r tape.NodeReq) tape.Answer {
	if r.Name == "" {
		n := joined.Reader{Root: l.root(), Now: l.o.Now}
		r.Name = n.HostName()
	}

	out := tape.NodeAns{Name: r.Name}
	if l.o.Objects != "" || r.Name == "" {
		return tape.Node.Answer(out)
	}

	ctx, cancel := l.limit(ctx, r.Access)
	defer cancel()

	until := l.o.Now().Add(nodeWait)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}

	for {
		taken, note := l.readNode(ctx, r)
		if out.Taken == "" || note == "" { // a later failure does not replace a result
			out.Taken = taken
			out.Note = note
		}

		if out.Taken == "" || r.Own || l.o.Now().After(until) {
			return tape.Node.Answer(out)
		}

		if l.o.OnRetry != nil {
			why := "node " + r.Name + " is Ready, and is another machine (" + out.Taken + ")"
			l.o.OnRetry(Retry{
				Server: "the cluster",
				Why:    why,
				Wait:   l.nodeRetry,
				Until:  until,
			})
		}

		select {
		case <-ctx.Done():
			return tape.Node.Answer(out)
		case <-time.After(l.nodeRetry):
		}
	}
}

// readNode reads the Node once. taken describes the other machine; note is the reason if the cluster does not answer.
func (l *Live) readNode(ctx context.Context, r tape.NodeReq) (taken, note string) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()

	req, f := l.newRequest(ctx, r.Access)
	if f != nil {
		return "", f.Reason()
	}

	req.Name = r.Name
	switch {
	case r.Own:
		f = l.addCredentials(&req, "")
	case r.Token != "":
		req.Token = l.newTokenReader(r.Token)
	default:
		f = l.addKubeconfig(&req, joined.BootstrapConf)
		if f != nil && f.Code == fault.CredentialMissing {
			return "", "" // there is nothing to join with
		}
	}
	if f != nil {
		return "", f.Reason()
	}

	body, exists, why, err := l.client.FetchNode(ctx, req)

	switch {
	case err != nil:
		return "", toFault(err).Reason()
	case !exists:
		return "", why
	}

	n, err := kubelet.ParseNode(body, "")
	if err != nil {
		return "", err.Error()
	}

	here := machineid.Of(l.o.Root)
	if !n.Ready && !r.Own || !here.IsOther(machineid.OfNode(n.MachineID, n.SystemUUID)) {
		return "", ""
	}

	taken = "it reports another machine id"
	if n.Address != "" {
		taken += ", from " + n.Address
	}

	return taken, ""
}

package live

import (
	"context"
	"encoding/json"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/probe/cluster"
	"github.com/prelet/prelet/internal/probe/joined"
	"github.com/prelet/prelet/internal/world"
)

// How long the cluster is asked for a Node: once, and again while another machine has it. A machine that was installed
// anew has an old Node that stays Ready for 40 to 50 s after its kubelet has gone.
const (
	nodeTimeout = 20 * time.Second
	nodeWait    = 75 * time.Second
)

// answerNode returns whether another machine has the name under which this one is about to join. A cluster that does not
// say does not keep a node from joining. A folder in place of the cluster has no nodes.
func (l *Live) answerNode(ctx context.Context, r world.NodeReq) world.Answer {
	if r.Name == "" {
		r.Name = joined.Node{Root: l.root(), Now: l.o.Now}.HostName()
	}
	out := world.NodeAns{Name: r.Name}
	if l.o.Objects != "" || r.Name == "" {
		return world.NodeOf.Answer(out)
	}

	waiting, cancel := l.limit(ctx, r.Access)
	defer cancel()
	until := l.o.Now().Add(nodeWait)
	for {
		taken, note := l.readNode(waiting, r)
		if out.Taken == "" || note == "" { // a cluster that stops answering does not take back what it said
			out.Taken, out.Note = taken, note
		}
		if out.Taken == "" || l.o.Now().After(until) {
			return world.NodeOf.Answer(out)
		}
		if l.o.OnRetry != nil {
			why := "node " + r.Name + " is Ready, and is another machine (" + out.Taken + ")"
			l.o.OnRetry(Retry{Server: "the cluster", Why: why, Wait: l.nodeRetry, Until: until})
		}
		select {
		case <-waiting.Done():
			return world.NodeOf.Answer(out)
		case <-time.After(l.nodeRetry):
		}
	}
}

// readNode asks once. taken describes the other machine; note is why the cluster did not say.
func (l *Live) readNode(ctx context.Context, r world.NodeReq) (taken, note string) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()

	t := l.answerTrust(ctx, r.Access)
	if t.Fault != nil {
		return "", t.Fault.Reason()
	}
	var ca world.TrustAns
	if err := json.Unmarshal(t.Value, &ca); err != nil {
		return "", err.Error()
	}
	req := cluster.ObjectRequest{
		Endpoint: endpoint(r.Access), CAPEM: []byte(ca.PEM), Name: r.Name, Token: l.token(r.Token),
	}
	if len(req.Servers) == 0 {
		req.Servers = ca.Servers
	}

	body, known, why, err := l.client.FetchNode(ctx, req)
	switch {
	case err != nil:
		return "", clusterFailure(err).Fault.Reason()
	case !known:
		return "", why
	}
	n, err := kubelet.ParseNode(body, "")
	if err != nil {
		return "", err.Error()
	}

	here := machineid.Of(l.o.Root)
	if !n.Ready || !here.IsOther(machineid.OfNode(n.MachineID, n.SystemUUID)) {
		return "", ""
	}

	taken = "it reports another machine id"
	if n.Address != "" {
		taken += ", from " + n.Address
	}

	return taken, ""
}

package conformance

import (
	"context"
	"errors"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/reference"
	"github.com/prelet/prelet/plugins/wire"
	"github.com/prelet/prelet/plugins/wire/rpc"
)

// node asks once more as prelet-detect does: by package rpc, over a connection of its own. All else is asked by gRPC's own library,
// which forgives other things.
func (k *kit) node(p *process, client reference.Client, config map[string]any, machines []machine) {
	address, err := p.address()
	if err != nil {
		k.fail("node", err, "")
		return
	}
	call := func(method string, request []byte, most int) ([]byte, error) {
		ctx, cancel := context.WithTimeout(k.ctx, k.options.Timeout)
		defer cancel()
		c, err := rpc.Dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return rpc.Call(ctx, c, method, request, most)
	}
	const mend = "HTTP/2 without compression, whatever comes first on the connection; several connections, one after the other."
	b, err := call(wire.Describe, nil, contract.MaxDescription)
	if err == nil {
		var d contract.Description
		if d, err = wire.DecodeDescription(b); err == nil && text(d) != text(k.report.Description) {
			err = errors.New(different("its description", text(k.report.Description), text(d), nil))
		}
	}
	if err != nil {
		k.fail("node", err, mend)
		return
	}
	var findings []string
	for _, m := range machines {
		want, _, err := k.detect(client, config, m)
		if err != nil {
			continue // told already
		}
		var got contract.Answer
		b, err := call(wire.Detect, wire.EncodeRequest(wire.Request{Config: config, Devices: m.devices, Root: m.dir}), contract.MaxAnswer)
		if err == nil {
			got, err = wire.DecodeAnswer(b)
		}
		if err != nil || text(got) != text(want) {
			findings = append(findings, different(m.name, text(want), text(got), err))
		}
	}
	k.judge("node", title("node"), Failed, findings, mend)
}

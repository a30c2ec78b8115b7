// Package fetchca is the stage that reads the cluster's CA, verified as the cluster block of the site requires.
// It asks one question through the tape. It must not trust an answer itself: package cluster verifies.
package fetchca

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const what = "the cluster's CA"

// Stage implements stages.Gatherer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{
		Phase:       schema.Gather,
		Singleton:   true,
		Timeout:     3 * time.Minute,
		TimeoutCode: fault.ClusterUnreachable,
		Block: schema.Block{
			Type: "fetch-ca",
			Doc: "Fetches the cluster's CA and verifies it by what the `cluster` block trusts: " +
				"pins, a CA file, a discovery file, or the token alone. With pins, a CA without one is left out; " +
				"the identity is verified before the token is sent.",
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{
		"pem":         cty.String,
		"hash":        cty.String,
		"servers":     cty.List(cty.String),
		"verified_by": cty.String,
	})
}

// Check implements stages.Checker.
func (Stage) Check(cfg schema.Body, in stages.Inputs) hcl.Diagnostics {
	return stages.RequireCluster(cfg.Range, in.NoCluster)
}

// Gather implements stages.Gatherer.
func (s Stage) Gather(
	ctx context.Context,
	cfg schema.Body,
	env stages.Env,
	r tape.Source,
) (stages.Output, hcl.Diagnostics) {
	if diags := stages.RequireCluster(cfg.Range, env.Cluster.Filename == ""); diags != nil {
		return stages.Output{}, diags
	}

	outputs := s.Outputs(stages.Declared{})
	trust, ans, err := tape.Trust.Ask(ctx, r, tape.TrustReq{Access: env.Access})
	if err != nil {
		at := env.Cluster
		if code := ans.Code(); code == fault.WrongType || code == fault.ClusterUntrusted {
			at = env.Anchor
		}
		return stages.Output{}, stages.DiagnoseCluster(at, what, ans.Fault)
	}

	var diags hcl.Diagnostics
	if ans.Stale != 0 {
		diags = append(diags, stages.WarnStale(cfg.Range, "The cluster's CA", ans))
	}

	diags = append(diags, notePins(env.Cluster, trust)...)
	diags = append(diags, warnExpired(env.Cluster, trust)...)

	if secret.HasPlaceholder(trust.PEM) {
		return stages.Output{}, append(diags, origin.Error(
			fault.ClusterUnusable,
			cfg.Range,
			"The cluster's CA has a character that prelet reserves",
			"Remove U+E000 and U+E001 from it.",
		))
	}

	v, err := codec.FromJSONTyped(ans.Value, outputs)
	if err != nil {
		return stages.Output{}, hcl.Diagnostics{
			origin.Error(fault.Internal, cfg.Range, "The answer has the wrong form", "%s.", err),
		}
	}

	return stages.Output{Value: v, Readings: stages.Readings{Trust: &trust}}, diags
}

// warnExpired reports CAs that have expired. No server can be verified by them.
func warnExpired(at hcl.Range, trust tape.TrustAns) hcl.Diagnostics {
	all := strings.Join(trust.Expired, ", ")
	switch {
	case len(trust.Expired) == 0:
		return nil
	case trust.NoneValid:
		return hcl.Diagnostics{origin.Warning(
			fault.ClusterCA, at, "The cluster's CA has expired",
			"It is %s. The kubelet verifies no API server by it. Give the renewed CA; one with the same key has the "+
				"same pin. If it has not expired, set the clock of this machine.", all,
		)}
	}

	return hcl.Diagnostics{origin.Note(
		fault.ClusterCA, at, "A CA of the cluster has expired", "It is %s. Remove it from the cluster's CAs.", all,
	)}
}

// notePins reports CAs without a pin and pins without a CA, as there are while a CA is being rotated.
func notePins(at hcl.Range, trust tape.TrustAns) (diags hcl.Diagnostics) {
	if len(trust.LeftOut) > 0 {
		diags = append(diags, origin.Note(
			fault.ClusterCA, at, "A CA of the cluster is not pinned",
			"The cluster also names %s, which is left out: the node does not trust it. Add its pin to ca_cert_hashes "+
				"if it is the cluster's next CA.", strings.Join(trust.LeftOut, ", "),
		))
	}
	if len(trust.Unmatched) > 0 {
		diags = append(diags, origin.Note(
			fault.ClusterCA, at, "A pin is unused",
			"No CA of the cluster has the key %s. Remove the pin from ca_cert_hashes unless the CA is still to come.",
			strings.Join(trust.Unmatched, ", "),
		))
	}

	return diags
}

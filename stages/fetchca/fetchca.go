// Package fetchca is the stage that finds out who the cluster is: its CA, verified as the site's cluster block says.
package fetchca

import (
	"context"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Stage implements stages.Gatherer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Gather, Singleton: true, Timeout: 3 * time.Minute, Block: schema.Block{Type: "fetch-ca",
		Doc: "Fetches the cluster's CA and verifies it by what the `cluster` block trusts: pins, a CA file, a discovery file, or the token alone. Every CA must be pinned; the identity is verified before the token is sent."}}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"pem": cty.String, "hash": cty.String, "servers": cty.List(cty.String), "verified_by": cty.String})
}

// Check implements stages.Checker.
func (Stage) Check(cfg schema.Body, in stages.Inputs) hcl.Diagnostics {
	return stages.RequireCluster(cfg.Range, in.NoCluster)
}

// Gather implements stages.Gatherer.
func (s Stage) Gather(ctx context.Context, cfg schema.Body, env stages.Env, r world.Source) (stages.Output, hcl.Diagnostics) {
	if d := stages.RequireCluster(cfg.Range, env.Cluster.Filename == ""); d != nil {
		return stages.Output{}, d
	}
	a, ans, err := world.Trust.Ask(ctx, r, world.TrustReq{Access: env.Access})
	if err != nil {
		const what = "the cluster's CA"
		return stages.Unanswered(s.Outputs(stages.Declared{}), what, ans), stages.ClusterFailure(env.Cluster, what, ans.Fault)
	}
	var diags hcl.Diagnostics
	if ans.Stale != 0 {
		diags = append(diags, stages.StaleWarning(cfg.Range, "The cluster's CA", ans))
	}
	v, err := value.FromJSONTyped(ans.Value, s.Outputs(stages.Declared{}))
	if err != nil {
		return stages.Output{}, hcl.Diagnostics{origin.Error(fault.Internal, cfg.Range, "The answer has the wrong form", "%s.", err)}
	}
	return stages.Output{Value: v, Trust: &a}, diags
}

package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/activate"
)

// Examine looks once at a kubelet that was judged before, by the same checks that a verdict rests on. It changes
// nothing, and it is no verdict: a generation that was good stays so.
func Examine(ctx context.Context, units activate.Units, probe activate.Probe, p activate.Plan) []activate.Check {
	u, err := units.Look(ctx, p.Unit)
	if err == nil && u.Active != "active" {
		err = fmt.Errorf("it is %s/%s (last result %s)", u.Active, u.Sub, u.Result)
	}
	checks := []activate.Check{check("unit", err)}
	if err != nil {
		return checks
	}
	if p.Healthz != "" {
		checks = append(checks, check("healthz", probe.Healthz(ctx, p.Healthz)))
	}
	if len(p.Flags) > 0 {
		checks = append(checks, check("flags", probe.Flags(ctx, u.MainPID, p.Flags)))
	}
	if len(p.Files) > 0 {
		checks = append(checks, check("files", probe.Files(ctx, p.Files)))
	}
	if p.Kubeconfig != "" {
		checks = append(checks, check("kubeconfig", probe.Kubeconfig(ctx, p.Kubeconfig)))
	}
	if p.Node != "" {
		checks = append(checks, check("node", probe.Node(ctx, p.Node)))
	}
	return checks
}

func check(name string, err error) activate.Check {
	var unknown interface{ Unknown() bool }
	switch {
	case err == nil:
		return activate.Check{Name: name, State: "ok"}
	case errors.As(err, &unknown) && unknown.Unknown():
		return activate.Check{Name: name, State: "unknown", Message: err.Error()}
	}
	return activate.Check{Name: name, State: "failed", Message: err.Error()}
}

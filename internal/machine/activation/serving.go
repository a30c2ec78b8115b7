package activation

import "context"

// ServingCheck is the name of the check that the kubelet has a certificate for its API.
const ServingCheck = "serving"

// checkServing checks whether the cluster has signed the certificate of the kubelet's API. That is never the fault of a
// generation: a person or a program in the cluster approves it. A cluster that does not answer is not reported.
func (w *watcher) checkServing(ctx context.Context, _ *look) effect {
	err := w.m.Node.Serving(ctx, w.spec.Serving)

	switch {
	case err == nil:
		w.addOK(ServingCheck)
	case isUnknown(err):
		w.addQuiet(ServingCheck, "unknown", err.Error())
	default:
		w.addQuiet(ServingCheck, Drift, err.Error())
	}

	return passes
}

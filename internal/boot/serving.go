package boot

import (
	"context"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// refuseServing returns why the kubelet would not accept a file of CAs (key is ""), or a certificate with its key:
// as planned, or as they are on the node. Planned CAs are checked here, so that a laptop can do it; all else is
// asked through the tape.
func (j ruleCheck) refuseServing(ctx context.Context, cert, key string) (why string, isKnown bool) {
	req := world.ServingReq{Cert: cert, Key: key}
	if f, ok := j.findWritten(ctx, cert); ok {
		text := f.Text.Template()
		switch {
		case j.isClusterCA(text):
			return "", true // the cluster was verified with it
		case key == "" && len(f.Text.Secrets()) == 0:
			return refuseCAs(cert, text), true
		}
		req.CertText = &text
	}
	if f, ok := j.findWritten(ctx, key); ok {
		req.KeyText = new(f.Text.Template())
	}

	// The question is part of a recording, and a recording must not contain a private key.
	if j.tape == nil || isPrivateKey(req.CertText) || isPrivateKey(req.KeyText) {
		return "", false
	}
	a, _, err := world.Serving.Ask(ctx, j.tape, req)

	return a.Refused, err == nil
}

func (j ruleCheck) isClusterCA(text string) bool {
	trust := j.basis.Trust

	return trust != nil && strings.TrimSpace(text) == strings.TrimSpace(trust.PEM)
}

func isPrivateKey(text *string) bool {
	return text != nil && strings.Contains(*text, "PRIVATE KEY")
}

// findPlanned returns the planned file at a path.
func (j ruleCheck) findPlanned(path string) (f node.File, ok bool) {
	return findFile(j.node, func(f node.File) bool {
		return f.Kind == node.Regular && f.Path == path
	})
}

// findWritten returns the planned file at a path. A create_only file that exists stays as it is.
func (j ruleCheck) findWritten(ctx context.Context, path string) (f node.File, ok bool) {
	f, ok = j.findPlanned(path)
	if ok && f.CreateOnly && j.tape != nil {
		a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: path})
		ok = !a.Exists || err != nil
	}

	return f, ok
}

// refuseCAs returns the kubelet's error for a text with CAs, as far as it shows without parsing the certificates,
// which package probe does; "" for none.
func refuseCAs(path, text string) string {
	if text == "" {
		return fmt.Sprintf("missing content for CA bundle \"client-ca-bundle::%s\"", path)
	}
	if why := kubelet.RefuseCertificates(text); why != "" {
		return fmt.Sprintf("error loading CA bundle for \"client-ca-bundle::%s\": %s", path, why)
	}

	return ""
}

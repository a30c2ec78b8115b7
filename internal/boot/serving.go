package boot

import (
	"context"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// refuseServing returns why the kubelet would not accept a file of CAs (key is ""), or a certificate with its key: as
// this plan writes them, or as they are on the node. CAs that the plan writes are checked here, so that a laptop can
// do it; all else is asked through the tape.
func (j judgement) refuseServing(ctx context.Context, cert, key string) (why string, isKnown bool) {
	q := world.ServingReq{Cert: cert, Key: key}
	for text, path := range map[**string]string{&q.CertText: cert, &q.KeyText: key} {
		f, ok := j.findPlanned(ctx, path)
		if !ok {
			continue
		}

		template := f.Text.Template()
		switch {
		case j.basis.trust != nil && strings.TrimSpace(template) == strings.TrimSpace(j.basis.trust.PEM):
			return "", true // the cluster was verified with it
		case key == "" && len(f.Text.Secrets()) == 0:
			return refuseCAs(cert, template), true
		case strings.Contains(template, "PRIVATE KEY"):
			return "", false // a question is part of the recording, and a key must not be
		}
		*text = &template
	}
	if j.tape == nil {
		return "", false
	}
	a, ans, err := world.Serving.Ask(ctx, j.tape, q)
	if j.noteMissing("whether the kubelet takes "+cert, ans) && j.assumed != nil {
		return "it cannot be used", true
	}

	return a.Refused, err == nil
}

// findPlanned returns the file that this plan writes to a path. A create_only file that exists stays as it is.
func (j judgement) findPlanned(ctx context.Context, path string) (f node.File, ok bool) {
	i := slices.IndexFunc(j.node.Files, func(f node.File) bool { return f.Kind == node.Regular && f.Path == path })
	if i < 0 {
		return f, false
	}

	f = j.node.Files[i]
	if f.CreateOnly && j.tape != nil {
		if exists, isKnown := j.askExists(ctx, path); isKnown && exists {
			return f, false
		}
	}

	return f, true
}

// refuseCAs returns the kubelet's error for a text with CAs, as far as it shows without parsing the certificates, which
// live.serving does; "": none.
func refuseCAs(path, text string) string {
	if text == "" {
		return fmt.Sprintf("missing content for CA bundle \"client-ca-bundle::%s\"", path)
	}
	if why := refusePEM(text); why != "" {
		return fmt.Sprintf("error loading CA bundle for \"client-ca-bundle::%s\": %s", path, why)
	}

	return ""
}

// refusePEM returns what is wrong with the certificates of a text: one is malformed, or there is none.
func refusePEM(text string) string {
	why := "data does not contain any valid RSA or ECDSA certificates"
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}

		why = ""
		var signed struct {
			Certificate, Algorithm asn1.RawValue
			Signature              asn1.BitString
		}
		if rest, err := asn1.Unmarshal(block.Bytes, &signed); err != nil || len(rest) > 0 {
			return "x509: malformed certificate"
		}
	}

	return why
}

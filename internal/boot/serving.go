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

// refused says why the kubelet would not take a file of CAs, or a certificate with a key: as this plan writes them, or
// as they are on the node. A CA that the plan writes is judged here, on a laptop too; all else the node looks at, and
// says what may be public.
func (j judgement) refuseServing(ctx context.Context, cert, key string) (why string, told bool) {
	q := world.ServingReq{Cert: cert, Key: key}
	for text, path := range map[**string]string{&q.CertText: cert, &q.KeyText: key} {
		f, ok := j.findPlanned(ctx, path)
		if !ok {
			continue
		}
		t := f.Text.Template()
		if j.basis.trust != nil && strings.TrimSpace(t) == strings.TrimSpace(j.basis.trust.PEM) {
			return "", true // the cluster was believed by it
		}
		if key == "" && len(f.Text.Secrets()) == 0 {
			return refuseCAs(cert, t), true
		}
		if strings.Contains(t, "PRIVATE KEY") {
			return "", false // a question is in the recording, where no key belongs that is not a credential
		}
		*text = &t
	}
	if j.tape == nil {
		return "", false
	}
	a, _, err := world.Serving.Ask(ctx, j.tape, q)
	return a.Refused, err == nil
}

// planned is what this plan writes to a file, if it does.
func (j judgement) findPlanned(ctx context.Context, path string) (f node.File, ok bool) {
	i := slices.IndexFunc(j.node.Files, func(f node.File) bool { return f.Kind == node.Regular && f.Path == path })
	if i < 0 {
		return f, false
	}
	if f = j.node.Files[i]; f.CreateOnly && j.tape != nil {
		if a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: path}); err == nil && a.Exists {
			return f, false // it stays as it is
		}
	}
	return f, true
}

// refuseCAs is what a kubelet says of a text with CAs, as far as it can be told without parsing the certificates:
// live.serving does that.
func refuseCAs(path, text string) string {
	if text == "" {
		return fmt.Sprintf("missing content for CA bundle \"client-ca-bundle::%s\"", path)
	}
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
			why = "x509: malformed certificate"
			break
		}
	}
	if why != "" {
		why = fmt.Sprintf("error loading CA bundle for \"client-ca-bundle::%s\": %s", path, why)
	}
	return why
}

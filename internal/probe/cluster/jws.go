package cluster

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const maxJWS = 4 << 10

// verifyJWS checks a detached JSON Web Signature as the bootstrap signer makes it: header..signature, HS256, kid the
// token's id, key the token's secret, payload the text of the kubeconfig (RFC 7515, appendix F). A header with any
// other member is refused, for it could change what was signed ("b64", "crit").
func verifyJWS(signature, payload, id, secret string) error {
	if len(signature) > maxJWS || strings.ContainsAny(signature, "\r\n") {
		return errors.New("the signature is too long, or more than one line")
	}
	parts := strings.Split(signature, ".")
	if len(parts) != 3 || parts[1] != "" {
		return errors.New("the signature is not a detached JWS (header..signature)")
	}
	enc := base64.RawURLEncoding.Strict()
	head, err := enc.DecodeString(parts[0])
	if err != nil {
		return errors.New("the signature's header is not base64url")
	}
	mac, err := enc.DecodeString(parts[2])
	if err != nil {
		return errors.New("the signature is not base64url")
	}
	var h struct {
		Alg string `json:"alg"`
		Kid string `json:"kid"`
	}
	d := json.NewDecoder(bytes.NewReader(head))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil || d.More() {
		return errors.New("the signature's header is not a JSON object of alg and kid")
	}
	if h.Alg != "HS256" {
		return fmt.Errorf("the signature is made with %q, not HS256", quote(h.Alg))
	}
	if h.Kid != id {
		return fmt.Errorf("the signature names token %q, not %q", quote(h.Kid), id)
	}
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(parts[0]))
	m.Write([]byte{'.'})
	m.Write([]byte(base64.RawURLEncoding.EncodeToString([]byte(payload))))
	if !hmac.Equal(m.Sum(nil), mac) {
		return fmt.Errorf("the signature does not match the token %q", id)
	}
	return nil
}

package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// verifyJWS checks a signature of the bootstrap signer: a detached JSON Web Signature (RFC 7515, appendix F) of the
// kubeconfig's text, with HS256, the token's id as kid and the token's secret as key. As kubeadm does, it makes the
// signature again and compares the whole text, so no other header is accepted, which could change the signed text
// ("b64", "crit"). id has only letters and digits.
//
// Source: k8s.io/cluster-bootstrap/token/jws, DetachedTokenIsValid.
func verifyJWS(signature, payload, id, secret string) error {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"` + id + `"}`))

	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + encode([]byte(payload))))
	expected := header + ".." + encode(mac.Sum(nil))

	if !hmac.Equal([]byte(signature), []byte(expected)) {
		return fmt.Errorf("the signature does not match the token %q", id)
	}

	return nil
}

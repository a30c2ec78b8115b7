package kubelet

import (
	"encoding/asn1"
	"encoding/pem"
)

// RefuseCertificates returns why the kubelet rejects a text with certificates: one does not have the structure of a
// certificate (RFC 5280, 4.1), or there is none; "" if it accepts the text. crypto/x509, which would find more, reaches
// the network's packages.
func RefuseCertificates(text string) string {
	why := "data does not contain any valid RSA or ECDSA certificates"
	block, rest := pem.Decode([]byte(text))
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 { // client-go skips it as well
			continue
		}

		why = ""
		var signed struct {
			Certificate, Algorithm asn1.RawValue
			Signature              asn1.BitString
		}
		after, err := asn1.Unmarshal(block.Bytes, &signed)
		if err != nil || len(after) > 0 {
			return "x509: malformed certificate"
		}
	}

	return why
}

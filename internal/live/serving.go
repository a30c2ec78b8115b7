package live

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// serving looks at certificates as a kubelet does when it starts. What of a private key leaves this place is whether it is one, and
// that of the certificate.
func (l *Live) serving(r world.ServingReq) world.Answer {
	if l.elsewhere() && (r.CertText == nil || r.Key != "" && r.KeyText == nil) {
		return world.Failure(fault.Absent, "what will be there is not known below another root", "")
	}
	cert, f := l.content(r.Cert, r.CertText)
	if f != nil {
		return world.Answer{Fault: f}
	}
	if r.Key == "" {
		return refusal(refuseCAs(r.Cert, cert))
	}
	key, f := l.content(r.Key, r.KeyText)
	if f != nil {
		return world.Answer{Fault: f}
	}
	if len(cert) == 0 || len(key) == 0 {
		return refusal(fmt.Errorf("missing content for serving cert \"kubelet-server-cert-files::%s::%s\"", r.Cert, r.Key))
	}
	_, err := tls.X509KeyPair(cert, key)
	return refusal(err)
}

// mostRefusal bounds a refusal: it may have words of the file in it, such as the types of PEM blocks.
const mostRefusal = 300

func refusal(err error) world.Answer {
	var out world.ServingAns
	if err != nil {
		out.Refused = err.Error()
		out.Refused = out.Refused[:min(len(out.Refused), mostRefusal)]
	}
	return world.Serving.Answer(out)
}

// content is what a file will hold: what the plan writes, or what is there.
func (l *Live) content(path string, planned *string) ([]byte, *fault.Fault) {
	if planned == nil {
		return l.root().Bytes(path)
	}
	text, err := value.ResolvePlaceholders(*planned, l.Secret)
	if err != nil {
		return nil, &fault.Fault{Code: fault.CredentialMissing, Why: "what the plan writes to " + path + " needs a credential that is not here"}
	}
	return []byte(text), nil
}

// refuseCAs is loadCABundle of k8s.io/apiserver/pkg/server/dynamiccertificates, with ParseCertsPEM of k8s.io/client-go/util/cert.
func refuseCAs(path string, text []byte) error {
	if len(text) == 0 {
		return fmt.Errorf("missing content for CA bundle \"client-ca-bundle::%s\"", path)
	}
	why := errors.New("data does not contain any valid RSA or ECDSA certificates")
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, why = x509.ParseCertificate(block.Bytes); why != nil {
			break
		}
	}
	if why != nil {
		return fmt.Errorf("error loading CA bundle for \"client-ca-bundle::%s\": %w", path, why)
	}
	return nil
}

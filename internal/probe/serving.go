package live

import (
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/world"
)

// answerServing returns why a kubelet would refuse certificates when it starts. Of a private key, only whether it is
// one and belongs to the certificate leaves this package.
func (l *Live) answerServing(r world.ServingReq) world.Answer {
	if l.isOtherMachine() && (r.CertText == nil || r.Key != "" && r.KeyText == nil) {
		return world.Failure(fault.Absent, "what will be there is not known below another root", "")
	}
	if r.CertText == nil && l.isFolder(r.Cert) {
		return refusal(fmt.Errorf("read %s: is a directory", r.Cert))
	}
	if r.Key != "" && r.KeyText == nil && l.isFolder(r.Key) {
		return refusal(fmt.Errorf("read %s: is a directory", r.Key))
	}

	cert, f := l.contentOf(r.Cert, r.CertText)
	if f != nil {
		return world.Answer{Fault: f}
	}
	if r.Key == "" {
		return refusal(program.CheckClientCAs(r.Cert, cert))
	}

	key, f := l.contentOf(r.Key, r.KeyText)
	if f != nil {
		return world.Answer{Fault: f}
	}
	return refusal(program.CheckServingPair(r.Cert, cert, r.Key, key))
}

// maxRefusal is the number of bytes of a refusal that is kept: a refusal can repeat text of the file, such as the types
// of PEM blocks.
const maxRefusal = 300

// refusal returns an error of the kubelet as an answer; nil means that the kubelet takes the file.
func refusal(err error) world.Answer {
	var out world.ServingAns
	if err != nil {
		out.Refused = err.Error()
		out.Refused = out.Refused[:min(len(out.Refused), maxRefusal)]
	}
	return world.Serving.Answer(out)
}

func (l *Live) isFolder(path string) bool {
	look, err := l.root().Look(path, nodefile.FollowAll)
	if err != nil {
		return false
	}
	defer look.Close()
	return look.Mode().IsDir()
}

// contentOf returns what a file will have: the planned text with its secrets, or, without one, what the file has now.
func (l *Live) contentOf(path string, planned *string) ([]byte, *fault.Fault) {
	if planned == nil {
		return l.root().Bytes(path)
	}

	text, err := value.ResolvePlaceholders(*planned, l.Secret)
	if err != nil {
		return nil, &fault.Fault{
			Code: fault.CredentialMissing,
			Why:  "what the plan writes to " + path + " needs a credential that is not here",
		}
	}
	return []byte(text), nil
}

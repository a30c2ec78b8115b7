package probe

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/plugins/contract"
)

// answerServing returns why a kubelet would refuse certificates when it starts. Of a private key, only whether it is
// valid and matches the certificate leaves this package.
func (l *Live) answerServing(_ context.Context, r tape.ServingReq) tape.Answer {
	readsCert := r.CertText == nil
	readsKey := r.Key != "" && r.KeyText == nil
	if l.isOtherMachine() && (readsCert || readsKey) {
		return tape.Failure(fault.Absent, "the existing certificates are unknown below another root", "")
	}

	if readsCert && l.isFolder(r.Cert) {
		return servingAnswer(fmt.Errorf("read %s: is a directory", r.Cert))
	}

	if readsKey && l.isFolder(r.Key) {
		return servingAnswer(fmt.Errorf("read %s: is a directory", r.Key))
	}

	cert, f := l.plannedContent(r.Cert, r.CertText)
	if f != nil {
		return tape.Answer{Fault: f}
	}

	if r.Key == "" {
		return servingAnswer(kubeletbin.CheckClientCAs(r.Cert, cert))
	}

	key, f := l.plannedContent(r.Key, r.KeyText)
	if f != nil {
		return tape.Answer{Fault: f}
	}

	return servingAnswer(kubeletbin.CheckServingPair(r.Cert, cert, r.Key, key))
}

// maxRefusal limits a refusal, in bytes: it can repeat text of the file, such as the types of PEM blocks.
const maxRefusal = 300

// servingAnswer returns an error of the kubelet as an answer; nil means that the kubelet accepts the file.
func servingAnswer(err error) tape.Answer {
	var out tape.ServingAns
	if err != nil {
		out.Refused = contract.Shorten(err.Error(), maxRefusal)
	}

	return tape.Serving.Answer(out)
}

func (l *Live) isFolder(path string) bool {
	found, err := l.root().Look(path, nodefile.FollowAll)
	if err != nil {
		return false
	}
	defer found.Close()

	return found.Mode().IsDir()
}

// plannedContent returns the planned text of a file with its secrets, or the existing content if no text is planned.
func (l *Live) plannedContent(path string, planned *string) ([]byte, *fault.Fault) {
	if planned == nil {
		return l.root().Bytes(path)
	}

	text, err := secret.ResolvePlaceholders(*planned, l.Secret)
	if err != nil {
		return nil, &fault.Fault{
			Code: fault.CredentialMissing,
			Why:  "the planned content of " + path + " needs a missing credential",
		}
	}

	return []byte(text), nil
}

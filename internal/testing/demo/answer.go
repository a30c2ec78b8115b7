package demo

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BadResponse is a response of a server that misbehaves. @TOKEN@ in its texts is the token of the request.
type BadResponse struct {
	Status   int // with no body, of a Status
	Header   map[string]string
	Body     string
	Times    int    // how often
	Repeated string // follows the body
	Raw      bool   // the body replaces HTTP, and the connection is closed after it
	Trickle  bool   // a space now and then follows, for ever
}

// Respond is Server.Intercept.
func (a BadResponse) Respond(w http.ResponseWriter, r *http.Request, _ int) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	fill := strings.NewReplacer("@TOKEN@", token).Replace
	body := fill(a.Body) + strings.Repeat(a.Repeated, a.Times)
	for name, value := range a.Header {
		w.Header().Set(name, fill(value))
	}

	var out io.Writer = w
	switch {
	case a.Raw:
		conn, _, _ := http.NewResponseController(w).Hijack() // requests are of HTTP/1.1, so it does not fail
		defer conn.Close()
		out = conn
	case a.Header["Content-Encoding"] == "gzip":
		z := gzip.NewWriter(w)
		defer z.Close()
		out = z
	case a.Status > 0 && body == "":
		status, body := refuse(&apierrors.StatusError{ErrStatus: metav1.Status{
			Code:    int32(a.Status),
			Reason:  metav1.StatusReason(http.StatusText(a.Status)),
			Message: "as the test wishes",
		}})
		write(w, status, body)
	case a.Status > 0:
		w.WriteHeader(a.Status)
	}

	_, err := io.WriteString(out, body)
	for err == nil && a.Trickle {
		time.Sleep(5 * time.Millisecond) // slowness on a real connection is its purpose
		_, err = io.WriteString(out, " ")
	}

	return true
}

package kube

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"time"
)

// Request is a request that reached the API server, from its audit log.
type Request struct {
	ID        string `json:"auditID"`
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"` // 0: it was never answered
	} `json:"responseStatus"`
	Came     time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"` // if it was
}

// auditPolicy logs each request, without bodies, in each stage: a request during which the server was killed is only
// received, and a request with an unknown bearer token never completes.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
`

// Requests are those whose User-Agent begins so, since the API server was started with Options.Audit, in the order of
// their answers. The server writes its log as it answers, so nothing that was answered is missing.
func (c *Cluster) Requests(userAgent string) ([]Request, error) {
	_, answered, err := c.audited(userAgent)
	return answered, err
}

// Received are those, too, that were never answered, in the order in which they came.
func (c *Cluster) Received(userAgent string) ([]Request, error) {
	received, _, err := c.audited(userAgent)
	return received, err
}

func (c *Cluster) audited(userAgent string) (received, answered []Request, err error) {
	f, err := os.Open(c.Path("audit.log"))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	at := map[string]int{} // in received
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, nil, err
		}
		if !strings.HasPrefix(r.UserAgent, userAgent) {
			continue
		}
		i, known := at[r.ID]
		if !known {
			i = len(received)
			at[r.ID], received = i, append(received, r)
		}
		// A watch is answered, and completes much later.
		if r.Response.Code != 0 && (!known || received[i].Response.Code == 0) {
			received[i], answered = r, append(answered, r)
		}
	}
	return received, answered, lines.Err()
}

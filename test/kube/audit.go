package kube

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
)

// Request is one that the API server answered, from its audit log.
type Request struct {
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// auditPolicy has each request that was answered, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// Requests are those whose User-Agent begins so, since the API server was started with Options.Audit. The server writes its log as it
// answers, so nothing that was answered is missing.
func (c *Cluster) Requests(userAgent string) (out []Request, err error) {
	f, err := os.Open(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		if strings.HasPrefix(r.UserAgent, userAgent) {
			out = append(out, r)
		}
	}
	return out, lines.Err()
}

package kube

import (
	"encoding/json"
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
	Patch    json.RawMessage `json:"requestObject"` // of a PATCH of a Node
	Came     time.Time       `json:"requestReceivedTimestamp"`
	Answered time.Time       `json:"stageTimestamp"` // if it was
}

// auditPolicy logs each request in each stage, without bodies except patches of Nodes: a request during which the
// server was killed is only received, and a request with an unknown bearer token never completes.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Request
  verbs: [patch]
  resources: [{resources: [nodes, nodes/status]}]
- level: Metadata
`

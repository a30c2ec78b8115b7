package kubeletstate

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ServingSigner signs the certificates of kubelets' APIs. No part of Kubernetes approves their requests.
const ServingSigner = "kubernetes.io/kubelet-serving"

// ClientSigner signs the certificates with which kubelets connect to the cluster. kubeadm lets a controller approve
// their requests.
const ClientSigner = "kubernetes.io/kube-apiserver-client-kubelet"

// maxRequests limits the list of the requests in a cluster. Pending ones are removed after a day.
const maxRequests = 500

// RequestsPath is the path of the API server that lists the requests to a signer. A field selector for the node does
// not exist.
func RequestsPath(signer string) string {
	query := url.Values{
		"fieldSelector": {"spec.signerName=" + signer},
		"limit":         {strconv.Itoa(maxRequests)},
	}

	return "/apis/certificates.k8s.io/v1/certificatesigningrequests?" + query.Encode()
}

// CertificateRequest is a node's request for a certificate.
type CertificateRequest struct {
	Name    string
	Created time.Time
	State   string // pending, approved (and not signed), signed, denied or failed
	Why     string // the reason and the message of the condition, if it has one
}

// ParseRequests returns the requests of a node to a signer in a list of CertificateSigningRequests, the newest first.
// isComplete is false if the cluster has more than the list.
func ParseRequests(body []byte, signer, node string) (own []CertificateRequest, isComplete bool, err error) {
	var list struct {
		Kind     string
		Metadata struct{ Continue string }
		Items    []csr
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, false, fmt.Errorf("invalid list of CertificateSigningRequests: %w", err)
	}
	if list.Kind != "CertificateSigningRequestList" {
		return nil, false, fmt.Errorf("invalid list of CertificateSigningRequests: kind is %q", list.Kind)
	}

	for _, r := range list.Items {
		if r.Spec.SignerName == signer && r.isOf("system:node:"+node) {
			own = append(own, r.describe())
		}
	}
	slices.SortStableFunc(own, func(a, b CertificateRequest) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name))
	})

	return own, list.Metadata.Continue == "", nil
}

// csr has the fields of a CertificateSigningRequest that are read.
type csr struct {
	Metadata struct {
		Name    string    `json:"name"`
		Created time.Time `json:"creationTimestamp"`
	}
	Spec struct {
		Username, SignerName string
		Request              []byte // a PKCS #10 request, PEM
	}
	Status struct {
		Certificate []byte
		Conditions  []struct{ Type, Reason, Message string }
	}
}

// isOf reports whether the request is of a user, or of a machine that joins to become that user.
func (c csr) isOf(user string) bool {
	if c.Spec.SignerName != ClientSigner {
		return c.Spec.Username == user
	}
	block, _ := pem.Decode(c.Spec.Request)
	if block == nil {
		return false
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)

	return err == nil && r.Subject.CommonName == user
}

func (c csr) describe() CertificateRequest {
	r := CertificateRequest{Name: c.Metadata.Name, Created: c.Metadata.Created, State: "pending"}
	for _, condition := range c.Status.Conditions { // Failed comes in addition to Approved
		isWorse := r.State != "denied" && r.State != "failed"
		state := strings.ToLower(condition.Type)
		isKnown := slices.Contains([]string{"approved", "denied", "failed"}, state)
		if isWorse && isKnown {
			r.State = state
			r.Why = strings.Trim(condition.Reason+": "+condition.Message, ": ")
		}
	}
	if len(c.Status.Certificate) > 0 && r.State == "approved" {
		r.State = "signed"
	}

	return r
}

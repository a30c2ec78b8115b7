package kubelet

import (
	"cmp"
	"encoding/json"
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

// maxServingRequests limits the list of the requests in a cluster. Pending ones are removed after a day.
const maxServingRequests = 500

// ServingRequestsPath is the path of the API server that lists the requests for certificates of kubelets' APIs. A field
// selector for the node does not exist.
func ServingRequestsPath() string {
	query := url.Values{
		"fieldSelector": {"spec.signerName=" + ServingSigner},
		"limit":         {strconv.Itoa(maxServingRequests)},
	}

	return "/apis/certificates.k8s.io/v1/certificatesigningrequests?" + query.Encode()
}

// ServingRequest is a node's request for a certificate of its kubelet's API.
type ServingRequest struct {
	Name    string
	Created time.Time
	State   string // pending, approved (and not signed), signed, denied or failed
	Why     string // the reason and the message of the condition, if it has one
}

// ParseServingRequests returns the requests of a node in a list of CertificateSigningRequests, the newest first.
// isComplete is false if the cluster has more than the list.
func ParseServingRequests(body []byte, node string) (own []ServingRequest, isComplete bool, err error) {
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
		if r.Spec.Username == "system:node:"+node && r.Spec.SignerName == ServingSigner {
			own = append(own, r.describe())
		}
	}
	slices.SortStableFunc(own, func(a, b ServingRequest) int {
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
	Spec   struct{ Username, SignerName string }
	Status struct {
		Certificate []byte
		Conditions  []struct{ Type, Reason, Message string }
	}
}

func (c csr) describe() ServingRequest {
	r := ServingRequest{Name: c.Metadata.Name, Created: c.Metadata.Created, State: "pending"}
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

package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// TestLargestConfigMap reads as much data as the API takes, of the characters that JSON makes longest.
func TestLargestConfigMap(t *testing.T) {
	h := newHostile(t, nil)
	text := strings.Repeat("<", 1<<20-100)
	h.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": text})
	o, err := fetchConfigMap(within(t, time.Minute), h.object(), fast())
	if err != nil || o.Data["kubelet"] != text {
		t.Errorf("got %d bytes, %v; want %d", len(o.Data["kubelet"]), err, len(text))
	}
}

// TestBinaryData reads texts that a client put into binaryData, and reports by name content that is not text.
func TestBinaryData(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = demo.BadResponse{Body: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"kubelet-config",` +
		`"namespace":"kube-system"},"binaryData":{"kubelet":"bWF4UG9kczogMwo=","utf16":"//5hAA=="}}`}.Respond
	o, err := fetchConfigMap(within(t, time.Minute), h.object(), fast())
	if err != nil || o.Data["kubelet"] != "maxPods: 3\n" || len(o.Data) != 1 ||
		!slices.Equal(o.Binary, []string{"utf16"}) {
		t.Errorf("got %+v, %v; want the text of kubelet, and utf16 named", o, err)
	}
}

// TestBytesThatAreNoText refuses an answer whose bytes would be replaced.
func TestBytesThatAreNoText(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = demo.BadResponse{Body: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"kubelet-config",` +
		`"namespace":"kube-system"},"data":{"kubelet":"clusterDomain: ` + "\xff\xfe" + `.local"}}`}.Respond
	o, err := fetchConfigMap(within(t, time.Minute), h.object(), fast())
	want{Code: fault.ClusterUnusable, Text: []string{"bytes that are not UTF-8"}}.check(t, err)
	if len(o.Data) != 0 {
		t.Errorf("got %q, want no data", o.Data)
	}
}

// TestAnonymousIsRefused looks at the next step after a 401 for cluster-info: no Role helps.
func TestAnonymousIsRefused(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = answerWith(401)
	_, err := FetchTrust(within(t, time.Minute), h.pinned(), givingUp(fast(), 2))
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != fault.ClusterDenied || !strings.Contains(f.Next, "AuthenticationConfiguration") ||
		!strings.Contains(f.Next, "ca_file") ||
		strings.Contains(f.Next, "bootstrap-signer") {
		t.Errorf("got %+v, want the conditions of anonymous requests, or ca_file, and no Role", f)
	}
}

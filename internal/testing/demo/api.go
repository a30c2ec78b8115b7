package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// authenticate returns the user of a request and its groups, by the rules of kube-apiserver: the name and organisation
// of a client certificate, a bootstrap token, or else anonymous. ok is false for a credential that is not accepted.
func (s *Server) authenticate(r *http.Request) (user string, groups []string, ok bool) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		groups = append(slices.Clone(subject.Organization), "system:authenticated")
		return subject.CommonName, groups, true
	}

	header := r.Header.Get("Authorization")
	if header == "" {
		return "system:anonymous", []string{"system:unauthenticated"}, true
	}

	s.mu.Lock()
	isExpired := s.expired
	s.mu.Unlock()
	if isExpired || header != "Bearer "+Token {
		return "", nil, false
	}

	groups = []string{
		"system:bootstrappers",
		"system:bootstrappers:kubeadm:default-node-token",
		"system:authenticated",
	}

	return "system:bootstrap:" + TokenID, groups, true
}

// respond returns the status and the body for a request.
func (s *Server) respond(
	r *http.Request,
	user string,
	groups []string,
	isAuthenticated bool,
) (int, []byte) {
	if !isAuthenticated {
		return refuse(apierrors.NewUnauthorized("Unauthorized"))
	}

	switch r.URL.Path {
	case "/healthz", "/livez", "/readyz":
		return http.StatusOK, []byte("ok")
	case "/version":
		return encode(http.StatusOK, map[string]string{
			"major":      "1",
			"minor":      "36",
			"gitVersion": "v1.36.3",
			"platform":   "linux/amd64",
		})
	}

	path, isStatus := strings.CutSuffix(r.URL.Path, "/status")
	node, isNode := nodePath(path)
	switch {
	case isNode && isStatus && r.Method == http.MethodPatch:
		return s.respondNodeStatus(r, node, user, groups)
	case isNode && !isStatus:
		return s.respondNode(r, node, user, groups)
	}

	namespace, name, isConfigMap := configMapPath(r.URL.Path)
	switch {
	case !isConfigMap:
		return refuseRequest(http.StatusNotFound)
	case r.Method != http.MethodGet:
		return refuseRequest(http.StatusMethodNotAllowed)
	}

	return s.respondConfigMap(namespace, name, user, groups)
}

func (s *Server) respondConfigMap(namespace, name, user string, groups []string) (int, []byte) {
	key := namespace + "/" + name
	s.mu.Lock()
	object, exists := s.objects[key]
	isDenied := s.denied[key]
	s.mu.Unlock()

	resource := schema.GroupResource{Resource: "configmaps"}
	switch {
	case isDenied || !mayRead(key, groups):
		const format = `User %q cannot get resource "configmaps" in API group "" in the namespace %q`
		why := fmt.Sprintf(format, user, namespace)
		return refuse(apierrors.NewForbidden(resource, name, errors.New(why)))
	case !exists:
		return refuse(apierrors.NewNotFound(resource, name))
	}

	metadata := map[string]string{
		"name":              name,
		"namespace":         namespace,
		"uid":               fmt.Sprintf("00000000-0000-4000-8000-%012d", object.version),
		"resourceVersion":   strconv.Itoa(object.version),
		"creationTimestamp": object.made.UTC().Format(time.RFC3339),
	}

	return encode(http.StatusOK, map[string]any{
		"kind":       "ConfigMap",
		"apiVersion": "v1",
		"metadata":   metadata,
		"data":       object.data,
	})
}

// mayRead reports whether groups may read a ConfigMap, by kubeadm's Roles: cluster-info is public, nodes that have
// joined or join read the rest.
func mayRead(key string, groups []string) bool {
	if key == "kube-public/cluster-info" {
		return true
	}

	for _, group := range groups {
		switch group {
		case "system:bootstrappers", "system:nodes", "system:masters":
			return true
		}
	}

	return false
}

// configMapPath parses /api/v1/namespaces/NAMESPACE/configmaps/NAME.
func configMapPath(path string) (namespace, name string, ok bool) {
	rest, hasPrefix := strings.CutPrefix(path, "/api/v1/namespaces/")
	namespace, name, hasInfix := strings.Cut(rest, "/configmaps/")
	isComplete := namespace != "" && name != ""
	isPlain := !strings.Contains(namespace+name, "/")

	return namespace, name, hasPrefix && hasInfix && isComplete && isPlain
}

// refuse returns the Status of an error as kube-apiserver writes it.
func refuse(err *apierrors.StatusError) (int, []byte) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}

	return encode(int(status.Code), status)
}

// refuseRequest refuses a request that no handler takes.
func refuseRequest(code int) (int, []byte) {
	return refuse(apierrors.NewGenericServerResponse(
		code,
		"",
		schema.GroupResource{},
		"",
		"",
		0,
		false,
	))
}

func encode(code int, v any) (int, []byte) {
	body, err := json.Marshal(v)
	if err != nil { // structs and maps of strings and numbers do not fail
		panic(err)
	}

	return code, append(body, '\n')
}

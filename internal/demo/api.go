package demo

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// authenticate says who asks, by the rules of kube-apiserver: a client certificate's name and organisation, a
// bootstrap token, or else anonymous. A credential that is not accepted is no reason to be anonymous.
func (s *Server) authenticate(r *http.Request) (user string, groups []string, ok bool) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		return subject.CommonName, append(slices.Clone(subject.Organization), "system:authenticated"), true
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return "system:anonymous", []string{"system:unauthenticated"}, true
	}
	token, isBearer := strings.CutPrefix(header, "Bearer ")
	s.mu.Lock()
	expired := s.expired
	s.mu.Unlock()
	if expired || !isBearer || subtle.ConstantTimeCompare([]byte(token), []byte(s.opts.Token)) != 1 {
		return "", nil, false
	}
	return "system:bootstrap:" + s.id, []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"}, true
}

func (s *Server) respond(r *http.Request, user string, groups []string, authenticated bool) (int, []byte) {
	if !authenticated {
		return failure(http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil)
	}
	switch r.URL.Path {
	case "/healthz", "/livez", "/readyz":
		return http.StatusOK, []byte("ok")
	case "/version":
		return encode(http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "linux/amd64"})
	}
	if name, ok := nodePath(r.URL.Path); ok {
		return s.node(r, name, user, groups)
	}
	namespace, name, ok := configMapPath(r.URL.Path)
	switch {
	case !ok:
		return failure(http.StatusNotFound, "NotFound", "the server could not find the requested resource", map[string]string{})
	case r.Method != http.MethodGet:
		return failure(http.StatusMethodNotAllowed, "MethodNotAllowed", "the server does not allow this method on the requested resource", map[string]string{})
	}
	details := map[string]string{"name": name, "kind": "configmaps"}
	key := namespace + "/" + name
	s.mu.Lock()
	object, exists := s.objects[key]
	denied := s.denied[key]
	s.mu.Unlock()
	if denied || !mayRead(key, groups) {
		return failure(http.StatusForbidden, "Forbidden", fmt.Sprintf("configmaps %q is forbidden: User %q cannot get resource \"configmaps\" in API group \"\" in the namespace %q", name, user, namespace), details)
	}
	if !exists {
		return failure(http.StatusNotFound, "NotFound", fmt.Sprintf("configmaps %q not found", name), details)
	}
	return encode(http.StatusOK, map[string]any{
		"kind":       "ConfigMap",
		"apiVersion": "v1",
		"metadata": map[string]string{
			"name":              name,
			"namespace":         namespace,
			"uid":               fmt.Sprintf("00000000-0000-4000-8000-%012d", object.version),
			"resourceVersion":   strconv.Itoa(object.version),
			"creationTimestamp": object.made.UTC().Format(time.RFC3339),
		},
		"data": object.data,
	})
}

// mayRead is what kubeadm's Roles come to: cluster-info for everybody, the rest for nodes, joined or joining.
func mayRead(key string, groups []string) bool {
	return key == "kube-public/cluster-info" || slices.Contains(groups, "system:bootstrappers") || slices.Contains(groups, "system:nodes") || slices.Contains(groups, "system:masters")
}

// configMapPath takes /api/v1/namespaces/NAMESPACE/configmaps/NAME apart.
func configMapPath(path string) (namespace, name string, ok bool) {
	p := strings.Split(path, "/")
	if len(p) != 7 || p[1] != "api" || p[2] != "v1" || p[3] != "namespaces" || p[5] != "configmaps" || p[4] == "" || p[6] == "" {
		return "", "", false
	}
	return p[4], p[6], true
}

// failure is a Status object as kube-apiserver writes it.
func failure(code int, reason, message string, details map[string]string) (int, []byte) {
	status := map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]string{},
		"status": "Failure", "message": message, "reason": reason, "code": code,
	}
	if details != nil {
		status["details"] = details
	}
	return encode(code, status)
}

func encode(code int, v any) (int, []byte) {
	body, err := json.Marshal(v)
	if err != nil { // maps of strings and numbers do not fail
		panic(err)
	}
	return code, append(body, '\n')
}

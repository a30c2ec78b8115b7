package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

const (
	nodesPath   = "/api/v1/nodes"
	maxNodeSize = 1 << 20
)

// nodePath takes /api/v1/nodes and /api/v1/nodes/NAME apart.
func nodePath(path string) (name string, ok bool) {
	if path == nodesPath {
		return "", true
	}
	name, ok = strings.CutPrefix(path, nodesPath+"/")
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// node serves what a kubelet does at its start: it makes its own Node object and reads it. Another node's it may
// neither make nor read, by the node authorizer and the NodeRestriction plugin; whoever joins may read any.
func (s *Server) node(r *http.Request, name, user string, groups []string) (int, []byte) {
	self, isNode := strings.CutPrefix(user, "system:node:")
	isNode = isNode && slices.Contains(groups, "system:nodes")
	isJoining := slices.Contains(groups, "system:bootstrappers") // kubeadm's ClusterRole kubeadm:get-nodes
	switch {
	case r.Method == http.MethodGet && name != "" && (isNode && name == self || isJoining && !s.hidesNodes()):
		s.mu.Lock()
		object, exists := s.nodes[name]
		s.mu.Unlock()
		if !exists {
			return failure(http.StatusNotFound, "NotFound", fmt.Sprintf("nodes %q not found", name), map[string]string{"name": name, "kind": "nodes"})
		}
		return http.StatusOK, object
	case r.Method == http.MethodPost && name == "" && isNode:
		return s.register(r, self)
	}
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create"}[r.Method]
	return failure(http.StatusForbidden, "Forbidden", fmt.Sprintf("nodes %q is forbidden: User %q cannot %s resource \"nodes\" in API group \"\" at the cluster scope", name, user, verb),
		map[string]string{"name": name, "kind": "nodes"})
}

func (s *Server) register(r *http.Request, self string) (int, []byte) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxNodeSize))
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	if err != nil {
		return failure(http.StatusBadRequest, "BadRequest", err.Error(), map[string]string{})
	}
	name := object.Metadata.Name
	details := map[string]string{"name": name, "kind": "nodes"}
	if name != self {
		return failure(http.StatusForbidden, "Forbidden", fmt.Sprintf("nodes %q is forbidden: node %q is not allowed to modify node %q", name, self, name), details)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.nodes[name]; exists {
		return failure(http.StatusConflict, "AlreadyExists", fmt.Sprintf("nodes %q already exists", name), details)
	}
	s.nodes[name] = body
	return http.StatusCreated, body
}

// SetNode makes the Node object of a name, as another machine would; nil removes it.
func (s *Server) SetNode(name string, object []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object == nil {
		delete(s.nodes, name)
		return
	}
	s.nodes[name] = object
}

// HideNodes takes from those who join the right to read Nodes.
func (s *Server) HideNodes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodesHidden = true
}

func (s *Server) hidesNodes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodesHidden
}

// Node is the object that a node registered, or nil.
func (s *Server) Node(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes[name])
}

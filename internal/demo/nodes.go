package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	nodesPath   = "/api/v1/nodes"
	maxNodeSize = 1 << 20
)

// nodePath parses /api/v1/nodes and /api/v1/nodes/NAME; name is "" for the first.
func nodePath(path string) (name string, ok bool) {
	if path == nodesPath {
		return "", true
	}
	name, ok = strings.CutPrefix(path, nodesPath+"/")

	return name, ok && name != "" && !strings.Contains(name, "/")
}

// respondNode serves the requests of a starting kubelet: it creates its own Node object and reads it. It may neither
// create nor read that of another node, by the node authorizer and the NodeRestriction plugin. A joining node may read
// any, by kubeadm's ClusterRole kubeadm:get-nodes.
func (s *Server) respondNode(r *http.Request, name, user string, groups []string) (int, []byte) {
	self, hasNodeName := strings.CutPrefix(user, "system:node:")
	isNode := hasNodeName && slices.Contains(groups, "system:nodes")
	isJoining := slices.Contains(groups, "system:bootstrappers")
	isReader := isJoining && !s.hidesNodes() || isNode && name == self

	verb := ""
	switch r.Method {
	case http.MethodGet:
		if name != "" && isReader {
			return s.respondRead(name)
		}
		verb = "get"
	case http.MethodPost:
		if name == "" && isNode {
			return s.register(r, self)
		}
		verb = "create"
	}

	message := fmt.Sprintf("nodes %q is forbidden: User %q cannot %s resource \"nodes\" "+
		"in API group \"\" at the cluster scope", name, user, verb)

	return failure(http.StatusForbidden, message, nodeDetails(name))
}

// respondRead returns the Node object of a name.
func (s *Server) respondRead(name string) (int, []byte) {
	object := s.Node(name)
	if object != nil {
		return http.StatusOK, object
	}
	message := fmt.Sprintf("nodes %q not found", name)

	return failure(http.StatusNotFound, message, nodeDetails(name))
}

func nodeDetails(name string) map[string]string {
	return map[string]string{"name": name, "kind": "nodes"}
}

// register creates the Node object of the node self.
func (s *Server) register(r *http.Request, self string) (int, []byte) {
	limited := io.LimitReader(r.Body, maxNodeSize)
	body, err := io.ReadAll(limited)
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	if err != nil {
		return failure(http.StatusBadRequest, err.Error(), map[string]string{})
	}

	name := object.Metadata.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.nodes[name]
	switch {
	case name != self:
		message := fmt.Sprintf("nodes %q is forbidden: node %q is not allowed to modify node %q", name, self, name)
		return failure(http.StatusForbidden, message, nodeDetails(name))
	case exists:
		message := fmt.Sprintf("nodes %q already exists", name)
		return failure(http.StatusConflict, message, nodeDetails(name))
	}
	s.nodes[name] = body

	return http.StatusCreated, body
}

// SetNode sets the Node object of a name, as another machine would; nil removes it.
func (s *Server) SetNode(name string, object []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object == nil {
		delete(s.nodes, name)
		return
	}
	s.nodes[name] = object
}

// HideNodes removes the right of joining nodes to read Nodes.
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

// Node returns the object that a node registered; nil if there is none.
func (s *Server) Node(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes[name])
}

// respondNodeStatus changes the conditions of a Node, for the node itself: a strategic merge patch, in which a
// condition is found by its type.
func (s *Server) respondNodeStatus(r *http.Request, name, user string, groups []string) (int, []byte) {
	isOwn := user == "system:node:"+name && slices.Contains(groups, "system:nodes")
	if !isOwn {
		message := fmt.Sprintf("nodes %q is forbidden: User %q cannot patch resource \"nodes/status\"", name, user)
		return failure(http.StatusForbidden, message, nodeDetails(name))
	}

	type status struct {
		Conditions []map[string]string `json:"conditions"`
	}
	var patch struct {
		Status status `json:"status"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, maxNodeSize)).Decode(&patch)
	if err != nil {
		return failure(http.StatusBadRequest, err.Error(), map[string]string{})
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	var object map[string]any
	if json.Unmarshal(s.nodes[name], &object) != nil {
		return failure(http.StatusNotFound, fmt.Sprintf("nodes %q not found", name), nodeDetails(name))
	}
	var have struct {
		Status status `json:"status"`
	}
	_ = json.Unmarshal(s.nodes[name], &have) // a Node of the demo has no other status
	object["status"] = status{mergeConditions(have.Status.Conditions, patch.Status.Conditions)}
	code, body := encode(http.StatusOK, object)
	s.nodes[name] = body

	return code, body
}

// mergeConditions returns conditions with those of a patch.
func mergeConditions(have, patch []map[string]string) []map[string]string {
	for _, c := range patch {
		i := slices.IndexFunc(have, func(h map[string]string) bool { return h["type"] == c["type"] })
		switch {
		case c["$patch"] == "delete":
			have = slices.DeleteFunc(have, func(h map[string]string) bool { return h["type"] == c["type"] })
		case i < 0:
			have = append(have, c)
		default:
			maps.Copy(have[i], c)
		}
	}

	return have
}

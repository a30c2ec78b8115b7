package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var nodes = schema.GroupResource{Resource: "nodes"}

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
func (s *Server) respondNode(
	r *http.Request,
	name, user string,
	groups []string,
) (int, []byte) {
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

	return refuseNode(name, `User %q cannot %s resource "nodes" in API group "" at the cluster scope`, user, verb)
}

// respondRead returns the Node object of a name.
func (s *Server) respondRead(name string) (int, []byte) {
	object := s.Node(name)
	if object != nil {
		return http.StatusOK, object
	}

	return refuse(apierrors.NewNotFound(nodes, name))
}

// refuseNode forbids a request about a Node.
func refuseNode(name, why string, args ...any) (int, []byte) {
	return refuse(apierrors.NewForbidden(nodes, name, fmt.Errorf(why, args...)))
}

// register creates the Node object of the node self.
func (s *Server) register(r *http.Request, self string) (int, []byte) {
	limited := io.LimitReader(r.Body, maxNodeSize)
	body, err := io.ReadAll(limited)
	var object metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}

	name := object.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.nodes[name]
	switch {
	case name != self:
		return refuseNode(name, "node %q is not allowed to modify node %q", self, name)
	case exists:
		return refuse(apierrors.NewAlreadyExists(nodes, name))
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

// respondNodeStatus changes the status of a Node by a strategic merge patch, for the node itself.
func (s *Server) respondNodeStatus(
	r *http.Request,
	name, user string,
	groups []string,
) (int, []byte) {
	isOwn := user == "system:node:"+name && slices.Contains(groups, "system:nodes")
	if !isOwn || s.opts.PatchStatus == nil {
		return refuseNode(name, `User %q cannot patch resource "nodes/status"`, user)
	}

	patch, err := io.ReadAll(io.LimitReader(r.Body, maxNodeSize))
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.nodes[name]
	if object == nil {
		return refuse(apierrors.NewNotFound(nodes, name))
	}
	patched, err := s.opts.PatchStatus(object, patch)
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}
	s.nodes[name] = patched

	return http.StatusOK, patched
}

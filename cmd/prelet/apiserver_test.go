package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/demo/nodestatus"
)

const (
	infoPath   = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	configPath = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// startServer starts an API server with the fault of that name: one of faults, or an answer to all requests, of
// internal/testing/demo/testdata/answers.yaml.
func startServer(ca *demo.Authority, fault string) (*demo.Server, error) {
	var answers map[string]demo.BadResponse
	if err := yaml.Unmarshal(must(os.ReadFile("../../internal/testing/demo/testdata/answers.yaml")), &answers); err != nil {
		return nil, err
	}
	s := demo.New(demo.ServerConfig{Authority: ca, PatchStatus: nodestatus.Patch})
	serveConfig(s, servedConfig)
	answer, isAnswer := answers[fault]
	setFault, isFault := faults[fault]
	switch {
	case isAnswer:
		s.Intercept = answer.Respond
	case isFault:
		setFault(s)
	default:
		return nil, fmt.Errorf("there is no fault %q", fault)
	}
	s.StartTLS()
	return s, nil
}

const servedConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
`

func serveConfig(s *demo.Server, kubelet string) {
	s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": kubelet})
}

// faults are the rows of the matrix that are a server's and more than an answer, by name.
var faults = map[string]func(*demo.Server){
	"good":          func(*demo.Server) {},
	"wrong-ca":      func(s *demo.Server) { s.TLS.Certificates[0] = demo.NewAuthority("evil").IssueServer() },
	"wrong-name":    func(s *demo.Server) { s.TLS.Certificates[0] = s.IssueServer("k8s.example") },
	"expired":       func(s *demo.Server) { s.TLS.Certificates[0] = s.At(s.Now.AddDate(-2, 0, 0)).IssueServer() },
	"not-yet-valid": func(s *demo.Server) { s.TLS.Certificates[0] = s.At(s.Now.AddDate(1, 0, 0)).IssueServer() },
	"tls11":         func(s *demo.Server) { s.TLS.MinVersion, s.TLS.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
	"late": func(s *demo.Server) { // each thing that is asked for comes a little later
		s.SetConfigMap("kube-public", "cluster-info", map[string]string{"kubeconfig": clusterInfo(s)})
		asked := map[string]int{}
		s.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			asked[r.URL.Path]++
			answer := demo.BadResponse{}
			switch k := asked[r.URL.Path]; {
			case n == 1:
				answer.Status = 503
			case r.URL.Path == infoPath && k == 3:
				s.SignClusterInfo(clusterInfo(s))
			case r.URL.Path == configPath && k == 1:
				answer.Status = 401
			case r.URL.Path == configPath && k == 2:
				answer.Status = 404
			}
			return answer.Status > 0 && answer.Respond(w, r, n)
		}
	},
	"config-401": onlyConfig(demo.BadResponse{Status: 401}),
	"config-403": func(s *demo.Server) { s.Deny("kube-system", "kubelet-config", true) },
	"config-404": onlyConfig(demo.BadResponse{Status: 404}),
	"echo": onlyConfig(demo.BadResponse{ // returns the request to the caller
		Status: 403,
		Header: map[string]string{"Content-Type": "application/json"},
		Body:   `{"kind": "Status", "message": "not with @TOKEN@, whose secret is ` + demo.TokenSecret + `"}`,
	}),
	"chatty": func(s *demo.Server) { // goes on after its first answer, which a library may log
		s.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			if n > 1 {
				return false
			}
			answer := httptest.NewRecorder()
			s.Config.Handler.ServeHTTP(answer, r)
			return demo.BadResponse{Raw: true, Body: fmt.Sprintf(
				"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\n\r\nand more",
				answer.Code, answer.Body.Len(), answer.Body,
			)}.Respond(w, r, n)
		}
	},
	"yaml-bomb":     func(s *demo.Server) { serveConfig(s, servedConfig+"evictionHard: &a {x: \"1\"}\n"+bomb()) },
	"duplicate-key": func(s *demo.Server) { serveConfig(s, servedConfig+"maxPods: 110\nmaxPods: 111\n") },
	"unknown-field": func(s *demo.Server) {
		s.SignClusterInfo(strings.Replace(clusterInfo(s), "clusters:", "clusterz: []\nclusters:", 1))
	},
	"no-signature": func(s *demo.Server) {
		s.SetConfigMap("kube-public", "cluster-info", map[string]string{"kubeconfig": clusterInfo(s)})
	},
	"bad-signature": func(s *demo.Server) {
		s.SetConfigMap("kube-public", "cluster-info", map[string]string{
			"kubeconfig":                     clusterInfo(s),
			"jws-kubeconfig-" + demo.TokenID: demo.SignText(clusterInfo(s), demo.TokenID, "another-secret-x"),
		})
	},
	"two-faces": func(s *demo.Server) {
		faces := [2]string{clusterInfo(s, demo.NewAuthority("kubernetes")), clusterInfo(s)}
		asked := 0
		s.Intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			if r.URL.Path == infoPath {
				asked++
				s.SignClusterInfo(faces[asked%2])
			}
			return false
		}
	},
	"second-ca": func(s *demo.Server) { s.SignClusterInfo(clusterInfo(s, demo.NewAuthority("smuggled"))) },
	"evil-url":  func(s *demo.Server) { s.SignClusterInfo(demo.ClusterInfo("https://evil.example:6443", s.CAPEM())) },
}

// onlyConfig is well behaved but for the kubelet's ConfigMap.
func onlyConfig(answer demo.BadResponse) func(*demo.Server) {
	return func(s *demo.Server) {
		s.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			return r.URL.Path == configPath && answer.Respond(w, r, n)
		}
	}
}

// clusterInfo is the kubeconfig in a server's cluster-info, with more CAs than its own.
func clusterInfo(s *demo.Server, others ...*demo.Authority) string {
	cas := s.CAPEM()
	for _, other := range others {
		cas = append(cas, other.CAPEM()...)
	}
	return demo.ClusterInfo("https://"+s.Listener.Addr().String(), cas)
}

func bomb() string {
	b := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		b += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	return b
}

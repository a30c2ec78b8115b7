package kube

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestProxy joins a node that reaches its cluster only through a proxy: prelet and the bootstrap kubeconfig have
// proxy_url. The kubelet does not write it into kubelet.conf, so its unit names the proxy, too.
func TestProxy(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	o := newCandidate(t, c)
	var tunnels atomic.Int64
	proxy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "10.0.0.11:6443" {
			http.Error(w, "only CONNECT to the cluster", http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		tunnels.Add(1)
		w.WriteHeader(http.StatusOK)
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(here, there)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: proxy}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	_, err = o.Door("10.0.0.12:3128", l.Addr().String())
	must(t, err)

	o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token, `proxy_url = "http://10.0.0.12:3128"`)
	r := prelet(t, o.Node, 0, "plan")
	o.says(r, "The kubelet loses its proxy", "HTTPS_PROXY")
	must(t, o.Write("/etc/default/kubelet", "HTTPS_PROXY=http://10.0.0.12:3128\n", 0o644))
	if r := prelet(t, o.Node, 0, "plan"); strings.Contains(r.String(), "loses its proxy") {
		t.Errorf("the proxy is in the kubelet's environment: got %s", r)
	}
	before := tunnels.Load()
	o.joins()
	if tunnels.Load() <= before+1 {
		t.Errorf("got %d tunnels, want more", tunnels.Load())
	}
	conf, err := o.Read("/etc/kubernetes/kubelet.conf")
	must(t, err)
	if strings.Contains(conf, "proxy-url") {
		t.Error("this kubelet keeps the proxy: the warning can go")
	}
}

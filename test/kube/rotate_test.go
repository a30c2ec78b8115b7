package kube

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// caData is the CAs in a kubeconfig.
var caData = regexp.MustCompile(`certificate-authority-data: \S+`)

func withCA(kubeconfig, ca string) string {
	return caData.ReplaceAllString(kubeconfig,
		"certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(ca)))
}

// with-ca FILE CAS: writes FILE.new, a kubeconfig with these CAs.
func (s *scene) cmdWithCA(args []string) error {
	text := withCA(s.ts.ReadFile(args[0]), s.ts.ReadFile(args[1]))

	return os.WriteFile(filepath.Join(s.work, args[0]+".new"), []byte(text), 0o600)
}

// present CA: restarts the API server with a certificate of an authority. It accepts client certificates of both CAs.
func (s *scene) cmdPresent(args []string) error {
	c, next := s.c, s.authorities[args[0]]
	old, err := c.CA()
	must(s.t, err)
	cert, key := pair(s.t, s.issue(args[0], "kube-apiserver", "-1h", strings.Split(certifiedNames, ", ")...))
	for name, text := range map[string]string{"both.crt": old + next.pem(), "next.crt": cert, "next.key": key} {
		must(s.t, os.WriteFile(c.Path("pki/"+name), []byte(text), 0o600))
	}
	for _, file := range []string{"super-admin.conf", "admin.conf", "controller-manager.conf"} {
		text, err := os.ReadFile(c.Path(file))
		must(s.t, err)
		must(s.t, os.WriteFile(c.Path(file), []byte(withCA(string(text), old+next.pem())), 0o600))
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Path("super-admin.conf"))
	must(s.t, err)
	c.Client, err = kubernetes.NewForConfig(config)
	must(s.t, err)
	c.StopAPIServer()

	return c.StartAPIServer(s.t.Context(), "--client-ca-file", c.Path("pki/both.crt"),
		"--tls-cert-file", c.Path("pki/next.crt"), "--tls-private-key-file", c.Path("pki/next.key"))
}

// trusts CAS: exactly these CAs are in ca.crt and in kubelet.conf, whose other lines are those of the script's file.
func (s *scene) cmdTrusts(args []string) error {
	want := s.ts.ReadFile(args[0])
	ca, err := s.n.Read("/etc/kubernetes/pki/ca.crt")
	conf, err2 := s.n.Read("/etc/kubernetes/kubelet.conf")
	wantConf := withCA(s.ts.ReadFile("kubelet.conf"), want)
	if ca != want || conf != wantConf {
		return fmt.Errorf("ca.crt and kubelet.conf: got\n%s%s\nwant\n%s%s", ca, conf, want, wantConf)
	}

	return errors.Join(err, err2)
}

// beats waits until the kubelet has renewed its lease from now on.
func (s *scene) cmdBeats([]string) error {
	now := time.Now()

	return waitFor(s.t.Context(), time.Minute, "the kubelet renews its lease", func() string {
		leases := s.c.Client.CoordinationV1().Leases("kube-node-lease")
		lease, err := leases.Get(s.t.Context(), s.n.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: now}):
			return "the last is of " + lease.Spec.RenewTime.String()
		}
		return ""
	})
}

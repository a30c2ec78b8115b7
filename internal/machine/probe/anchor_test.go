package probe

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
)

// bootstrap is a kubeconfig for a server.
func bootstrap(s *demo.Server, cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: \"" + s.URL + "\", " + cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n"
}

// TestAnchorsOfOthers has each file that says whom a node trusts, or as whom it acts, in the hands of somebody else:
// no server is asked, no program is run, and the message has the command that ends it. As root has it, it is
// believed.
func TestAnchorsOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	const dir = "/srv/anchor"
	link := func(file string) error {
		return errors.Join(os.Rename(file, file+".real"), os.Symlink(filepath.Base(file)+".real", file))
	}
	changes := map[string]struct {
		change func(file string) error
		want   string // what is done about it; "": nothing
	}{
		"as root has it": {func(string) error { return nil }, ""},
		"loose file":     {func(file string) error { return os.Chmod(file, 0o777) }, "chmod o-w %s"},
		"file of a user": {func(file string) error { return os.Chown(file, 1000, 0) }, "chown root: %s"},
		"folder of a user": {
			func(file string) error { return os.Chown(filepath.Dir(file), 1000, 0) },
			"chown root: %.0s%s",
		},
		"loose folder above": {func(file string) error {
			return os.Chmod(filepath.Dir(filepath.Dir(file)), 0o777)
		}, "chmod o-w %.0s%.0s%s"},
		"link of root": {link, ""},
		"link of root to a user's file": {func(file string) error {
			return errors.Join(link(file), os.Chown(file+".real", 1000, 0))
		}, "chown root: %s.real"},
	}

	embedded := func(s *demo.Server) string {
		return "certificate-authority-data: " + base64.StdEncoding.EncodeToString(s.CAPEM())
	}
	type node struct {
		root string
		s    *demo.Server
	}
	byPin := func(n node) tape.Access {
		return tape.Access{Servers: []string{n.s.URL}, CACertHashes: []string{n.s.CAHash()}}
	}

	for name, c := range map[string]struct {
		file  string // the anchor
		place func(n node, file string) tape.Access
	}{
		"ca_file": {dir + "/ca.crt", func(n node, file string) tape.Access {
			place(t, n.root, file, string(n.s.CAPEM()))
			return tape.Access{Servers: []string{n.s.URL}, CAFile: file, Token: "t"}
		}},
		"discovery_file": {dir + "/discovery.conf", func(n node, file string) tape.Access {
			place(t, n.root, file, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \""+n.s.URL+"\", "+embedded(n.s)+"}}]\n")
			return tape.Access{Servers: []string{n.s.URL}, DiscoveryFile: file, Token: "t"}
		}},
		"bootstrap-kubelet.conf": {joined.BootstrapConf, func(n node, file string) tape.Access {
			place(t, n.root, file, bootstrap(n.s, embedded(n.s), "token: "+demo.Token))
			return byPin(n)
		}},
		"tokenFile": {dir + "/token", func(n node, file string) tape.Access {
			place(t, n.root, file, demo.Token)
			place(t, n.root, joined.BootstrapConf, bootstrap(n.s, embedded(n.s), "tokenFile: "+n.root+file))
			return byPin(n)
		}},
		"certificate-authority": {dir + "/ca.crt", func(n node, file string) tape.Access {
			place(t, n.root, file, string(n.s.CAPEM()))
			place(t, n.root, joined.BootstrapConf, bootstrap(n.s, "certificate-authority: "+n.root+file, "token: "+demo.Token))
			return byPin(n)
		}},
		"client-certificate": {dir + "/pair.pem", func(n node, file string) tape.Access {
			cert, key := n.s.IssueNode("n1")
			place(t, n.root, file, string(cert)+string(key))
			place(t, n.root, joined.BootstrapConf, bootstrap(n.s, embedded(n.s), "client-certificate: "+n.root+file+", client-key: "+n.root+file))
			return byPin(n)
		}},
		"exec.command": {dir + "/plugin", func(n node, file string) tape.Access {
			answer := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"` + demo.Token + `"}}`
			placeMode(t, n.root, file, "#!/bin/sh\ntouch '"+n.root+"/ran'\necho '"+answer+"'\n", 0o700)
			place(t, n.root, joined.BootstrapConf, bootstrap(n.s, embedded(n.s),
				"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "+n.root+file+"}"))
			return byPin(n)
		}},
		"kubelet.conf": {joined.Conf, func(n node, file string) tape.Access {
			place(t, n.root, file, string(n.s.NodeKubeconfig("n1")))
			a := byPin(n)
			a.Token = "t"
			return a
		}},
	} {
		for what, v := range changes {
			t.Run(name+"/"+what, func(t *testing.T) {
				s := demo.Start(demo.ServerConfig{})
				defer s.Close()
				s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "x"})
				n := node{t.TempDir(), s}
				access := c.place(n, c.file)
				must(t, v.change(n.root+c.file))
				l := newLive(t, Sources{Root: n.root, Credentials: creds{"t": demo.Token}})

				_, a, err := tape.Object.Ask(
					t.Context(),
					l,
					tape.ObjectReq{Access: access, Namespace: "kube-system", Name: "kubelet-config"},
				)

				if v.want == "" {
					if err != nil {
						t.Fatalf("got %+v, want the object", a)
					}
					return
				}
				fix := fmt.Sprintf(v.want, c.file, filepath.Dir(c.file), filepath.Dir(filepath.Dir(c.file)))
				fix, _, _ = strings.Cut(fix, "%!(EXTRA")
				if a.Code() != fault.ClusterUntrusted ||
					!strings.Contains(strings.ReplaceAll(a.Fault.Next, n.root, ""), "\n    "+fix) {
					t.Errorf("got %+v, want code %s and next %q", a.Fault, fault.ClusterUntrusted, fix)
				}
				if got := s.Authorizations(); got != 0 {
					t.Errorf("the server was shown %d credentials, want none", got)
				}
				if _, err := os.Stat(n.root + "/ran"); err == nil {
					t.Error("the plugin ran, want that it does not")
				}
			})
		}
	}
}

// TestIdentityOfOthers has kubelet.conf, and the file with the certificate that it names, in the hands of somebody
// else, as /etc/kubernetes is of another user by default on a node that Kubespray made. The node has joined, as for
// its kubelet, and the answer has the command that ends it. The kubelet's own link, which is absolute, is followed.
func TestIdentityOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	cert, key := s.IssueNode("n1")
	const current, pem = "/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-client-2026.pem"
	for name, c := range table.Map[struct {
		Path string
		Mode os.FileMode // 0: it is given to another user
	}](t, `
		as kubeadm leaves it       |                                              |
		kubelet.conf for everybody | /etc/kubernetes/kubelet.conf                 | 0o666
		its folder of a user       | /etc/kubernetes                              | 0
		the link of a user         | /var/lib/kubelet/pki/kubelet-client-current.pem | 0
		the certificate of a user  | /var/lib/kubelet/pki/kubelet-client-2026.pem | 0
		the folder for everybody   | /var/lib/kubelet/pki                         | 0o777
		the folder above of a user | /var/lib/kubelet                             | 0
	`) {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			place(t, root, joined.Conf, bootstrap(s, "", "client-certificate: "+current+", client-key: "+current))
			place(t, root, pem, string(cert)+string(key))
			err := os.Symlink(pem, root+current)
			fix := ""
			switch {
			case c.Mode != 0:
				err, fix = errors.Join(err, os.Chmod(root+c.Path, c.Mode)), "chmod o-w "+root+c.Path
			case c.Path != "":
				err, fix = errors.Join(err, os.Lchown(root+c.Path, 1000, 0)), "chown root: "+root+c.Path
			}
			must(t, err)
			l := newLive(t, Sources{Root: root})
			k, a, err := tape.Kubelet.Ask(t.Context(), l, tape.KubeletReq{})
			if err != nil || !k.Joined || k.Identity == nil || k.Identity.Node != "n1" {
				t.Fatalf("got %+v, want that n1 has joined", a)
			}
			if (k.Identity.Loose == "") != (fix == "") || fix != "" && !strings.HasSuffix(k.Identity.Fix, "\n    "+fix) {
				t.Errorf("got %q and %q, want that it is fixed by %q", k.Identity.Loose, k.Identity.Fix, fix)
			}
		})
	}
}

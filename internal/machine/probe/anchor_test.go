package probe

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
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
	changes := table.YAML[map[string]struct {
		Change string // a command of sh, about $FILE
		Want   string // what is done about it; "": nothing
	}](t, `
as root has it: {}
loose file: {change: chmod 777 $FILE, want: 'chmod o-w {file}'}
file of a user: {change: chown 1000 $FILE, want: 'chown root: {file}'}
folder of a user: {change: 'chown 1000 ${FILE%/*}', want: 'chown root: {folder}'}
loose folder above: {change: 'd=${FILE%/*}; chmod 777 ${d%/*}', want: 'chmod o-w {above}'}
link of root: {change: 'mv $FILE $FILE.real; ln -s ${FILE##*/}.real $FILE'}
link of root to a user's file: {change: 'mv $FILE $FILE.real; ln -s ${FILE##*/}.real $FILE; chown 1000 $FILE.real',
  want: 'chown root: {file}.real'}
`)
	for name, c := range table.YAML[map[string]struct {
		File          string // the anchor
		Text          string
		Cluster, User string // of bootstrap-kubelet.conf, where that names the anchor
	}](t, `
ca_file: {file: /srv/anchor/ca.crt, text: '{ca}'}
discovery_file: {file: /srv/anchor/discovery.conf, text: '{discovery}'}
bootstrap-kubelet.conf: {file: '{joined.BootstrapConf}', text: '{bootstrap}'}
tokenFile: {file: /srv/anchor/token, text: '{token}', cluster: '{embedded}',
  user: 'tokenFile: {root}/srv/anchor/token'}
certificate-authority: {file: /srv/anchor/ca.crt, text: '{ca}',
  cluster: 'certificate-authority: {root}/srv/anchor/ca.crt', user: 'token: {token}'}
client-certificate: {file: /srv/anchor/pair.pem, text: '{pair}', cluster: '{embedded}',
  user: 'client-certificate: {root}/srv/anchor/pair.pem, client-key: {root}/srv/anchor/pair.pem'}
exec.command: {file: /srv/anchor/plugin, text: '{plugin}', cluster: '{embedded}',
  user: 'exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never,
    command: {root}/srv/anchor/plugin}'}
kubelet.conf: {file: '{joined.Conf}', text: '{kubelet}'}
`, "joined.BootstrapConf", joined.BootstrapConf, "joined.Conf", joined.Conf) {
		for what, v := range changes {
			t.Run(name+"/"+what, func(t *testing.T) {
				s := demo.Start(demo.ServerConfig{})
				defer s.Close()
				s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "x"})
				root := t.TempDir()
				cert, key := s.IssueNode("n1")
				embedded := "certificate-authority-data: " + base64.StdEncoding.EncodeToString(s.CAPEM())
				answer := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"` + demo.Token + `"}}`
				fill := strings.NewReplacer(
					"{ca}", string(s.CAPEM()), "{embedded}", embedded, "{token}", demo.Token, "{root}", root,
					"{pair}", string(cert)+string(key), "{kubelet}", string(s.NodeKubeconfig("n1")),
					"{plugin}", "#!/bin/sh\ntouch '"+root+"/ran'\necho '"+answer+"'\n",
					"{bootstrap}", bootstrap(s, embedded, "token: "+demo.Token),
					"{discovery}", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \""+s.URL+"\", "+embedded+"}}]\n",
				).Replace
				placeMode(t, root, c.File, fill(c.Text), 0o755)
				if c.User != "" {
					place(t, root, joined.BootstrapConf, bootstrap(s, fill(c.Cluster), fill(c.User)))
				}
				change := exec.CommandContext(t.Context(), "sh", "-ec", v.Change)
				change.Env = append(os.Environ(), "FILE="+root+c.File)
				must(t, change.Run())
				access := tape.Access{Servers: []string{s.URL}}
				switch name {
				case "ca_file":
					access.CAFile, access.Token = c.File, "t"
				case "discovery_file":
					access.DiscoveryFile, access.Token = c.File, "t"
				case "kubelet.conf":
					access.CACertHashes, access.Token = []string{s.CAHash()}, "t"
				default:
					access.CACertHashes = []string{s.CAHash()}
				}
				l := newLive(t, Sources{Root: root, Credentials: creds{"t": demo.Token}})

				_, a, err := tape.Object.Ask(
					t.Context(),
					l,
					tape.ObjectReq{Access: access, Namespace: "kube-system", Name: "kubelet-config"},
				)

				if v.Want == "" {
					if err != nil {
						t.Fatalf("got %+v, want the object", a)
					}
					return
				}
				folder := filepath.Dir(c.File)
				fix := strings.NewReplacer("{file}", c.File, "{folder}", folder, "{above}", filepath.Dir(folder)).Replace(v.Want)
				if a.Code() != fault.ClusterUntrusted ||
					!strings.Contains(strings.ReplaceAll(a.Fault.Next, root, ""), "\n    "+fix) {
					t.Errorf("got %+v, want code %s and next %q", a.Fault, fault.ClusterUntrusted, fix)
				}
				if got := s.Authorizations(); got != 0 {
					t.Errorf("the server was shown %d credentials, want none", got)
				}
				if _, err := os.Stat(root + "/ran"); err == nil {
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
	for name, c := range table.YAML[map[string]struct {
		Path string
		Mode os.FileMode // 0: it is given to another user
	}](t, `
as kubeadm leaves it: {}
kubelet.conf for everybody: {path: /etc/kubernetes/kubelet.conf, mode: 0o666}
its folder of a user: {path: /etc/kubernetes, mode: 0}
the link of a user: {path: /var/lib/kubelet/pki/kubelet-client-current.pem, mode: 0}
the certificate of a user: {path: /var/lib/kubelet/pki/kubelet-client-2026.pem, mode: 0}
the folder for everybody: {path: /var/lib/kubelet/pki, mode: 0o777}
the folder above of a user: {path: /var/lib/kubelet, mode: 0}
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

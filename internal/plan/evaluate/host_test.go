package evaluate

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestHost checks what kubeadm checks before a kubelet starts. Each is a warning that changes neither the plan nor its
// hash, and a recording without the answer has none.
func TestHost(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name, Patch        string // patch: of maxPods, if empty
		File, Text, Blocks string // what else the site writes
		Answer             string // JSON; "": a recording without it
		Sets               string // by the kubelet's unit
		Ports              string // that are asked for
		Severity           string // warning, if empty
		Line               int    // 5 of the file, 7 of patch
		Says               string
	}](t, `
- {name: a recording that is older}
- {name: fine, answer: '{}'}
- name: a port
  answer: '{"listeners": [{"at": "0.0.0.0:10250", "pid": 17, "process": "haproxy"}]}'
  line: 4
  says: 'Process 17 ("haproxy") has 0.0.0.0:10250, so the kubelet would exit: listen tcp 0.0.0.0:10250: bind: address already in use'
- name: a hostile name
  answer: '{"listeners": [{"at": "[::]:10250", "pid": 17, "process": "\u001b[31m\"\n\u202e"}]}'
  line: 4
  says: Process 17 ("\x1b[31m\"\n\u202e") has [::]:10250
- name: a process of others
  answer: '{"listeners": [{"at": "0.0.0.0:10250"}]}'
  line: 4
  says: Another process has 0.0.0.0:10250
- name: the health port
  answer: '{"listeners": [{"at": "127.0.0.1:10248", "pid": 17, "process": "a"}]}'
  line: 4
  says: so the kubelet runs without its health check
- name: the read-only port
  patch: '{ readOnlyPort = 10255 }'
  answer: '{"listeners": [{"at": "192.0.2.7:10255", "pid": 1, "process": "a"}]}'
  ports: 10250,10255,10248
  line: 6
  says: Stop that process (ss -ltnp lists it), or set another readOnlyPort.
- name: a port of the site
  patch: '{ port = 10350 }'
  answer: '{"listeners": [{"at": "0.0.0.0:10350"}]}'
  ports: 10350,10248
  line: 6
  says: listen tcp 0.0.0.0:10350
- name: the default port, which is not used
  patch: '{ port = 10350 }'
  answer: '{"listeners": [{"at": "0.0.0.0:10250"}]}'
  ports: 10350,10248
- name: no server
  patch: '{ enableServer = false, healthzPort = 0 }'
  answer: '{"listeners": [{"at": "0.0.0.0:10250"}]}'
  ports: ' '
- {name: another address, patch: '{ address = "192.0.2.8" }', answer: '{"listeners": [{"at": "192.0.2.7:10250"}]}'}
- name: another family
  patch: '{ healthzBindAddress = "::1" }'
  answer: '{"listeners": [{"at": "127.0.0.1:10248"}]}'
- {name: not an address, answer: '{"listeners": [{"at": "x"}]}'}
- name: no forwarding
  answer: '{"no_forward": true}'
  line: 4
  says: Set net.ipv4.ip_forward = 1
- name: the site turns it on
  file: /etc/sysctl.d/k8s.conf
  text: net.ipv4.ip_forward = 1\n
  answer: '{"no_forward": true}'
- name: a node of IPv6
  blocks: "  kubelet_flags {\n    base = \"\"\n    flags = { node-ip = \"2001:db8::1\" }\n  }\n"
  answer: '{"no_forward": true}'
- name: no memory
  answer: '{"missing_controllers": ["memory"]}'
  line: 4
  says: cgroup_disable=
- name: no network
  answer: '{"no_network": "/etc/cni/net.d"}'
  severity: note
  line: 4
  says: The Node is NotReady until it has one.
- name: the site writes the network
  file: /etc/cni/net.d/10-bridge.conflist
  text: '{}'
  answer: '{"no_network": "/etc/cni/net.d"}'
- name: no losetup
  answer: '{"missing_programs": ["losetup"]}'
  line: 4
  says: Install them in the image
- {name: a unit with its own PATH, answer: '{"missing_programs": ["mount"]}', sets: PATH}
`) {
		answers := map[tape.Kind]tape.Answer{tape.KindHost: tape.Failure(fault.Unread, "", "")}
		if c.Sets != "" {
			answers[tape.KindUnit] = tape.Unit.Answer(tape.UnitAns{Load: "loaded", Start: &tape.StartAns{
				Words: []string{"/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml"}, Sets: []string{c.Sets},
			}})
		}
		text := rulesSite(cmp.Or(c.Patch, "{ maxPods = 20 }"), c.Blocks+siteFile(c.File, c.Text))
		if strings.Contains(c.Blocks, "kubelet_flags") {
			text = strings.Replace(text, "  kubelet_flags { base = \"\" }\n", "", 1)
		}
		q := Run(t.Context(), mustParse(t, text), RunInput{Source: usualWith(answers)})
		if c.Answer != "" {
			answers[tape.KindHost] = tape.Answer{Value: []byte(c.Answer)}
		}
		p := Run(t.Context(), mustParse(t, text), RunInput{Source: usualWith(answers)})
		checkOne(t, c.Name, ofMachine(p), cmp.Or(c.Severity, "warning"), c.Line, c.Says)

		ports := strings.TrimSpace(c.Ports)
		if c.Ports == "" {
			ports = "10250,10248"
		}
		asked := tape.Question{Kind: tape.KindHost, Args: `{"ports":[` + ports + `]}`}
		if !slices.ContainsFunc(p.Tape.Entries(), func(e tape.Entry) bool { return e.Question == asked }) {
			t.Errorf("%s: got the questions %v, want %s", c.Name, p.Tape.Entries(), asked)
		}
		if p.Hash == "" || p.Hash != q.Hash || !p.Complete || len(p.Degraded) > 0 {
			t.Errorf("%s: got hash %q, complete %t, degraded %v; want hash %q, which a plan without the answer has, true and none",
				c.Name, p.Hash, p.Complete, p.Degraded, q.Hash)
		}
	}
}

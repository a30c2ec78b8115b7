package evaluate

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestFlagsOfAnySource moves flags that a kubelet refuses or ignores from one source to another: what the rules say
// stays the same, except the place.
func TestFlagsOfAnySource(t *testing.T) {
	const kubeadm, own = "/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet"
	type source struct {
		Name         string
		Words        string // of the unit, @ for the flags
		Vars         string // of Environment=
		Kubeadm, Own string
		More, Flags  string
	}
	sources := table.YAML[[]source](t, `
- {name: the flags file, words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"', own: "KUBELET_EXTRA_ARGS=@\n"}
- name: the flags file, all in quotes
  words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  own: |
    KUBELET_EXTRA_ARGS="@"
- name: the site's base
  words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  flags: base = "KUBELET_EXTRA_ARGS='@'\n"
- {name: kubeadm's file, words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"', kubeadm: "KUBELET_KUBEADM_ARGS=@\n"}
- name: kubeadm's variable in the flags file
  words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  own: "KUBELET_KUBEADM_ARGS=@\n"
- name: the flags file, which another writes
  words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  own: "KUBELET_EXTRA_ARGS=@\n"
  flags: when = false
- name: a file block
  words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  more: |-
    file "k" {
     path = "/var/lib/kubelet/kubeadm-flags.env"
     content = "KUBELET_KUBEADM_ARGS=@\n"
    }
- {name: ExecStart=, words: '@'}
- {name: before the flags, words: '@,"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'}
- {name: behind the flags, words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS",@'}
- name: the variable of the flags file, in another file
  words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  kubeadm: "KUBELET_EXTRA_ARGS=@\n"
- {name: Environment=, words: '"$MORE","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"', vars: '@'}
- {name: 'Environment=, behind the flags', words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS","$MORE"', vars: '@'}
`)
	placed := regexp.MustCompile(`\(set by [^)]*\)`)

	for _, flags := range table.Lines(`
--node-labels=kops.k8s.io/instancegroup=a
--node-labels=node-role.kubernetes.io/worker=,example.com/a=b
--v=2 --node-ip
--hostname-override
--feature-gates
--cluster-dns
--cloud-provider
--cert-dir
--node-labels
--register-with-taints
--eviction-hard
--kube-reserved
--runtime-cgroups
--tls-cipher-suites
--provider-id
-v
--cert-dir --v=2
--max-pods=many
--max-pods=-3
--max-pods=many --max-pods=5
--no-such-flag=1
--no-such-flag
--network-plugin=cni
--feature-gates=NoSuchGate=true
--root-dir=x
--tls-cipher-suites=nope
--reserved-cpus=0-99
--kube-reserved=gpu=1
--fail-swap-on false
garbage
-- --v=2
---v=2
--version
--node-ip=x
--v=2
`) {
		said := map[string]string{} // by source
		for _, s := range sources {
			put := func(text string) string { return strings.ReplaceAll(text, "@", flags) }
			quoted, err := json.Marshal(strings.Fields(flags))
			must(t, err)
			words := strings.ReplaceAll(s.Words, "@", strings.Trim(string(quoted), "[]"))
			world := fmt.Sprintf("kubelet => {\"value\":{\"version\":\"v1.36.3\"}}\nunit kubelet.service => {\"value\":{\"load\":"+
				"\"loaded\",\"start\":{\"words\":[\"/usr/bin/kubelet\",%s],\"files\":[%q,%q],\"vars\":{\"MORE\":%q}}}}\n",
				words, kubeadm, own, put(s.Vars))
			for path, text := range map[string]string{kubeadm: s.Kubeadm, own: s.Own} {
				if text != "" {
					world += original(path, put(text))
				}
			}
			p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = %q }
  kubelet_flags {
    %s
  }
  %s
}
`, testKubeletConfig, put(s.Flags), put(s.More)), world)

			var all []string
			for _, d := range p.Diagnostics {
				extra, _ := d.Extra.(origin.Extra)
				all = append(all, fmt.Sprintf("%v %s %s %s: %s", d.Severity, origin.CodeOf(d), extra.Rule, d.Summary,
					placed.ReplaceAllString(d.Detail, "")))
			}
			slices.Sort(all)
			said[s.Name] = strings.Join(all, "\n")
		}

		first := said[sources[0].Name]
		if isRight := flags == "--v=2"; isRight != (first == "") {
			t.Errorf("%s: got %q, want a message unless it is right", flags, first)
		}
		for _, name := range slices.Sorted(maps.Keys(said)) {
			if said[name] != first {
				t.Errorf("%s in %s: got\n%s\nwant as in %s\n%s", flags, name, said[name], sources[0].Name, first)
			}
		}
	}
}

// TestFlagsOverVariables: the last word of one variable may be a flag that takes the first word of the next one.
func TestFlagsOverVariables(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Words, Kubeadm, Own, Want string }](t, `
- words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  kubeadm: --v=2 --node-ip
  own: 192.0.2.10 --max-pods=30
  want: |-
    exit 0
    !is not a flag
- words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"'
  kubeadm: --v=2 --cert-dir
  own: --max-pods=many
  want: |-
    exit 0
    takes the next word: --max-pods=many
- words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS","3"'
  own: --max-pods=30 --v
  want: |-
    exit 0
    !is not a flag
- words: '"$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS","$OTHER"'
  own: --max-pods=30 --v
  want: |-
    exit 10
    flag needs an argument: --v
- words: '"--node-ip","$KUBELET_EXTRA_ARGS"'
  own: 192.0.2.10
  want: |-
    exit 0
    !is not a flag
- words: '"--node-ip","$KUBELET_EXTRA_ARGS"'
  want: |-
    exit 10
    flag needs an argument: --node-ip
- words: '"${KUBELET_EXTRA_ARGS}"'
  own: --max-pods=30 --v=2
  want: |-
    exit 10
    invalid argument "30 --v=2"
- {words: '"${KUBELET_EXTRA_ARGS}"', own: --max-pods=30, want: exit 0}
# The variable of the flags file, which only another file sets: until the site does.
- words: '"$KUBELET_EXTRA_ARGS","--max-pods=many"'
  kubeadm: |-
    --v=2
    KUBELET_EXTRA_ARGS=--provider-id
  own: '-'
  want: |-
    exit 0
    takes the next word: --max-pods=many
    !would lose
- words: '"$KUBELET_EXTRA_ARGS","--max-pods=many"'
  kubeadm: |-
    --v=2
    KUBELET_EXTRA_ARGS=--provider-id
  own: '- kubelet_flags { flags = { v = 3 } }'
  want: |-
    exit 10
    invalid argument "many"
    would lose the flags of /var/lib/kubelet/kubeadm-flags.env
`) {
		flags, isMissing := strings.CutPrefix(c.Own, "-")
		file := original("/etc/default/kubelet", "KUBELET_EXTRA_ARGS="+c.Own+"\n")
		if isMissing = isMissing && !strings.HasPrefix(flags, "-"); isMissing {
			file = ""
		} else {
			flags = ""
		}
		p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = %q }
  %s
}
`, testKubeletConfig, flags), "unit kubelet.service => {\"value\":{\"load\":\"loaded\",\"start\":{\"words\":[\"/usr/bin/kubelet\","+
			c.Words+"],\"files\":[\"/var/lib/kubelet/kubeadm-flags.env\",\"/etc/default/kubelet\"]}}}\n"+
			original("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS="+c.Kubeadm+"\n")+
			file)
		checkParts(t, fmt.Sprintf("%s %s %s: exit %d\n%s", c.Words, c.Kubeadm, c.Own,
			origin.Code(p.Diagnostics).Exit(), showDiagnostics(p.Diagnostics)), c.Want)
	}
}

// TestFlagsOfUnknownFile: an environment file that a plan does not read may set the variable of the flags file, or not.
// Only what is known to have flags is named as lost.
func TestFlagsOfUnknownFile(t *testing.T) {
	for name, c := range map[string]struct{ more, want string }{
		"no flag":            {"", "exit 0\n!would lose"},
		"a flag of the unit": {`,"vars":{"KUBELET_EXTRA_ARGS":"--v=2"}`, "exit 0\nwould lose the flags of the kubelet's unit"},
	} {
		p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = %q }
  kubelet_flags { flags = { v = 3 } }
}
`, testKubeletConfig), `unit kubelet.service => {"value":{"load":"loaded","start":{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],`+
			`"files":["/etc/default/kubelet","/etc/mine.env"]`+c.more+"}}}\n")
		checkParts(t, fmt.Sprintf("%s: exit %d\n%s", name, origin.Code(p.Diagnostics).Exit(), showDiagnostics(p.Diagnostics)), c.want)
	}
}

// TestFlagsOfUnit: flags in Environment= of the unit are those of the plan until the flags file sets their variable.
func TestFlagsOfUnit(t *testing.T) {
	for name, c := range table.YAML[map[string]struct {
		File, More string
		Want       string // labels and maxPods
	}](t, `
an empty variable:
  file: |
    original /etc/default/kubelet => {"value":{"exists":true,"text":"KUBELET_EXTRA_ARGS=\n"}}
  want: '<nil>'
another variable:
  file: |
    original /etc/default/kubelet => {"value":{"exists":true,"text":"X=1\n"}}
  want: a=b 33
flags of the site: {more: 'kubelet_flags { flags = { v = 3 } }', want: '<nil>'}
no flags file: {want: a=b 33}
`) {
		p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = %q }
  %s
}
`, testKubeletConfig, c.More), `unit kubelet.service => {"value":{"load":"loaded","start":{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],`+
			`"files":["/etc/default/kubelet"],"vars":{"KUBELET_EXTRA_ARGS":"--max-pods=33 --node-labels=a=b"}}}}`+"\n"+c.File)
		var got []string
		for _, l := range p.Node.Labels {
			got = append(got, l.Key+"="+l.Value)
		}
		got = append(got, fmt.Sprint(p.Node.Effective["maxPods"]))
		if text := strings.Join(got, " "); text != c.Want {
			t.Errorf("%s: got %s, want %s", name, text, c.Want)
		}
	}
}

package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestInheritedFlags: flags that the kubelet gets from kubeadm's file or from its unit are in the finished node, with
// their place, come before those of the flags file, and are never written.
func TestInheritedFlags(t *testing.T) {
	const kubeadm = "/var/lib/kubelet/kubeadm-flags.env"
	for _, c := range table.YAML[[]struct {
		Name, Stages, Config, Flags string // flags: of the block
		Kubeadm, Own                string // what the files hold
		Unit                        string // how systemd starts the kubelet; "": not known
		World, More                 string

		Want string // by line; "!" before what must not be there
	}](t, `
- name: amounts and pods
  stages: stage "reserve" "r" { policy = "gke" }
  kubeadm: --max-pods=20 --eviction-hard=memory.available<1Gi --system-reserved=memory=512Mi
  want: |-
    pods 20
    memory.available:1Gi
    --max-pods=20 of /var/lib/kubelet/kubeadm-flags.env
    conflict
    /var/lib/kubelet/kubeadm-flags.env has --eviction-hard
    EXTRA ""
- name: labels
  stages: stage "label" "l" { labels = { "e.com/a" = "1", "e.com/b" = "2" } }
  kubeadm: --node-labels=e.com/a=0,e.com/k=3
  want: |-
    labels e.com/a=1 e.com/b=2 e.com/k=3
    EXTRA "--node-labels=e.com/a=1,e.com/b=2"
- name: a flag of the flags file wins
  kubeadm: --max-pods=20 --v=4
  own: --max-pods=30
  want: |-
    --max-pods=30 of /etc/default/kubelet
    --v=4 of /var/lib/kubelet/kubeadm-flags.env
    EXTRA "--max-pods=30"
- name: a flag of the site wins
  flags: flags = { max-pods = 40 }
  kubeadm: --max-pods=20
  want: |-
    --max-pods=40
    EXTRA "--max-pods=40"
- name: feature gates add up
  flags: flags = { feature-gates = "AllBeta=false" }
  kubeadm: --feature-gates=AllAlpha=false
  want: |-
    --feature-gates=AllAlpha=false,AllBeta=false
    EXTRA "--feature-gates=AllBeta=false"
- name: taints, none of the site
  kubeadm: --register-with-taints=a=b:NoSchedule
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: |-
    taints a=b:NoSchedule
    EXTRA ""
    !registerWithTaints
- name: taints of the site go to the flag
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  kubeadm: --register-with-taints=a=b:NoSchedule
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: |-
    taints a=b:NoSchedule s=1:NoSchedule
    EXTRA "--register-with-taints=a=b:NoSchedule,s=1:NoSchedule"
    !registerWithTaints
- name: the own flag for taints wins
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  kubeadm: --register-with-taints=a=b:NoSchedule
  own: --register-with-taints=c:NoSchedule
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: |-
    taints c:NoSchedule s=1:NoSchedule
    EXTRA "--register-with-taints=c:NoSchedule,s=1:NoSchedule"
- name: taints of the site in the configuration
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  flags: taints = "config"
  kubeadm: --register-with-taints=a=b:NoSchedule
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: |-
    exit 10
    remove it from /var/lib/kubelet/kubeadm-flags.env
- name: taints of patch
  config: patch = { registerWithTaints = [{ key = "z", effect = "NoSchedule" }] }
  kubeadm: --register-with-taints=a=b:NoSchedule
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: |-
    exit 10
    registerWithTaints has no effect here
- name: taints where the flags are left out
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  flags: when = false
  kubeadm: --register-with-taints=a=b:NoSchedule
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: |-
    exit 10
    Taint s=1:NoSchedule has no effect here
    /var/lib/kubelet/kubeadm-flags.env
- name: taints of an unknown unit
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  flags: taints = "config"
  kubeadm: --register-with-taints=a=b:NoSchedule
  want: |-
    exit 0
    warning conflict
    The taints may have no effect
    taints s=1:NoSchedule
    registerWithTaints
- name: more reserved than there is, by an unknown unit
  stages: stage "reserve" "r" { policy = "gke" }
  kubeadm: --kube-reserved=memory=6Gi
  want: |-
    exit 0
    warning reserve-refused
    Too little memory is left to pods
- name: flags of another life, and the site writes the unit
  kubeadm: --network-plugin=cni
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  more: |-
    file "u" {
        path    = "/etc/systemd/system/kubelet.service.d/20-site.conf"
        content = "[Service]\n"
      }
  want: |-
    exit 0
    warning kubelet-flag
    whether the kubelet gets it is not known
- name: flags of a file that is left out
  flags: when = false
  kubeadm: --v=4
  own: --max-pods=30
  want: |-
    exit 0
    --max-pods=30 of /etc/default/kubelet
    --v=4 of /var/lib/kubelet/kubeadm-flags.env
- name: a file block of kubeadm's file
  kubeadm: --max-pods=20 --v=4
  more: |-
    file "k" {
        path    = "/var/lib/kubelet/kubeadm-flags.env"
        content = "KUBELET_KUBEADM_ARGS=--max-pods=25\n"
      }
  want: |-
    exit 0
    --max-pods=25 of /var/lib/kubelet/kubeadm-flags.env
    !--v=4
- name: a file block of the flags file
  flags: when = false
  own: --v=4
  world: |
    target cpu_manager_state => {"value":{"exists":true,"mode":384,"sha256":"00","text":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-1\"}"}}
  more: |-
    file "k" {
        path    = "/etc/default/kubelet"
        content = "KUBELET_EXTRA_ARGS='--cpu-manager-policy=static --reserved-cpus=0'\n"
      }
  want: |-
    exit 0
    --cpu-manager-policy=static of /etc/default/kubelet
    !--v=4
    !delete
- name: kubeadm's variable in the flags file
  kubeadm: --max-pods=20
  own: |-
    --v=2"
    KUBELET_KUBEADM_ARGS="--max-pods=25
  want: --max-pods=25 of /etc/default/kubelet
- name: a unit that does not read the file
  kubeadm: --max-pods=20
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"]}'
  want: |-
    !max-pods
    --v=2
- name: a unit that does not pass the variable
  kubeadm: --max-pods=20
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  want: '!max-pods'
- name: a word that is not a flag, and the unit is not known
  own: '--v=2 # old'
  want: |-
    exit 0
    warning flags-invalid
    "#" is not a flag
- name: a word that is not a flag, in a file that the unit reads
  own: '--v=2 # old'
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"]}'
  want: |-
    exit 10
    error flags-invalid
    "#" is not a flag
    A # inside the quotes does not begin a comment.
- name: a word that is not a flag, in a file that the unit does not read
  own: '--v=2 # old'
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env"]}'
  want: |-
    exit 0
    warning flags-invalid
- name: a taint's removal
  own: --register-with-taints=a:NoSchedule-,b:NoSchedule
  want: |-
    exit 0
    warning flags-invalid
    accepts "a:NoSchedule-"
    EXTRA "--register-with-taints=b:NoSchedule"
- name: a unit with flags of its own
  kubeadm: --max-pods=20
  unit: '{"words":["/usr/bin/kubelet","--max-pods=22","$ARGS","--config=/x","$KUBELET_EXTRA_ARGS"],"vars":{"ARGS":"--v=3 --kubeconfig=/y"}}'
  want: |-
    --max-pods=22 of the kubelet's unit
    --v=3 of the kubelet's unit
    warning conflict
    writes /var/lib/kubelet/config.yaml, which that kubelet does not read
    !config=/x of
    !/y
- name: flags behind the flags file
  flags: flags = { max-pods = 40, v = 3 }
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS","--max-pods=20","--v","3","$MORE"],"vars":{"MORE":"--eviction-hard=memory.available<1Gi"}}'
  want: "exit 0\nwarning conflict\n--max-pods=40 has no effect here\n--max-pods=20 of \n--v=3 of \n--eviction-hard=memory.available<1Gi of the kubelet's unit\nEXTRA \"--max-pods=40 --v=3\"\n!--v=3 has no"
- name: a label behind the flags file
  stages: stage "label" "l" { labels = { "e.com/a" = "1" } }
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS","--node-labels=e.com/a=2,e.com/k=3"]}'
  want: |-
    exit 0
    warning conflict
    Label e.com/a=1 has no effect here
    labels e.com/a=2 e.com/k=3
- name: taints behind the flags file
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS","--register-with-taints=a=b:NoSchedule"]}'
  want: |-
    exit 0
    warning conflict
    Taint s=1:NoSchedule has no effect here
    taints a=b:NoSchedule
    !registerWithTaints
- name: a unit that starts a script
  kubeadm: --max-pods=20
  unit: '{"words":["/opt/start.sh"]}'
  want: --max-pods=20 of /var/lib/kubelet/kubeadm-flags.env
- name: a file that systemd cannot read
  world: |
    original kubeadm-flags.env => {"fail":"absent","detail":"a folder"}
  want: exit 0
- name: a file that this user may not read
  world: |
    original kubeadm-flags.env => {"fail":"denied","detail":"not root"}
  want: |-
    complete false
    not root
- name: a file of kubeadm that is not text
  own: --v=2
  world: |
    original kubeadm-flags.env => {"value":{"exists":true,"text":"KUBELET_KUBEADM_ARGS=\u0000"}}
  want: |-
    exit 0
    complete true
    warning flags-invalid
    The kubelet gets no flags of /var/lib/kubelet/kubeadm-flags.env
    --v=2
- name: a file of kubeadm that is not UTF-8
  own: --v=2
  world: |
    original kubeadm-flags.env => {"fail":"unusable","detail":"/var/lib/kubelet/kubeadm-flags.env is not UTF-8 text"}
  want: |-
    exit 0
    complete true
    warning flags-invalid
    The kubelet gets no flags of /var/lib/kubelet/kubeadm-flags.env: /var/lib/kubelet/kubeadm-flags.env is not UTF-8 text. systemd
    --v=2
- name: a word in kubeadm's file that is not a flag
  kubeadm: --v=2 garbage
  own: --v=3
  want: |-
    exit 0
    warning flags-invalid
    "garbage" is not a flag
    !inside the quotes
    /var/lib/kubelet/kubeadm-flags.env
    --v=3
- name: kubeadm's file without its variable
  world: |
    original kubeadm-flags.env => {"value":{"exists":true,"text":"OTHER=--max-pods=20\n"}}
  want: |-
    exit 0
    !warning
    !max-pods
- name: flags that belong together, in the unit and in a file of a vendor
  unit: '{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$VENDOR_ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"VENDOR_ARGS":"--image-credential-provider-config=/etc/v.json --max-pods=29"}}}'
  want: |-
    exit 0
    --max-pods=29 of /etc/v.env
    !bin-dir" flag
- name: half of them, in a file of a vendor
  unit: '{"words":["/usr/bin/kubelet","$VENDOR_ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"VENDOR_ARGS":"--image-credential-provider-config=/etc/v.json"}}}'
  want: |-
    exit 10
    plugin binary directory
    /etc/v.env
- name: half of them in the unit, and a file that is not read
  unit: '{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$VENDOR_ARGS"],"files":["/etc/v.env"]}'
  want: exit 0
- name: half of them in the unit, and a variable that may be a secret
  unit: '{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$VENDOR_ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"VENDOR_ARGS":null}}}'
  want: exit 0
- name: a file block of a file of a vendor
  unit: '{"words":["/usr/bin/kubelet","$VENDOR_ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"VENDOR_ARGS":"--max-pods=29"}}}'
  more: |-
    file "v" {
        path    = "/etc/v.env"
        content = "VENDOR_ARGS=--max-pods=31\n"
      }
  want: |-
    exit 0
    --max-pods=31 of /etc/v.env
    !max-pods=29
- name: a unit whose variables systemd does not replace
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet","--max-pods=20","$KUBELET_EXTRA_ARGS"],"literal":true,"at":"/etc/systemd/system/kubelet.service:5","files":["/etc/default/kubelet"]}'
  want: |-
    exit 10
    "$KUBELET_EXTRA_ARGS" is not a flag
    set by /etc/systemd/system/kubelet.service:5
    --max-pods=20 of /etc/systemd/system/kubelet.service:5
    warning conflict
    The kubelet does not get these flags
    /etc/systemd/system/kubelet.service:5: the colon before the program keeps systemd from replacing variables. Remove the colon.
    !Write what
- name: a colon, and no variable
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet"],"literal":true,"at":"/etc/systemd/system/kubelet.service:5"}'
  want: |-
    exit 0
    warning conflict
    kubelet.service:5: the colon
    Remove the colon, and add $KUBELET_EXTRA_ARGS
    !none
- name: a unit without variables
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet"],"at":"/etc/systemd/system/kubelet.service:5"}'
  want: |-
    exit 0
    warning conflict
    Add $KUBELET_EXTRA_ARGS to /etc/systemd/system/kubelet.service:5
    !none
- name: a unit without files
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"at":"/etc/systemd/system/kubelet.service:5"}'
  want: |-
    exit 0
    warning conflict
    Add EnvironmentFile=-/etc/default/kubelet to it
    !none
- name: a folder of drop-ins that does not exist
  unit: '{"words":["/usr/bin/kubelet","--config-dir=/nosuch"],"at":"/etc/systemd/system/kubelet.service.d/9.conf:3","files":["/etc/default/kubelet"]}'
  world: |
    drop-ins => {"value":{"paths":[],"unlisted":"there is no folder /nosuch"}}
  want: |-
    exit 10
    The kubelet would not start with --config-dir
    set by /etc/systemd/system/kubelet.service.d/9.conf:3
    Create the folder, or remove the flag
    !Fix the file
- name: a refused flag in a drop-in of the unit, and in a variable of one
  unit: '{"words":["/usr/bin/kubelet","--network-plugin=cni","$MORE","$KUBELET_EXTRA_ARGS"],"vars":{"MORE":"--no-such"},"at":"/etc/systemd/system/kubelet.service.d/9.conf:3","vars_at":{"MORE":"/etc/systemd/system/kubelet.service.d/8.conf:2"},"files":["/etc/default/kubelet"]}'
  want: |-
    exit 10
    set by /etc/systemd/system/kubelet.service.d/9.conf:3
    set by /etc/systemd/system/kubelet.service.d/8.conf:2
- name: flags of a file that the unit does not use
  flags: flags = { max-pods = "many" }
  own: --network-plugin=cni
  unit: '{"words":["/usr/bin/kubelet","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--v=2"}}}'
  want: |-
    exit 0
    warning conflict
    The kubelet does not get these flags
    !would not start
- name: a kubeconfig that is missing, in a file of a vendor
  unit: '{"words":["/usr/bin/kubelet","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--kubeconfig=/nosuch"}}}'
  world: |
    exists /nosuch => {"value":{"exists":false}}
  want: |-
    exit 30
    invalid kubeconfig: stat /nosuch
    set by /etc/v.env
- name: a kubeconfig that the kubelet will make
  unit: '{"words":["/usr/bin/kubelet","--bootstrap-kubeconfig=/b","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--kubeconfig=/nosuch"}}}'
  world: |
    exists /nosuch => {"value":{"exists":false}}
  want: |-
    exit 0
    !invalid kubeconfig
- name: a configuration of credential providers that the kubelet cannot read, in a file of a vendor
  unit: '{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--image-credential-provider-config=/etc/v.json"}}}'
  world: |
    exists /opt/bin => {"value":{"exists":true}}
    exists providers => {"value":{"exists":true,"refused":"error decoding config \"/etc/v.json\": it is not YAML"}}
    exists /etc/v.json => {"value":{"exists":true}}
  want: |-
    exit 30
    it is not YAML
    set by /etc/v.env
- name: a credential plugin that is missing, of a unit's file
  unit: '{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","--image-credential-provider-config=/etc/v.json"]}'
  world: |
    exists providers => {"value":{"exists":true,"providers":["ecr"]}}
    exists /opt/bin/ecr => {"value":{"exists":false}}
    exists => {"value":{"exists":true}}
  want: |-
    exit 30
    did not exist: /opt/bin/ecr
    set by the kubelet's unit
- name: a manager's state, and a folder of drop-ins in a file of a vendor
  unit: '{"words":["/usr/bin/kubelet","$ARGS","$KUBELET_EXTRA_ARGS"],"files":["/etc/v.env","/etc/default/kubelet"],"read":{"/etc/v.env":{"ARGS":"--config-dir=/etc/k.d"}}}'
  world: |
    drop-ins /etc/k.d => {"value":{"paths":["/etc/k.d/1.conf"]}}
    original /etc/k.d/1.conf => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"}}
    exists => {"value":{"exists":true}}
    target cpu_manager_state => {"value":{"exists":true,"mode":384,"sha256":"00","text":"{\"policyName\":\"none\"}"}}
  want: |-
    exit 0
    --config-dir=/etc/k.d of /etc/v.env
    delete /var/lib/kubelet/cpu_manager_state
- name: an empty folder of drop-ins
  unit: '{"words":["/usr/bin/kubelet","--config-dir=","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"]}'
  world: |
    drop-ins => {"value":{"paths":["/etc/nsswitch.conf"]}}
  want: "exit 0\n--config-dir= of \n!nsswitch"
- name: a unit that removes the variable
  own: --no-such
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"],"unset":["KUBELET_EXTRA_ARGS"]}'
  want: |-
    exit 0
    warning conflict
    The kubelet does not get these flags and labels: UnsetEnvironment= in its unit overrides $KUBELET_EXTRA_ARGS of /etc/default/kubelet. Remove it there.
    !would not start
- name: a unit that removes kubeadm's variable
  kubeadm: --no-such
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"],"unset":["KUBELET_KUBEADM_ARGS"]}'
  want: |-
    exit 0
    !warning
    !no-such
- name: a unit that removes a value of kubeadm's variable
  kubeadm: --no-such
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"],"unset":["KUBELET_KUBEADM_ARGS=--no-such"]}'
  want: |-
    exit 0
    !warning
    !no-such
- name: a unit that removes another value
  kubeadm: --network-plugin=cni
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"],"unset":["KUBELET_KUBEADM_ARGS=--v=3","OTHER"]}'
  want: |-
    exit 10
    set by /var/lib/kubelet/kubeadm-flags.env
- name: a later file with the variable
  stages: stage "label" "l" { labels = { "e.com/a" = "1" } }
  own: --network-plugin=cni
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet","/etc/v.env"],"read":{"/etc/v.env":{"KUBELET_EXTRA_ARGS":"--max-pods=29"}}}'
  want: |-
    exit 0
    warning conflict
    The kubelet does not get these flags and labels: /etc/v.env overrides $KUBELET_EXTRA_ARGS of /etc/default/kubelet. Remove it there.
    --max-pods=29 of /etc/v.env
    !would lose
    !would not start
- name: a later file with the variable, which the site replaces
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet","/etc/v.env"],"read":{"/etc/v.env":{"KUBELET_EXTRA_ARGS":"--max-pods=29"}}}'
  more: |-
    file "v" {
        path    = "/etc/v.env"
        content = "VENDOR_ARGS=--max-pods=31\n"
      }
  want: |-
    exit 0
    --v=2 of /etc/default/kubelet
    !warning
    !max-pods
- name: an earlier file with the variable
  own: --v=2
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/v.env","/etc/default/kubelet"],"read":{"/etc/v.env":{"KUBELET_EXTRA_ARGS":"--max-pods=29"}}}'
  want: |-
    exit 0
    --v=2 of /etc/default/kubelet
    !warning
    !max-pods
- name: a relative folder of drop-ins, in a unit with a folder of its own
  kubeadm: --config=config.yaml
  own: --config-dir=rel
  unit: '{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"folder":"/var/lib/kubelet","files":["/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"]}'
  world: |
    drop-ins /var/lib/kubelet/rel => {"value":{"paths":["/var/lib/kubelet/rel/1.conf"]}}
    original /var/lib/kubelet/rel/1.conf => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"}}
    exists => {"value":{"exists":true}}
    target cpu_manager_state => {"value":{"exists":true,"mode":384,"sha256":"00","text":"{\"policyName\":\"none\"}"}}
  want: |-
    exit 0
    !warning
    delete /var/lib/kubelet/cpu_manager_state
- name: another configuration, in a unit with a folder of its own
  unit: '{"words":["/usr/bin/kubelet","--config=kubelet.yaml","$KUBELET_EXTRA_ARGS"],"folder":"/etc/k","files":["/etc/default/kubelet"]}'
  want: |-
    exit 0
    Its unit has --config=/etc/k/kubelet.yaml
    Write path = "/etc/k/kubelet.yaml"
- name: a recording that is older
  world: |
    original kubeadm-flags.env => {"fail":"unread","detail":"never asked"}
  want: |-
    exit 0
    complete true
`) {
		t.Run(c.Name, func(t *testing.T) {
			file := func(path, variable, flags string) string {
				if flags == "" {
					return ""
				}
				return original(path, variable+`="`+flags+"\"\n")
			}
			world := c.World
			if c.Unit != "" {
				world = `unit kubelet.service => {"value":{"load":"loaded","start":` + c.Unit + "}}\n" + world
			}
			p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
%s
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base = %q
    %s
  }
  kubelet_flags {
    %s
  }
  %s
}
`, c.Stages, testKubeletConfig, c.Config, c.Flags, c.More),
				world+file(kubeadm, "KUBELET_KUBEADM_ARGS", c.Kubeadm)+
					file("/etc/default/kubelet", "KUBELET_EXTRA_ARGS", c.Own))

			var plan strings.Builder
			fmt.Fprintf(
				&plan,
				"exit %d\ncomplete %t\n%s\n",
				origin.Code(p.Diagnostics).Exit(),
				p.Complete,
				showDiagnostics(p.Diagnostics),
			)
			if r := p.Node.Reserved; r != nil {
				fmt.Fprintf(&plan, "pods %d\n%v %v\n", r.MaxPods, r.EvictionHard, r.System)
			}
			plan.WriteString("labels")
			for _, l := range p.Node.Labels {
				fmt.Fprintf(&plan, " %s=%s", l.Key, l.Value)
			}
			plan.WriteString("\ntaints")
			for _, taint := range p.Node.Taints {
				fmt.Fprintf(&plan, " %s", taint)
			}
			plan.WriteString("\n")
			for _, f := range p.Node.Flags {
				fmt.Fprintf(&plan, "--%s=%s of %s\n", f.Name, f.Value, f.Origins[0].Ref)
			}
			for _, f := range p.Node.Files {
				switch f.Purpose {
				case "kubelet-flags":
					text, _, _ := strings.Cut(strings.TrimPrefix(f.Text.Template(), "KUBELET_EXTRA_ARGS="), "\n")
					fmt.Fprintf(&plan, "EXTRA \"%s\"\n", strings.Trim(text, `"`))
				case "kubelet-config":
					plan.WriteString(f.Text.Template())
				}
			}
			for _, change := range p.Changes {
				plan.WriteString(change.Action + " " + change.File.Path + "\n")
			}
			checkParts(t, plan.String(), c.Want)
		})
	}
}

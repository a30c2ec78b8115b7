package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
)

// TestInheritedFlags: flags that the kubelet gets from kubeadm's file or from its unit are in the finished node, with
// their place, come before those of the flags file, and are never written.
func TestInheritedFlags(t *testing.T) {
	const kubeadm = "/var/lib/kubelet/kubeadm-flags.env"
	unit := func(start string) string {
		return `unit kubelet.service => {"value":{"load":"loaded","start":` + start + `}}` + "\n"
	}
	known := unit(
		`{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["` + kubeadm + `","/etc/default/kubelet"]}`,
	)
	for _, c := range []struct {
		name, stages, config, flags string // flags: of the block
		kubeadm, own                string // what the files hold
		world, more                 string

		want string // by line; "!" before what must not be there
	}{
		{name: "amounts and pods", stages: `stage "reserve" "r" { policy = "gke" }`,
			kubeadm: "--max-pods=20 --eviction-hard=memory.available<1Gi --system-reserved=memory=512Mi",
			want: "pods 20\nmemory.available:1Gi\n--max-pods=20 of " + kubeadm +
				"\nconflict\n" + kubeadm + " has --eviction-hard\nEXTRA \"\""},
		{name: "labels", stages: `stage "label" "l" { labels = { "e.com/a" = "1", "e.com/b" = "2" } }`, kubeadm: "--node-labels=e.com/a=0,e.com/k=3",
			want: "labels e.com/a=1 e.com/b=2 e.com/k=3\nEXTRA \"--node-labels=e.com/a=1,e.com/b=2\""},
		{name: "a flag of the flags file wins", kubeadm: "--max-pods=20 --v=4", own: "--max-pods=30",
			want: "--max-pods=30 of /etc/default/kubelet\n--v=4 of " + kubeadm + "\nEXTRA \"--max-pods=30\""},
		{name: "a flag of the site wins", kubeadm: "--max-pods=20", flags: `flags = { max-pods = 40 }`,
			want: "--max-pods=40\nEXTRA \"--max-pods=40\""},
		{name: "feature gates add up", kubeadm: "--feature-gates=AllAlpha=false", flags: `flags = { feature-gates = "AllBeta=false" }`,
			want: "--feature-gates=AllAlpha=false,AllBeta=false\nEXTRA \"--feature-gates=AllBeta=false\""},
		{name: "taints, none of the site", world: known, kubeadm: "--register-with-taints=a=b:NoSchedule", want: "taints a=b:NoSchedule\nEXTRA \"\"\n!registerWithTaints"},
		{name: "taints of the site go to the flag", world: known, stages: `stage "taint" "t" { taints = ["s=1:NoSchedule"] }`, kubeadm: "--register-with-taints=a=b:NoSchedule",
			want: "taints a=b:NoSchedule s=1:NoSchedule\nEXTRA " +
				"\"--register-with-taints=a=b:NoSchedule,s=1:NoSchedule\"\n!registerWithTaints"},
		{name: "the own flag for taints wins", world: known, stages: `stage "taint" "t" { taints = ["s=1:NoSchedule"] }`, kubeadm: "--register-with-taints=a=b:NoSchedule",
			own: "--register-with-taints=c:NoSchedule", want: "taints c:NoSchedule s=1:NoSchedule\nEXTRA " +
				"\"--register-with-taints=c:NoSchedule,s=1:NoSchedule\""},
		{name: "taints of the site in the configuration", world: known, stages: `stage "taint" "t" { taints = ["s=1:NoSchedule"] }`, kubeadm: "--register-with-taints=a=b:NoSchedule",
			flags: `taints = "config"`, want: "exit 10\nremove it from " + kubeadm},
		{name: "taints of patch", world: known, config: `patch = { registerWithTaints = [{ key = "z", effect = "NoSchedule" }] }`, kubeadm: "--register-with-taints=a=b:NoSchedule",
			want: "exit 10\nregisterWithTaints has no effect here"},
		{name: "taints where the flags are left out", world: known, stages: `stage "taint" "t" { taints = ["s=1:NoSchedule"] }`, kubeadm: "--register-with-taints=a=b:NoSchedule",
			flags: "when = false", want: "exit 10\nTaint s=1:NoSchedule has no effect here\n" + kubeadm},
		{name: "taints of an unknown unit", stages: `stage "taint" "t" { taints = ["s=1:NoSchedule"] }`, kubeadm: "--register-with-taints=a=b:NoSchedule",
			flags: `taints = "config"`, want: "exit 0\nwarning conflict\nThe taints may have no effect\ntaints " +
				"s=1:NoSchedule\nregisterWithTaints"},
		{name: "more reserved than there is, by an unknown unit", stages: `stage "reserve" "r" { policy = "gke" }`, kubeadm: "--kube-reserved=memory=6Gi", want: "exit 0\nwarning reserve-refused\nToo little memory is left to pods"},
		{name: "flags of another life, and the site writes the unit", kubeadm: "--network-plugin=cni", world: known, more: `file "u" {
    path    = "/etc/systemd/system/kubelet.service.d/20-site.conf"
    content = "[Service]\n"
  }`, want: "exit 0\nwarning kubelet-flag\nwhether the kubelet gets it is not known"},
		{name: "flags of a file that is left out", own: "--max-pods=30", kubeadm: "--v=4", flags: "when = false",
			want: "exit 0\n--max-pods=30 of /etc/default/kubelet\n--v=4 of " + kubeadm},
		{name: "a file block of kubeadm's file", kubeadm: "--max-pods=20 --v=4", more: `file "k" {
    path    = "/var/lib/kubelet/kubeadm-flags.env"
    content = "KUBELET_KUBEADM_ARGS=--max-pods=25\n"
  }`, want: "exit 0\n--max-pods=25 of " + kubeadm + "\n!--v=4"},
		{name: "a file block of the flags file", own: "--v=4", flags: "when = false", more: `file "k" {
    path    = "/etc/default/kubelet"
    content = "KUBELET_EXTRA_ARGS='--cpu-manager-policy=static --reserved-cpus=0'\n"
  }`, world: `target cpu_manager_state => {"value":{"exists":true,"mode":384,"sha256":"00","text":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-1\"}"}}` + "\n",
			want: "exit 0\n--cpu-manager-policy=static of /etc/default/kubelet\n!--v=4\n!delete"},
		{name: "kubeadm's variable in the flags file", kubeadm: "--max-pods=20", own: "--v=2\"\nKUBELET_KUBEADM_ARGS=\"--max-pods=25",
			want: "--max-pods=25 of /etc/default/kubelet"},
		{name: "a unit that does not read the file", kubeadm: "--max-pods=20", own: "--v=2",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"]}`),
			want:  "!max-pods\n--v=2"},
		{name: "a unit that does not pass the variable", kubeadm: "--max-pods=20",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["` + kubeadm + `","/etc/default/kubelet"]}`), want: "!max-pods"},
		{name: "a word that is not a flag, and the unit is not known", own: "--v=2 # old", want: "exit 0\nwarning flags-invalid\n\"#\" is not a flag"},
		{name: "a word that is not a flag, in a file that the unit reads", own: "--v=2 # old",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"]}`), want: "exit 10\nerror flags-invalid\n\"#\" is not a flag"},
		{name: "a word that is not a flag, in a file that the unit does not read", own: "--v=2 # old",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["` + kubeadm + `"]}`), want: "exit 0\nwarning flags-invalid"},
		{name: "a taint's removal", own: "--register-with-taints=a:NoSchedule-,b:NoSchedule",
			want: "exit 0\nwarning flags-invalid\naccepts \"a:NoSchedule-\"\nEXTRA " +
				"\"--register-with-taints=b:NoSchedule\""},
		{name: "a unit with flags of its own", kubeadm: "--max-pods=20",
			world: unit(`{"words":["/usr/bin/kubelet","--max-pods=22","$ARGS","--config=/x","$KUBELET_EXTRA_ARGS"],"vars":{"ARGS":"--v=3 --kubeconfig=/y"}}`),
			want: "--max-pods=22 of the kubelet's unit\n--v=3 of the kubelet's unit\nwarning conflict\nwrites " +
				"/var/lib/kubelet/config.yaml, which that kubelet does not read\n!config=/x of\n!/y"},
		{name: "flags behind the flags file", flags: `flags = { max-pods = 40, v = 3 }`,
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS","--max-pods=20","--v","3","$MORE"],"vars":{"MORE":"--eviction-hard=memory.available<1Gi"}}`),
			want: "exit 0\nwarning conflict\n--max-pods=40 has no effect here\n--max-pods=20 of \n--v=3 of " +
				"\n--eviction-hard=memory.available<1Gi of the kubelet's unit\n" +
				"EXTRA \"--max-pods=40 --v=3\"\n!--v=3 has no"},
		{name: "a label behind the flags file", stages: `stage "label" "l" { labels = { "e.com/a" = "1" } }`,
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS","--node-labels=e.com/a=2,e.com/k=3"]}`),
			want:  "exit 0\nwarning conflict\nLabel e.com/a=1 has no effect here\nlabels e.com/a=2 e.com/k=3"},
		{name: "taints behind the flags file", stages: `stage "taint" "t" { taints = ["s=1:NoSchedule"] }`,
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS","--register-with-taints=a=b:NoSchedule"]}`),
			want: "exit 0\nwarning conflict\nTaint s=1:NoSchedule has no effect here\ntaints " +
				"a=b:NoSchedule\n!registerWithTaints"},
		{name: "a unit that starts a script", kubeadm: "--max-pods=20", world: unit(`{"words":["/opt/start.sh"]}`), want: "--max-pods=20 of " + kubeadm},
		{name: "a file that systemd cannot read", world: "original kubeadm-flags.env => " +
			"{\"fail\":\"absent\",\"detail\":\"a folder\"}\n", want: "exit 0"},
		{name: "a file that this user may not read", world: "original kubeadm-flags.env => " +
			"{\"fail\":\"denied\",\"detail\":\"not root\"}\n",
			want: "complete false\nnot root"},
		{name: "a file of kubeadm that is not text", own: "--v=2", world: "original kubeadm-flags.env => " +
			`{"value":{"exists":true,"text":"KUBELET_KUBEADM_ARGS=\u0000"}}` + "\n",
			want: "exit 0\ncomplete true\nwarning flags-invalid\nThe kubelet gets no flags of " + kubeadm + "\n--v=2"},
		{name: "a file of kubeadm that is not UTF-8", own: "--v=2", world: "original kubeadm-flags.env => " +
			`{"fail":"unusable","detail":"/var/lib/kubelet/kubeadm-flags.env is not UTF-8 text"}` + "\n",
			want: "exit 0\ncomplete true\nwarning flags-invalid\nThe kubelet gets no flags of " + kubeadm +
				": " + kubeadm + " is not UTF-8 text. systemd\n--v=2"},
		{name: "a word in kubeadm's file that is not a flag", kubeadm: "--v=2 garbage", own: "--v=3",
			want: "exit 0\nwarning flags-invalid\n\"garbage\" is not a flag\n" + kubeadm + "\n--v=3"},
		{name: "kubeadm's file without its variable", world: "original kubeadm-flags.env => " +
			`{"value":{"exists":true,"text":"OTHER=--max-pods=20\n"}}` + "\n", want: "exit 0\n!warning\n!max-pods"},
		{name: "flags that belong together, in the unit and in a file of a vendor",
			world: unit(`{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$VENDOR_ARGS"],"files":["/etc/v.env"],` +
				`"read":{"/etc/v.env":{"VENDOR_ARGS":"--image-credential-provider-config=/etc/v.json --max-pods=29"}}}`),
			want: "exit 0\n--max-pods=29 of /etc/v.env\n!bin-dir\" flag"},
		{name: "half of them, in a file of a vendor",
			world: unit(`{"words":["/usr/bin/kubelet","$VENDOR_ARGS"],"files":["/etc/v.env"],` +
				`"read":{"/etc/v.env":{"VENDOR_ARGS":"--image-credential-provider-config=/etc/v.json"}}}`),
			want: "exit 10\nplugin binary directory\n/etc/v.env"},
		{name: "half of them in the unit, and a file that is not read",
			world: unit(`{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$VENDOR_ARGS"],"files":["/etc/v.env"]}`),
			want:  "exit 0"},
		{name: "half of them in the unit, and a variable that may be a secret",
			world: unit(`{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$VENDOR_ARGS"],"files":["/etc/v.env"],` +
				`"read":{"/etc/v.env":{"VENDOR_ARGS":null}}}`),
			want: "exit 0"},
		{name: "a file block of a file of a vendor", more: `file "v" {
    path    = "/etc/v.env"
    content = "VENDOR_ARGS=--max-pods=31\n"
  }`, world: unit(`{"words":["/usr/bin/kubelet","$VENDOR_ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"VENDOR_ARGS":"--max-pods=29"}}}`),
			want: "exit 0\n--max-pods=31 of /etc/v.env\n!max-pods=29"},
		{name: "a unit whose variables systemd does not replace", own: "--v=2",
			world: unit(`{"words":["/usr/bin/kubelet","--max-pods=20","$KUBELET_EXTRA_ARGS"],"literal":true,"at":"/etc/systemd/system/kubelet.service:5","files":["/etc/default/kubelet"]}`),
			want: "exit 10\n\"$KUBELET_EXTRA_ARGS\" is not a flag\nset by /etc/systemd/system/kubelet.service:5\n--max-pods=20 of " +
				"/etc/systemd/system/kubelet.service:5\nwarning conflict\nThe kubelet does not get these flags\n" +
				"/etc/systemd/system/kubelet.service:5: the colon before the program keeps systemd from replacing variables" +
				". Remove the colon.\n!Write what"},
		{name: "a colon, and no variable", own: "--v=2",
			world: unit(`{"words":["/usr/bin/kubelet"],"literal":true,"at":"/etc/systemd/system/kubelet.service:5"}`),
			want:  "exit 0\nwarning conflict\nkubelet.service:5: the colon\nRemove the colon, and add $KUBELET_EXTRA_ARGS\n!none"},
		{name: "a unit without variables", own: "--v=2",
			world: unit(`{"words":["/usr/bin/kubelet"],"at":"/etc/systemd/system/kubelet.service:5"}`),
			want:  "exit 0\nwarning conflict\nAdd $KUBELET_EXTRA_ARGS to /etc/systemd/system/kubelet.service:5\n!none"},
		{name: "a unit without files", own: "--v=2",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"at":"/etc/systemd/system/kubelet.service:5"}`),
			want:  "exit 0\nwarning conflict\nAdd EnvironmentFile=-/etc/default/kubelet to it\n!none"},
		{name: "a folder of drop-ins that does not exist", world: unit(`{"words":["/usr/bin/kubelet","--config-dir=/nosuch"],`+
			`"at":"/etc/systemd/system/kubelet.service.d/9.conf:3","files":["/etc/default/kubelet"]}`) +
			`drop-ins => {"value":{"paths":[],"unlisted":"there is no folder /nosuch"}}` + "\n",
			want: "exit 10\nThe kubelet would not start with --config-dir\nset by /etc/systemd/system/kubelet.service.d/9.conf:3\n" +
				"Create the folder, or remove the flag\n!Fix the file"},
		{name: "a refused flag in a drop-in of the unit, and in a variable of one",
			world: unit(`{"words":["/usr/bin/kubelet","--network-plugin=cni","$MORE","$KUBELET_EXTRA_ARGS"],"vars":{"MORE":"--no-such"},` +
				`"at":"/etc/systemd/system/kubelet.service.d/9.conf:3","vars_at":{"MORE":"/etc/systemd/system/kubelet.service.d/8.conf:2"},"files":["/etc/default/kubelet"]}`),
			want: "exit 10\nset by /etc/systemd/system/kubelet.service.d/9.conf:3\nset by /etc/systemd/system/kubelet.service.d/8.conf:2"},
		{name: "flags of a file that the unit does not use", own: "--network-plugin=cni", flags: `flags = { max-pods = "many" }`,
			world: unit(`{"words":["/usr/bin/kubelet","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--v=2"}}}`),
			want:  "exit 0\nwarning conflict\nThe kubelet does not get these flags\n!would not start"},
		{name: "a kubeconfig that is missing, in a file of a vendor",
			world: unit(`{"words":["/usr/bin/kubelet","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--kubeconfig=/nosuch"}}}`) +
				`exists /nosuch => {"value":{"exists":false}}` + "\n",
			want: "exit 30\ninvalid kubeconfig: stat /nosuch\nset by /etc/v.env"},
		{name: "a kubeconfig that the kubelet will make",
			world: unit(`{"words":["/usr/bin/kubelet","--bootstrap-kubeconfig=/b","$ARGS"],"files":["/etc/v.env"],"read":{"/etc/v.env":{"ARGS":"--kubeconfig=/nosuch"}}}`) +
				`exists /nosuch => {"value":{"exists":false}}` + "\n",
			want: "exit 0\n!invalid kubeconfig"},
		{name: "a configuration of credential providers that the kubelet cannot read, in a file of a vendor",
			world: unit(`{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","$ARGS"],"files":["/etc/v.env"],`+
				`"read":{"/etc/v.env":{"ARGS":"--image-credential-provider-config=/etc/v.json"}}}`) +
				`exists /opt/bin => {"value":{"exists":true}}` + "\n" +
				`exists providers => {"value":{"exists":true,"refused":"error decoding config \"/etc/v.json\": it is not YAML"}}` + "\n" +
				`exists /etc/v.json => {"value":{"exists":true}}` + "\n",
			want: "exit 30\nit is not YAML\nset by /etc/v.env"},
		{name: "a credential plugin that is missing, of a unit's file",
			world: unit(`{"words":["/usr/bin/kubelet","--image-credential-provider-bin-dir=/opt/bin","--image-credential-provider-config=/etc/v.json"]}`) +
				`exists providers => {"value":{"exists":true,"providers":["ecr"]}}` + "\n" +
				`exists /opt/bin/ecr => {"value":{"exists":false}}` + "\n" +
				`exists => {"value":{"exists":true}}` + "\n",
			want: "exit 30\ndid not exist: /opt/bin/ecr\nset by the kubelet's unit"},
		{name: "a manager's state, and a folder of drop-ins in a file of a vendor",
			world: unit(`{"words":["/usr/bin/kubelet","$ARGS","$KUBELET_EXTRA_ARGS"],"files":["/etc/v.env","/etc/default/kubelet"],`+
				`"read":{"/etc/v.env":{"ARGS":"--config-dir=/etc/k.d"}}}`) +
				`drop-ins /etc/k.d => {"value":{"paths":["/etc/k.d/1.conf"]}}` + "\n" +
				original("/etc/k.d/1.conf", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n") +
				`exists => {"value":{"exists":true}}` + "\n" +
				`target cpu_manager_state => {"value":{"exists":true,"mode":384,"sha256":"00","text":"{\"policyName\":\"none\"}"}}` + "\n",
			want: "exit 0\n--config-dir=/etc/k.d of /etc/v.env\ndelete /var/lib/kubelet/cpu_manager_state"},
		{name: "an empty folder of drop-ins", world: unit(`{"words":["/usr/bin/kubelet","--config-dir=","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"]}`) +
			`drop-ins => {"value":{"paths":["/etc/nsswitch.conf"]}}` + "\n",
			want: "exit 0\n--config-dir= of \n!nsswitch"},
		{name: "a unit that removes the variable", own: "--no-such",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet"],"unset":["KUBELET_EXTRA_ARGS"]}`),
			want: "exit 0\nwarning conflict\nThe kubelet does not get these flags and labels: UnsetEnvironment= in its unit overrides " +
				"$KUBELET_EXTRA_ARGS of /etc/default/kubelet. Remove it there.\n!would not start"},
		{name: "a unit that removes kubeadm's variable", kubeadm: "--no-such",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["` + kubeadm +
				`","/etc/default/kubelet"],"unset":["KUBELET_KUBEADM_ARGS"]}`),
			want: "exit 0\n!warning\n!no-such"},
		{name: "a unit that removes a value of kubeadm's variable", kubeadm: "--no-such",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["` + kubeadm +
				`","/etc/default/kubelet"],"unset":["KUBELET_KUBEADM_ARGS=--no-such"]}`),
			want: "exit 0\n!warning\n!no-such"},
		{name: "a unit that removes another value", own: "--v=2", kubeadm: "--network-plugin=cni",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"files":["` + kubeadm +
				`","/etc/default/kubelet"],"unset":["KUBELET_KUBEADM_ARGS=--v=3","OTHER"]}`),
			want: "exit 10\nset by " + kubeadm},
		{name: "a later file with the variable", stages: `stage "label" "l" { labels = { "e.com/a" = "1" } }`, own: "--network-plugin=cni",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet","/etc/v.env"],` +
				`"read":{"/etc/v.env":{"KUBELET_EXTRA_ARGS":"--max-pods=29"}}}`),
			want: "exit 0\nwarning conflict\nThe kubelet does not get these flags and labels: /etc/v.env overrides " +
				"$KUBELET_EXTRA_ARGS of /etc/default/kubelet. Remove it there.\n--max-pods=29 of /etc/v.env\n!would lose\n!would not start"},
		{name: "a later file with the variable, which the site replaces", own: "--v=2", more: `file "v" {
    path    = "/etc/v.env"
    content = "VENDOR_ARGS=--max-pods=31\n"
  }`, world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/default/kubelet","/etc/v.env"],` +
			`"read":{"/etc/v.env":{"KUBELET_EXTRA_ARGS":"--max-pods=29"}}}`),
			want: "exit 0\n--v=2 of /etc/default/kubelet\n!warning\n!max-pods"},
		{name: "an earlier file with the variable", own: "--v=2",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_EXTRA_ARGS"],"files":["/etc/v.env","/etc/default/kubelet"],` +
				`"read":{"/etc/v.env":{"KUBELET_EXTRA_ARGS":"--max-pods=29"}}}`),
			want: "exit 0\n--v=2 of /etc/default/kubelet\n!warning\n!max-pods"},
		{name: "a relative folder of drop-ins, in a unit with a folder of its own", kubeadm: "--config=config.yaml", own: "--config-dir=rel",
			world: unit(`{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],"folder":"/var/lib/kubelet","files":["`+kubeadm+
				`","/etc/default/kubelet"]}`) +
				`drop-ins /var/lib/kubelet/rel => {"value":{"paths":["/var/lib/kubelet/rel/1.conf"]}}` + "\n" +
				original("/var/lib/kubelet/rel/1.conf", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n") +
				`exists => {"value":{"exists":true}}` + "\n" +
				`target cpu_manager_state => {"value":{"exists":true,"mode":384,"sha256":"00","text":"{\"policyName\":\"none\"}"}}` + "\n",
			want: "exit 0\n!warning\ndelete /var/lib/kubelet/cpu_manager_state"},
		{name: "another configuration, in a unit with a folder of its own",
			world: unit(`{"words":["/usr/bin/kubelet","--config=kubelet.yaml","$KUBELET_EXTRA_ARGS"],"folder":"/etc/k","files":["/etc/default/kubelet"]}`),
			want:  "exit 0\nIts unit has --config=/etc/k/kubelet.yaml\nWrite path = \"/etc/k/kubelet.yaml\""},
		{name: "a recording that is older", world: "original kubeadm-flags.env => " +
			"{\"fail\":\"unread\",\"detail\":\"never asked\"}\n", want: "exit 0\ncomplete true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := func(path, variable, flags string) string {
				if flags == "" {
					return ""
				}
				return original(path, variable+`="`+flags+"\"\n")
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
`, c.stages, testKubeletConfig, c.config, c.flags, c.more),
				c.world+file(kubeadm, "KUBELET_KUBEADM_ARGS", c.kubeadm)+
					file("/etc/default/kubelet", "KUBELET_EXTRA_ARGS", c.own))

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
			checkParts(t, plan.String(), c.want)
		})
	}
}

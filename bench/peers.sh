#!/usr/bin/env bash
# Measures prelet, the floor and other programs that prepare a node, in turns on one machine and against one real
# cluster, and how time grows: peers.sh ROUNDS KUBE PEERS, as root. KUBE is the folder that
# test/kube/build.sh filled, PEERS that of tools/peers/build.sh. Samples are written to bin/peers.jsonl: peers.jq makes a
# table of them, growth.gp a picture. NODEADM names another nodeadm than that of PEERS.
#
# It works in network and mount namespaces of its own, because it gives the loopback interface the address of a cloud's
# metadata service, and binds folders of this machine into nodes. It writes below bin/ only.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:?number of rounds} kube=$(realpath "${2:?the folder of the cluster}") peers=$(realpath "${3:?the folder of the peers}")
# shellcheck source=bench/lib.sh
. bench/lib.sh

prelet=$PWD/bin/prelet helpers=$PWD/bin/bench samples=$PWD/bin/peers.jsonl
if [ -z "${PRELET_BENCH_INSIDE:-}" ]; then
	install_tools gnuplot:gnuplot-nox dbus-daemon:dbus-daemon python3:python3-minimal unshare:util-linux ip:iproute2
	work=$(mktemp -d "$PWD/bin/.peers-XXXXXX")
	# Out here, where none of its mounts is visible: a removal in there would also empty the folders of this machine that
	# are bound into nodes.
	trap 'rm -rf --one-file-system "$work"' EXIT
	PRELET_BENCH_INSIDE=$work unshare -mn "$0" "$@"
	exit
fi
work=$PRELET_BENCH_INSIDE
[ "$(ip -br link | wc -l)" = 1 ] || { echo "not in a network namespace of its own" >&2 && exit 1; }
ip link set lo up
ip address replace 169.254.169.254/32 dev lo # of EC2's metadata service
ip address replace 192.0.2.10/24 dev lo      # as default route, which kubeadm looks for
ip route replace default dev lo

jq -cn '$ARGS.named' --arg date "$(date -u +%F)" --arg machine "$(load)" --argjson rounds "$rounds" \
	--arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
	--arg kernel "$(uname -r | cut -d- -f1)" >"$samples"

# A real control plane with the ConfigMap of the old script, which bootstrap tokens may read as they may read that of
# kubeadm, and the kubeconfig of a node that has joined.
grep -vE '^(kind|apiVersion):' bench/testdata/kubelet-config.yaml >"$work/kubelet-config.yaml"
start_server "$helpers/cluster" -json -cache "$kube" -mod test/kube/go.mod -prelet "$prelet" \
	-kubelet-config "$work/kubelet-config.yaml"
cluster=$(of_server folder) components=$kube/$(of_server version) map=kubelet-config-1.11
kubectl=("$components/kubectl" --kubeconfig "$cluster/super-admin.conf" -n kube-system)
"${kubectl[@]}" create -f "examples/objects/kube-system/$map.yaml"
"${kubectl[@]}" create role bench-config --verb=get --resource=configmaps --resource-name="$map"
"${kubectl[@]}" create rolebinding bench-config --role=bench-config --group=system:bootstrappers
"$components/kubeadm" init phase kubeconfig kubelet --config "$cluster/kubeadm.yaml" --kubeconfig-dir "$work/joined"
# kubeadm writes the advertised address, which nothing listens on.
sed -i 's,https://198.51.100.1:,https://127.0.0.1:,' "$work/joined/kubelet.conf"

dbus-daemon --session --nofork --address="unix:path=$work/bus" >"$work/bus.log" 2>&1 &
bus=$!
python3 bench/metadata.py >"$work/metadata.log" 2>&1 &
metadata=$!
trap 'kill $bus $metadata; stop_server' EXIT

credentials=$work/credentials
write_site "$work/site.hcl" <bench/testdata/worker-stages.hcl

# build_machines: the DGX that all programs boot, and the same with other numbers of GPUs, each behind a PCI bridge, and
# of network interfaces.
build_machines() {
	local spec=testdata/hardware/spec/dgx-h100.json count
	local hex='def hex2: (. / 16 | floor) as $high | (. % 16) as $low
		| "0123456789abcdef" | .[$high:$high + 1] + .[$low:$low + 1];'
	mkdir "$work/specs"
	cp "$spec" "$work/specs/all.json"
	for count in 1 16 64; do
		jq --argjson gpus $count --arg driver proc/driver/nvidia/gpus/ "$hex"'
			([.devices[] | select(.class == "030200")] | last) as $gpu
			| ([.devices[] | select(.class == "060400")] | last) as $bridge
			| .files["\($driver)\($gpu.address)/information"] as $information
			| [range($gpus) | "0001:\(2 * . + 2 | hex2):00.0"] as $addresses
			| .devices |= map(select(.class != "030200" and .class != "060400"))
				+ [range($gpus) as $i | $bridge + {address: "0001:\(2 * $i + 1 | hex2):01.0"}, $gpu + {address: $addresses[$i]}]
			| .files |= (with_entries(select(.key | startswith($driver) | not))
				+ ([$addresses[] | {key: "\($driver)\(.)/information", value: $information}] | from_entries))
			' "$spec" >"$work/specs/gpus-$count.json"

		jq --argjson nics $count "$hex"'
			([.devices[] | select(.class == "020000" and .infiniband)] | first) as $nic
			| .addresses = {nic0: ["192.0.2.10/24"]}
			| .devices |= map(select(.class | startswith("02") | not))
				+ [range($nics) as $i | $nic + {address: "0002:\($i + 1 | hex2):00.0"}
					| .infiniband[0].name = "mlx5_\($i)"
					| .net[0] += {name: "nic\($i)", mac: "02:00:5e:00:54:\($i | hex2)"}]
			' "$spec" >"$work/specs/nics-$count.json"
	done
	"$helpers/machines" "$work/specs" "$work/machines" >/dev/null
}
build_machines
machine=$work/machines/all
lay_over "$machine"

# A node is a small machine of its own for one execution: folders on the disk that is measured, and Debian's programs.
number=0 mounts=()
new_node() {
	[ ${#mounts[@]} = 0 ] || umount -l "${mounts[@]}"
	mounts=() number=$((number + 1))
	node=$work/n$number
	mkdir -p "$node"/{etc/kubernetes/pki,etc/default,var/lib/kubelet,var/lib/prelet,run/prelet,tmp,floor}
}

bind() { # bind FROM TO: a file or folder of this machine, read-only in the node
	local to=$node/$2
	if [ -d "$1" ]; then mkdir -p "$to"; else install -D /dev/null "$to"; fi
	mount --rbind "$1" "$to"
	mount -o remount,bind,ro "$to" 2>/dev/null || true # a socket
	mounts+=("$to")
}

debian() { # a new node on which a program can run with its folder as the root
	local name
	new_node
	cp -a "$peers/debian/etc/." "$node/etc/"
	for name in bin sbin lib lib64; do ln -s "usr/$name" "$node/$name"; done
	mkdir "$node/dev"
	for name in null zero random urandom; do cp -a "/dev/$name" "$node/dev/"; done
	bind "$peers/debian/usr" usr
	bind /sys sys
	bind /proc proc
}

# in_node NAME [VARIABLE=VALUE...] PROGRAM ARGUMENT...: measures a program with the node as its root.
in_node() {
	local name=$1 variables=()
	shift
	while [[ $1 == *=* ]]; do
		variables+=("$1")
		shift
	done
	sync # what was prepared must not be written by an fsync of the program
	sample "$name" env -i "${variables[@]}" "$(command -v chroot)" "$node" "$@"
}

wrote() { # wrote FILE...: fails unless the program has written these, with text in them
	local file
	for file in "$@"; do
		[ -s "$node/$file" ] || { echo "$node/$file does not exist or is empty, want what the program writes" >&2 && return 1; }
	done
}

printed() { # printed TEXT
	grep -qF "$1" "$work/output" "$work/errors" || { printf 'got the output\n%s\nwant "%s" in it\n' "$(cat "$work/output" "$work/errors")" "$1" >&2 && return 1; }
}

# The four files that prelet, kubeadm and the old script write on a worker, and that cloud-init and Ignition are given.
ours=(etc/kubernetes/pki/ca.crt etc/kubernetes/bootstrap-kubelet.conf var/lib/kubelet/config.yaml etc/default/kubelet)
same() { # fails unless the program wrote the bytes of prelet's first run
	local file
	for file in "${ours[@]}"; do cmp "$work/first/$file" "$node/$file"; done
}

# set_command SITE ACTION: sets command to prelet with the node's folder as its root, so that no kubelet is started.
set_command() {
	command=(env -i PATH=/usr/bin:/bin "CREDENTIALS_DIRECTORY=$credentials" GOMAXPROCS=4
		"$prelet" "$2" --config "$1" --root "$node")
}

floor() {
	new_node
	sync
	sample floor "$helpers/floor" -server "$(of_server url)" -ca-hash "$(of_server ca_hash)" \
		-token-file "$credentials/bootstrap-token" -hardware / -out "$node/floor"
	wrote floor/{ca.crt,config.yaml,bootstrap-kubelet.conf,kubeadm-flags.env}
}

first_run() {
	new_node
	set_command "$work/site.hcl" run
	sync
	sample "prelet, first run" "${command[@]}"
	wrote "${ours[@]}"
	rm -rf "$work/first"
	mkdir "$work/first"
	(cd "$node" && cp --parents "${ours[@]}" "$work/first")
}

# With a real kubelet, which prelet asks once for its version and flags. Only on a root of its own: prelet starts no
# program below another root, and without systemd it only plans.
new_kubelet() {
	debian
	bind "$components/kubelet" opt/bin/kubelet
	bind "$prelet" opt/bin/prelet
	bind "$work/site.hcl" etc/prelet/site.hcl
	bind "$credentials" run/credentials
	in_node "prelet plan, new kubelet" PATH=/usr/bin CREDENTIALS_DIRECTORY=/run/credentials GOMAXPROCS=4 /opt/bin/prelet plan
	printed /etc/default/kubelet
}

# The node joins, as the kubelet would, and prelet sees that: it then leaves its files as they are.
nothing_to_do() {
	local files before
	new_node
	set_command "$work/site.hcl" run
	"${command[@]}" >/dev/null 2>&1
	cp "$work/joined/kubelet.conf" "$node/etc/kubernetes/kubelet.conf"
	"${command[@]}" >/dev/null 2>&1
	files=("$node/etc/kubernetes/pki/ca.crt" "$node/var/lib/kubelet/config.yaml" "$node/etc/default/kubelet")
	before=$(stat -c '%n %i %y %z' "${files[@]}")
	sync
	sample "prelet, nothing to do" "${command[@]}"
	diff <(echo "$before") <(stat -c '%n %i %y %z' "${files[@]}")
}

# The phases before kubelet-start check the machine, those after it wait for a kubelet. kubeadm finds no init system, so
# it starts none.
kubeadm() {
	debian
	bind "$components/kubeadm" opt/kubeadm
	in_node "kubeadm join phase kubelet-start" PATH=/nonexistent HOME=/root /opt/kubeadm join phase kubelet-start \
		"$(of_server url | sed 's|https://||')" --token "$(of_server token)" \
		--discovery-token-ca-cert-hash "$(of_server ca_hash)" --node-name peer --cri-socket unix:///nonexistent.sock
	wrote "${ours[@]:0:3}" var/lib/kubelet/kubeadm-flags.env
}

# Its configuration phase needs EC2's metadata service and a connection to systemd, which it does not use before the
# phase "run". It requests nothing from the cluster: its NodeConfig has what kubeadm and prelet fetch. Newer versions
# also ask EC2 for the instance's name, and containerd for its version.
nodeadm() {
	debian
	bind "${NODEADM:-$peers/nodeadm}" opt/nodeadm
	bind "$components/kubelet" opt/kubelet
	bind "$kube/containerd/usr/bin/containerd" opt/containerd
	bind "$work/bus" run/systemd/private
	install -D /dev/stdin "$node/etc/eks/image-credential-provider/ecr-credential-provider" <<<'#!/bin/true'
	cat >"$node/node.yaml" <<-END
		---
		apiVersion: node.eks.aws/v1alpha1
		kind: NodeConfig
		spec:
		  cluster:
		    name: peer
		    apiServerEndpoint: $(of_server url)
		    certificateAuthority: $(base64 -w 0 "$cluster/pki/ca.crt")
		    cidr: 10.96.0.0/16
		  kubelet:
		    flags: ["--node-labels=example.com/pool=a"]
	END
	in_node "nodeadm init --skip run" PATH=/opt:/usr/bin HOME=/root AWS_ENDPOINT_URL=http://169.254.169.254 \
		AWS_ACCESS_KEY_ID=peer AWS_SECRET_ACCESS_KEY=peer \
		/opt/nodeadm init --skip run --config-source file:///node.yaml
	wrote etc/kubernetes/pki/ca.crt var/lib/kubelet/kubeconfig etc/kubernetes/kubelet/config.json \
		etc/eks/kubelet/environment
}

# Written again from the description of the original, which was never published.
old_script() {
	debian
	bind tools/peers/init-k8s-node.py opt/init-k8s-node.py
	jq -n --arg server "$(of_server url)" '{apiserver: $server, k8s_version: "1.11", nodeLabels: "example.com/pool=a",
		nodeTaints: "example.com/new=true:NoSchedule", resources: {cpuRemained: 220, memoryReserved: "10%"}}' \
		>"$node/etc/kubernetes/init-config"
	in_node "the old script, rewritten" PATH=/usr/bin /usr/bin/python3 /opt/init-k8s-node.py "$(of_server token)"
	wrote "${ours[@]}"
}

# given KEY: the files of prelet's first run as a list in JSON, with the content in base64 below the key.
given() {
	local file
	for file in "${ours[@]}"; do
		jq -Rsc --arg path "/$file" --arg key "$1" '{path: $path, ($key): @base64}' "$work/first/$file"
	done | jq -sc .
}

# The user data is on the disk, with a data source that is known before there is a network: so the first of its four
# stages writes the files. One source of data, one module, no network.
cloud_init() {
	debian
	cat >"$node/etc/cloud/cloud.cfg" <<-END
		datasource_list: [NoCloud]
		disable_root: false
		network: {config: disabled}
		manage_etc_hosts: false
		cloud_init_modules: [write-files]
		cloud_config_modules: []
		cloud_final_modules: []
		system_info: {distro: debian, paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}
	END
	mkdir -p "$node/var/lib/cloud/seed/nocloud"
	printf 'instance-id: peer\ndsmode: local\n' >"$node/var/lib/cloud/seed/nocloud/meta-data"
	{
		echo "#cloud-config"
		given content | jq -c '{write_files: map(. + {encoding: "b64", permissions: "0600"})}'
	} >"$node/var/lib/cloud/seed/nocloud/user-data"
	in_node cloud-init PATH=/usr/bin:/usr/sbin /usr/bin/cloud-init init --local
	same
}

# A boot runs the stages fetch and files; its other stages have nothing to do here. Debian's build always labels files
# for SELinux: here by a program that does nothing.
ignition() {
	debian
	given source | jq -c '{ignition: {version: "3.3.0"}, storage: {files: map({path, mode: 384, overwrite: true,
		contents: {source: "data:;base64,\(.source)"}})}}' >"$node/config.ign"
	install -D /dev/stdin "$node/etc/selinux/config" <<<SELINUXTYPE=none
	mkdir -p "$node/opt"
	ln -s /usr/bin/true "$node/opt/setfiles"
	cat >"$node/boot.sh" <<-'END'
		for stage in fetch files; do
			/usr/lib/dracut/modules.d/30ignition/ignition --log-to-stdout --platform file --stage $stage --root /
		done
	END
	in_node ignition PATH=/opt:/usr/bin:/usr/sbin IGNITION_CONFIG_FILE=/config.ign /bin/sh -e /boot.sh
	same
}

# The worker refuses to start without a kubeconfig, also where it publishes nothing. With -v=1 it prints the labels; the
# expected one is class and vendor of a PCI device.
nfd() {
	debian
	bind "$peers/nfd-worker" opt/nfd-worker
	mkdir -p "$node/etc/kubernetes/node-feature-discovery/features.d"
	jq -n --arg server "$(of_server url)" '{apiVersion: "v1", kind: "Config", "current-context": "x",
		contexts: [{name: "x", context: {cluster: "x"}}], clusters: [{name: "x", cluster: {server: $server}}]}' \
		>"$node/kubeconfig"
	in_node nfd-worker NODE_NAME=peer PATH=/usr/bin \
		/opt/nfd-worker -oneshot -no-publish -v=1 -kubeconfig /kubeconfig
	printed feature.node.kubernetes.io/pci-0302_10de.present
}

# describe NAME VERSION BYTES: a line with the size of a program and of what it needs in addition to a minimal Debian.
describe() {
	jq -cn '$ARGS.named' --arg name "$1" --arg version "$2" --argjson disk_bytes "$3" >>"$samples"
}
size_of() { stat -c %s "$1"; }
module_version() { go version -m "$1" | awk '$1 == "mod" { print $3 }'; }
package() { awk -v name="$1" -v field="$2" '$1 == name { print field == "version" ? $2 : $3 * 1024 }' "$peers/sizes"; }

ours_version=$("$prelet" version | awk '{ print $2; exit }')
describe floor "" "$(size_of "$helpers/floor")"
for name in "prelet, first run" "prelet plan, new kubelet" "prelet, nothing to do"; do
	describe "$name" "$ours_version" "$(size_of "$prelet")"
done
describe "kubeadm join phase kubelet-start" "$(of_server version)" "$(size_of "$components/kubeadm")"
nodeadm_program=${NODEADM:-$peers/nodeadm}
describe "nodeadm init --skip run" "$(module_version "$nodeadm_program")" "$(size_of "$nodeadm_program")"
describe "the old script, rewritten" "" "$(($(package python3-yaml size) + $(size_of tools/peers/init-k8s-node.py)))"
describe cloud-init "$(package cloud-init version)" "$(package cloud-init size)"
describe ignition "$(package ignition version)" "$(package ignition size)"
describe nfd-worker "$(module_version "$peers/nfd-worker")" "$(size_of "$peers/nfd-worker")"

for round in $(seq 0 "$rounds"); do
	for program in floor first_run new_kubelet nothing_to_do kubeadm nodeadm old_script cloud_init ignition nfd; do
		$program
	done
	echo "round $round of $rounds" >&2
done

# How the time of a first run grows with GPUs and network interfaces, and that of a plan with stages and recordings.
grow_devices() { # grow_devices KIND NUMBER
	lay_over "$work/machines/$1-$2"
	new_node
	set_command "$work/site.hcl" run
	sample "$1" "${command[@]}"
	wrote "${ours[@]}"
	umount /sys /proc/cpuinfo /proc/meminfo
	! mountpoint -q /proc/driver || umount /proc/driver
}

# A site with the first stages of a worker, then labels, each of which reads the hardware that was detected.
grow_stages() {
	local site=$work/stages-$1.hcl
	{
		echo 'stage "detect-hw" "node" {}'
		[ "$1" = 1 ] || printf 'stage "%s" "%s" { %s }\n' fetch-ca cluster "" \
			fetch-config kubelet 'config_map = "kube-system/kubelet-config"' write kubelet ""
		for ((i = 4; i < $1; i++)); do
			printf 'stage "label" "l%d" { labels = { "example.com/l%d" = slug(stage.detect-hw.node.gpus[0].model) } }\n' $i $i
		done
	} | write_site "$site"
	new_node
	set_command "$site" plan
	sample stages "${command[@]}"
	if [ "$1" = 1 ]; then printed "No changes."; else printed "example.com/l$(($1 - 1))="; fi
}

for round in $(seq 0 "$((rounds < 5 ? rounds : 5))"); do
	for x in 1 16 64; do
		grow_devices gpus $x
		grow_devices nics $x
	done
	for x in 1 100 500; do grow_stages $x; done
	[ "$round" = 0 ] || [ "$round" -gt 3 ] || for x in 100 1000; do plan_fleet recordings $x; done
	[ "$round" != 1 ] || for x in 10000; do plan_fleet recordings $x; done
done

#!/usr/bin/env bash
# Sets up a test node, and becomes its systemd. The harness (node.go) starts it in new namespaces of mounts, processes,
# network, names and IPC. It
#
#   - lays a tmpfs over the Debian of test/boot/image.sh, so that every write is the node's;
#   - takes a control group of its own in each hierarchy, which is the root of what the node sees;
#   - gives the node its own network, host name and machine id, and, where asked, the processors, memory and devices of a
#     recorded machine;
#   - executes that systemd with no units but empty targets, so it starts in a fraction of a second; the harness adds
#     kubelet.service.
#
# It writes nothing outside of its own mounts and control groups. When it is killed, the kernel ends all processes of
# the node and removes mounts and network; empty control groups are left for the caller.
#
# Arguments are NAME=VALUE; descriptor 3 is a pipe, to which it writes "ready":
#   base        the folder of a Debian, which is not changed
#   disk        an empty folder: the node's tmpfs and its root are mounted in it
#   group       the name of the control group
#   hostname    and machine_id
#   address     of eth0, with its prefix length
#   loopback    further addresses of lo, separated by spaces
#   files       lines of a path in the node and the path of a program outside
#   copy        another node's root, with whose disk this one begins; empty for a fresh one
#   hardware    the tree of a recorded machine; empty for the machine below
set -euo pipefail
shopt -s nullglob
base="" disk="" group="" hostname="" machine_id="" address="" loopback="" files="" copy="" hardware=""
declare "$@"
root=$disk/root

# hierarchies prints each hierarchy of control groups: version 2, or one of version 1 with its controllers. The columns
# are its type, where the machine has it, and its options.
hierarchies() {
	local _ at type options
	while read -r _ at type options _; do
		case $type:$at in
		cgroup2:/sys/fs/cgroup*) echo "cgroup2 $at rw" ;;
		# Of the options only controllers and name=systemd may be repeated.
		cgroup:/sys/fs/cgroup*) echo "cgroup $at $(tr , '\n' <<<"$options" |
			grep -vxE 'rw|ro|relatime|noatime|nosuid|nodev|noexec|xattr|clone_children' | paste -sd,)" ;;
		esac
	done </proc/self/mounts
}

# enter_groups makes a group in each hierarchy and moves this process into it. systemd moves itself one deeper, because
# in version 2 a group with processes in it cannot hand controllers down.
enter_groups() {
	local _ at options own file
	while read -r _ at options; do
		own=$at/$group
		mkdir -p "$own"
		# A new cpuset of version 1 is empty, and accepts no process.
		if [[ $options == *cpuset* ]]; then
			for file in cpuset.{cpus,mems}; do
				cat "$at/$file" >"$own/$file"
			done
		fi
		echo 0 >"$own/cgroup.procs"
	done < <(hierarchies)
}

# mount_groups mounts each hierarchy again, so that the node's group is the root of it.
mount_groups() {
	local to=$root/sys/fs/cgroup type at options
	[ "$(hierarchies | cut -d' ' -f2)" = /sys/fs/cgroup ] || mount -t tmpfs -o nosuid,nodev,noexec,mode=755 tmpfs "$to"
	while read -r type at options; do
		at=$to${at#/sys/fs/cgroup}
		mkdir -p "$at"
		mount -t "$type" -o "nosuid,nodev,noexec,$options" "$type" "$at"
	done < <(hierarchies)
}

# bind_file FROM TO mounts a file over another, which it makes.
bind_file() {
	mkdir -p "${2%/*}"
	rm -f "$2"
	touch "$2"
	chmod 755 "$2"
	mount --bind "$1" "$2"
}

# make_disk mounts the node's files, without those that the machine below has of Kubernetes.
make_disk() {
	# getsubids: with it, the user IDs for pods depend on this machine.
	local path fresh=(
		/etc/{kubernetes,prelet,cni,containerd,default/kubelet,systemd/system}
		/var/lib/{kubelet,prelet,containerd} /var/log/pods
		/usr/lib/{prelet,systemd/system,systemd/system-generators}
		/opt/{cni,bin/kubelet} /usr/local/bin/kubelet /usr/bin/getsubids
	)
	mount -t tmpfs -o mode=755 tmpfs "$disk"
	mkdir "$disk"/{upper,work,root,settings,hardware}
	mount -t overlay -o "lowerdir=$base,upperdir=$disk/upper,workdir=$disk/work" overlay "$root"
	rm -rf "${fresh[@]/#/$root}"
	# The persistent files of another root, as an image would contain them.
	for path in "${fresh[@]}"; do
		if [ -n "$copy" ] && { [ -e "$copy$path" ] || [ -L "$copy$path" ]; }; then
			mkdir -p "$root${path%/*}"
			cp -a -x "$copy$path" "$root$path"
		fi
	done

	rm -f "$root/etc/resolv.conf" # may be a link
	echo nameserver 127.0.0.1 >"$root/etc/resolv.conf"
	echo "$machine_id" >"$root/etc/machine-id"
	echo "$hostname" >"$root/etc/hostname"
	# A kubelet looks its own host name up, and must not wait for a name server that cannot be reached.
	printf '%s %s\n' 127.0.0.1 localhost "${address%/*}" "$hostname" >"$root/etc/hosts"
}

# make_devices makes a /dev without the disks and terminals of the machine, which a service manager would set up.
make_devices() {
	local dev=$root/dev device
	mount -t tmpfs -o nosuid,mode=755 tmpfs "$dev"
	for device in /dev/{null,zero,full,random,urandom,tty,kmsg,fuse}; do
		[ ! -e "$device" ] || bind_file "$device" "$root$device"
	done
	mkdir "$dev"/{pts,shm}
	mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=0666,mode=620 devpts "$dev/pts"
	mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$dev/shm"
	ln -s pts/ptmx "$dev/ptmx"
	ln -s /proc/self/fd "$dev/fd"
}

# complete_hardware adds to the copy of a recorded machine what a kubelet needs: a recording has the files that prelet
# reads.
complete_hardware() {
	local cpu node other nodes distances part siblings list interface
	# A clock speed, and how much swap there is.
	grep -q 'cpu MHz' proc/cpuinfo || sed -i '/^flags/i cpu MHz\t\t: 2000.000' proc/cpuinfo
	grep -q SwapTotal proc/meminfo || printf '%s: 0 kB\n' SwapTotal SwapFree >>proc/meminfo
	# Each processor has a core, and each NUMA node links to its processors and its distances.
	for cpu in sys/devices/system/cpu/cpu[0-9]*; do
		read -r siblings <"$cpu/topology/thread_siblings_list"
		echo "${siblings%%[^0-9]*}" >"$cpu/topology/core_id"
	done
	nodes=(sys/devices/system/node/node[0-9]*)
	for node in "${nodes[@]}"; do
		read -r list <"$node/cpulist" || true # none: memory only
		for part in ${list//,/ }; do
			seq -f ../../cpu/cpu%g "${part%-*}" "${part#*-}" | xargs ln -s -t "$node"
		done
		distances=()
		for other in "${nodes[@]}"; do
			[ "$other" = "$node" ] && distances+=(10) || distances+=(21)
		done
		echo "${distances[*]}" >"$node/distance"
	done
	for interface in sys/class/net/*; do
		[ -e "$interface/address" ] || echo 02:00:5e:00:53:ff >"$interface/address"
	done
}

# mount_hardware mounts the files of a recorded machine over those of this one: processors and memory in /proc, and
# the folders of /sys with processors, memory and devices.
mount_hardware() {
	local name
	cp -a "$hardware"/{proc,sys} "$disk/hardware"
	cd "$disk/hardware"
	complete_hardware
	# No disk of this machine is one of that: its /sys/block would lead nowhere.
	mount -t tmpfs -o mode=555 tmpfs "$root/sys/block"
	for name in proc/{cpuinfo,meminfo} sys/{bus,class,devices,kernel/mm}; do
		[ ! -e "$name" ] || mount --bind "$name" "$root/$name"
	done
	for name in etc/os-release etc/containerd/config.toml; do
		[ ! -e "$hardware/$name" ] || install -D -m 644 "$hardware/$name" "$root/$name"
	done
}

# copy_settings gives the node its own file for each setting that a kubelet changes for the whole machine
# (k8s.io/kubernetes pkg/kubelet/cm, setupKernelTunables), and systemd.
copy_settings() {
	local setting
	for setting in vm/{overcommit_memory,panic_on_oom} kernel/{panic,panic_on_oops} fs/file-max \
		kernel/keys/root_max{keys,bytes}; do
		if [ -e "/proc/sys/$setting" ]; then
			cat "/proc/sys/$setting" >"$disk/settings/${setting//\//.}"
			mount --bind "$disk/settings/${setting//\//.}" "$root/proc/sys/$setting"
		fi
	done
}

# start_network gives the node an eth0 that has a carrier and leads nowhere, and a default route, without which a kubelet
# finds no address of its own. The cluster is reached over the loopback.
start_network() {
	local own
	ip link set lo up
	ip link add eth0 type veth peer name eth0-peer
	ip link set eth0-peer up
	ip addr add "$address" dev eth0
	ip link set eth0 up
	ip route add default dev eth0
	for own in $loopback; do
		ip addr add "$own/32" dev lo
	done
	echo 1 >/proc/sys/net/ipv4/ip_forward # as on nodes with pods
}

# write_units writes the node's target and those that a service needs, empty. There is no journal: the output of a
# service is in a file of its name.
write_units() {
	local target
	for target in node sysinit basic shutdown; do
		printf '[Unit]\nDefaultDependencies=no\n' >"/usr/lib/systemd/system/$target.target"
	done
	printf '[Service]\nStandardOutput=append:/var/log/%%N.log\nStandardError=inherit\n' \
		>/usr/lib/systemd/system/service.d/10-log.conf
}

if [ "$0" != inside ]; then
	mount --make-rprivate /
	enter_groups
	exec unshare --cgroup bash -c "$BASH_EXECUTION_STRING" inside "$@"
fi

make_disk
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o nosuid,mode=755 tmpfs "$root/run"
mount -t tmpfs -o nosuid,mode=1777 tmpfs "$root/tmp"
make_devices
mount_groups
[ -z "$hardware" ] || mount_hardware
copy_settings
while read -r to from; do
	bind_file "$from" "$root$to"
done <<<"$files"
# Overlay over overlay has no room for a runtime's snapshots, and a kubelet asks how full its disk is.
mkdir -p "$root"/{var/lib/containerd,var/log/pods,var/lib/kubelet,etc/kubernetes,etc/prelet,run/lock,before} \
	"$root/usr/lib/systemd/system/service.d"
mount -t tmpfs -o mode=711 tmpfs "$root/var/lib/containerd"

# As on a booted machine mounts are shared: without it a kubelet mounts its folder over itself.
cd "$root"
pivot_root . before
cd /
hash -r
umount -l /before
rmdir /before
mount --make-rshared /

start_network
echo "$hostname" >/proc/sys/kernel/hostname
write_units
echo ready >&3
exec 3>&-
exec env -i container=prelet PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/usr/lib/systemd/systemd --unit=node.target --log-target=console --show-status=no

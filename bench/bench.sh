#!/usr/bin/env bash
# Measures prelet and bench/floor in turns, so that a slow moment of the machine affects both: bench.sh ROUNDS
# [FAIL_ABOVE]. Prints medians and compares them with the budgets in docs/develop/performance.md. With FAIL_ABOVE=1.5 it exits
# with 1 if a figure is above 1.5 times its budget. All samples: bin/bench.jsonl.
#
# It starts the programs that `make bench` builds, and removes what it writes below $DIR and a temporary folder.
# $DIR: a folder on the file system to write to, by default bin; on a tmpfs fsync is free. $DELAY (2ms): added to each
# response of the server, in place of a network.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:?number of rounds} fail_above=${2:-0}
[ "$rounds" -ge 1 ] || { echo "ROUNDS must be at least 1" >&2 && exit 64; }
# shellcheck source=bench/lib.sh
. bench/lib.sh
install_tools setpriv:util-linux
# Root sees the recorded machine in /sys, in a mount namespace of its own.
[ "$(id -u)" != 0 ] || [ -n "${PRELET_BENCH_INSIDE:-}" ] || PRELET_BENCH_INSIDE=1 exec unshare -m "$0" "$@"

prelet=$PWD/bin/prelet helpers=$PWD/bin/bench samples=$PWD/bin/bench.jsonl
work=$(mktemp -d "$(realpath "${DIR:-bin}")/bench-XXXXXX")
detect=$(mktemp -d /tmp/bench-detect-XXXXXX) # not below $DIR, which an unprivileged user cannot reach
trap 'stop_server; umount -lq /sys /proc/cpuinfo /proc/meminfo /proc/driver 2>/dev/null; rm -rf "$work" "$detect"' EXIT
: >"$samples"
load

machine=$work/machine
start_server "$helpers/serve" -kubelet-config bench/testdata/kubelet-config.yaml -delay "${DELAY:-0s}" \
	-spec testdata/hardware/spec/dgx-h100.json -machine "$machine"
write_site "$work/site.hcl" <bench/testdata/worker-stages.hcl
hardware=(--hardware "$machine") # for a user who may not mount
if [ "$(id -u)" = 0 ]; then
	lay_over "$machine"
	hardware=()
fi
export CREDENTIALS_DIRECTORY=$work/credentials

# Detectors run as an unprivileged user: their own users come with packages. The lock of "absent" names a device that no
# machine has.
detectors=(one two three four absent)
unprivileged=(env "GOMAXPROCS=4") # as the units set it
[ "$(id -u)" != 0 ] || unprivileged+=(setpriv --reuid 65534 --regid 65534 --clear-groups)
install_detectors() {
	local name locks=$detect/usr/lib/prelet/detectors.lock.d programs=()
	install -D -t "$detect/bin" "$prelet" "$(dirname "$prelet")/prelet-detect"
	mkdir -p "$locks" "$detect/sites"
	for name in "${detectors[@]}"; do
		install -D "$helpers/vendor" "$detect/usr/lib/prelet/detectors/$name"
		programs+=("$detect/usr/lib/prelet/detectors/$name")
	done
	chmod 755 "$detect"
	[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$detect"
	"${unprivileged[@]}" "$detect/bin/prelet" detectors lock --root "$detect" "${programs[@]}" >/dev/null
	grep -q '"always": true' "$locks/absent.json"
	sed -i 's/"always": true/"pci_ids": ["ffff:fffe"]/' "$locks/absent.json"
}
install_detectors

# detect NAME DETECTOR...: measures `prelet detect` of a site with these detectors, and checks what they did.
detect() {
	local name=$1 site=$detect/sites/$1.hcl
	shift
	{ [ $# = 0 ] || printf 'detector "%s" {}\n' "$@"; } >"$site"
	echo 'stage "detect-hw" "node" {}' >>"$site"
	sample "$name" "${unprivileged[@]}" "$detect/bin/prelet" detect -o json --root "$detect" --config "$site"
	jq -e '[.facts.detectors // {} | to_entries[] | .value.state == if .key == "absent" then "skipped" else "ok" end]
		| all and length == $count' --argjson count $# "$work/output" >/dev/null || {
		printf 'detectors %s: got\n%s\nwant the state ok, of absent skipped\n' "$*" "$(cat "$work/errors" "$work/output")" >&2
		return 1
	}
}

# No round is removed before the end: ext4 without a journal walks over the inodes that were deleted in the last half
# minute, so a program that creates files would pay for the rounds before it.
for round in $(seq 0 "$rounds"); do
	node=$work/round-$round root=$work/round-$round/root
	mkdir -p "$node/floor" "$root"/{etc/kubernetes/pki,etc/default,var/lib/kubelet,var/lib/prelet,run/prelet}
	run=("$prelet" run --config "$work/site.hcl" --root "$root" "${hardware[@]}")

	sample floor "$helpers/floor" -server "$(of_server url)" -ca-hash "$(of_server ca_hash)" \
		-token-file "$work/credentials/bootstrap-token" -hardware "$machine" -out "$node/floor"
	sample "prelet, first run" "${run[@]}"
	sample "prelet, again before it joined" "${run[@]}"
	of_server kubeconfig >"$root/etc/kubernetes/kubelet.conf"
	"${run[@]}" >/dev/null 2>&1 # sees that the node has joined
	sample "prelet, nothing to do" "${run[@]}"
	sample "prelet version" "$prelet" version

	detect "detect, no detector"
	detect "detect, one without its device" absent
	detect "detect, one detector" one
	detect "detect, four detectors" one two three four
done
plan_fleet "plan, 1000 recordings" 1000
plan_fleet "plan, 10000 recordings" 10000

jq -s -f bench/budgets.jq --argjson program_mb "$(jq -n "$(stat -c %s "$prelet") / 1e6")" \
	--argjson fail_above "$fail_above" "$samples" >"$work/result.json"
printf 'medians of %d; × is over floor\n\n' "$rounds"
jq -r .text "$work/result.json"
jq -r '.exceeded[]' "$work/result.json" >&2
jq -e '.exceeded == []' "$work/result.json" >/dev/null

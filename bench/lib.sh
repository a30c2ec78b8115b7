# What bench.sh and peers.sh share: they source this file. It makes the machine that programs see, runs programs with
# hyperfine, and appends a line of JSON for each execution to $samples.
# The caller sets prelet, machine, work (a folder that it removes), samples and round.
# shellcheck shell=bash disable=SC2154

# Needed: hyperfine, jq, GNU time. Installed as root where apt-get is available.
install_tools() { # install_tools TOOL:PACKAGE...
	local missing=() tool
	for tool in hyperfine:hyperfine jq:jq /usr/bin/time:time "$@"; do
		command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "missing: apt-get install ${missing[*]}" >&2
		return 1
	fi
	apt-get update -qq -o DPkg::Lock::Timeout=300
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "${missing[@]}"
}

# sample NAME COMMAND...: measures one execution: wall time, CPU time (user and system) and the largest resident set of
# one process. Its output is in $work/output, its errors are in $work/errors. While $round is 0 nothing is recorded: that
# round fills the caches. An argument must not contain a new line, which hyperfine does not understand as bash quotes it.
sample() {
	local name=$1 redirect="exec \"\$@\" >$work/output 2>$work/errors"
	shift
	set -- /usr/bin/time -o "$work/memory" -f %M /bin/sh -c "$redirect" sh "$@"
	hyperfine -N --runs 1 --style none --export-json "$work/run.json" "${*@Q}" 2>"$work/hyperfine" || {
		echo "$name failed: $*" >&2
		cat "$work/hyperfine" "$work/output" "$work/errors" >&2
		return 1
	}

	[ "$round" != 0 ] || return 0
	jq -c --arg name "$name" --argjson kib "$(tail -n 1 "$work/memory")" --argjson x "${x:-null}" '.results[0] |
		{name: $name, x: $x, wall_ms: (.times[0] * 1000), cpu_ms: ((.user + .system) * 1000), memory_mib: ($kib / 1024)}
		' "$work/run.json" >>"$samples"
}

# start_server COMMAND...: starts bench/serve or test/kube/cmd/cluster, which prints one line of JSON about its cluster
# and ends with its standard input.
start_server() {
	coproc server { exec "$@"; }
	read -r address <&"${server[0]}" || {
		echo "$1 did not print its address" >&2
		return 1
	}
	mkdir "$work/credentials"
	printf %s "$(of_server token)" >"$work/credentials/bootstrap-token"
	chmod -R go= "$work/credentials"
}

of_server() { jq -r ".$1" <<<"$address"; }

stop_server() {
	[ -z "${server_PID:-}" ] || { eval "exec ${server[1]}>&-" && wait "$server_PID"; } || true
}

# write_site FILE: writes a site of the server's cluster with the stages on standard input.
write_site() {
	{
		printf 'cluster {\n  servers        = ["%s"]\n  ca_cert_hashes = ["%s"]\n  token          = credential("bootstrap-token")\n}\n' \
			"$(of_server url)" "$(of_server ca_hash)"
		cat
	} >"$1"
}

# lay_over MACHINE: lets programs see a recorded machine in /sys and /proc, in a mount namespace of this script. With
# --hardware prelet would read a copy, which costs more than a boot. procfs takes no new names, so what this kernel does
# not have is left out.
lay_over() {
	local name
	for name in sys proc/cpuinfo proc/meminfo proc/driver; do
		[ ! -e "$1/$name" ] || [ ! -e "/$name" ] || mount --bind "$1/$name" "/$name"
	done
}

# write_fleet N FOLDER: writes N recordings of one kind of machine. They differ in the values that belong to one
# machine: node name, addresses, MAC addresses, serial numbers.
write_fleet() {
	mkdir -p "$2" "$work/empty"
	"$prelet" record --with-identity --config examples/gpu-training --hardware "$machine" --objects examples/objects \
		--root "$work/empty" --var zone=az1-r07 "$work/machine.prelet" >/dev/null 2>&1
	jq '
		def own_interfaces: to_entries | [to_entries[] | (.key + 1) as $at | .value
			| .value.mac = "02:00:5e:\("0\($at)"[-2:]):@HEXHIGH@:@HEXLOW@"
			| .value.ipv4 = ["10.\($at).@HIGH@.@LOW@"]] | from_entries;
		.answers |= map(
			if .kind == "facts" then .answer.value |= (.machine_id = "@ID@" | .product.serial = "SN-@NUMBER@"
				| .product.uuid = "4c4c4544-0000-1000-8000-@UUID@" | .interfaces |= own_interfaces)
			elif .kind == "kubelet" then .answer.value.identity = {host: "gpu-@NUMBER@"} else . end)
		' "$work/machine.prelet" >"$work/template.prelet"
	grep -q @ID@ "$work/template.prelet" || { echo "the recording has no facts" >&2 && return 1; }
	awk -v n="$1" -v folder="$2" '
		{ text = text $0 "\n" }
		END {
			for (i = 0; i < n; i++) {
				copy = text
				high = int(i / 256); low = i % 256
				gsub(/@HEXHIGH@/, sprintf("%02x", high), copy); gsub(/@HEXLOW@/, sprintf("%02x", low), copy)
				gsub(/@HIGH@/, high, copy); gsub(/@LOW@/, low, copy)
				gsub(/@ID@/, sprintf("%032x", i + 1), copy); gsub(/@UUID@/, sprintf("%012x", i), copy)
				gsub(/@NUMBER@/, sprintf("%05d", i), copy)
				file = folder "/" sprintf("gpu-%05d.prelet", i)
				printf "%s", copy >file
				close(file)
			}
		}' "$work/template.prelet"
}

# plan_fleet NAME N: measures `plan --from` over N recordings of the machine.
plan_fleet() {
	local fleet=$work/fleet-$2
	[ -d "$fleet" ] || write_fleet "$2" "$fleet"
	sample "$1" "$prelet" plan --from "$fleet" --config examples/gpu-training --summary
	grep -q "━━ $2 machines: $2 would change, 0 failed, .*; 1 group\$" "$work/output" || {
		printf 'plan --from of %d recordings: got\n%s\nwant all to change in one group\n' "$2" "$(cat "$work/output")" >&2
		return 1
	}
}

# load prints what other programs do, before programs are measured.
load() { echo "linux/$(go env GOARCH), $(nproc) CPUs; load average $(cut -d' ' -f1 /proc/loadavg) before the first round"; }

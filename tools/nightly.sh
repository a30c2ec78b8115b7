#!/usr/bin/env bash
# Runs the checks that take too long for every change: `nightly.sh [PART...]`, as root. All parts run, also if one fails.
# Prints a table of their times at the end, and which suites have passed on which Debian (make matrix). Exits with 1 if a
# part failed. Output of each part: bin/nightly/PART.log.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

export CGO_ENABLED=0
GOFLAGS="$(go env GOFLAGS) -trimpath -gcflags=all=-dwarf=false"
export GOFLAGS

fast=$(tools/fast.sh) # sweeps write millions of small files

logs=bin/nightly
mkdir -p "$logs"
rm -f "$logs/results.jsonl"

# emulate prepares this machine to build and run programs of arm64. Where no systemd runs, as in a container, binfmt_misc
# is neither mounted nor has the package registered itself.
emulate() {
	[ "$(go env GOHOSTARCH)" != arm64 ] || return 0
	local packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static" misc=/proc/sys/fs/binfmt_misc
	# shellcheck disable=SC2086 # words
	dpkg -s $packages >/dev/null 2>&1 || {
		apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages || return
	}
	[ -e $misc/register ] || mount -t binfmt_misc binfmt_misc $misc || return
	[ -e $misc/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$misc/register
}

run() { # run PART
	case $1 in
	boot) make e2e-boot ;;
	boot-sid) # its root is made again: tonight's packages
		rm -f test/boot/.cache/sid/debian.recipe
		make e2e-boot SUITE=sid
		;;
	boot-*) make e2e-boot SUITE="${1#boot-}" ;;
	kube) make e2e-kube ;;
	runtime) make e2e-runtime ;;
	image) make e2e-image ;;
	image-*) emulate && make e2e-image ARCH="${1#image-}" ;;
	selinux) make e2e-selinux ;;
	kube-old) make e2e-kube-old ;;
	packages)
		rm -rf test/packages/.cache/sid
		make e2e-packages SUITES="bullseye bookworm trixie sid"
		;;
	recipes) make e2e-recipes ;;
	nfd) make e2e-nfd ;;
	registry) make e2e-registry ;;
	autoscalers) make e2e-autoscalers ;;
	arm64) emulate && make e2e-arm64 ;;
	test-arm64) emulate && make test-arm64 ;;
	newcomer) make check-newcomer ROWS="readme spaces umask" WHOLE=1 ;;
	hostile) make e2e-hostile ;;
	agreement) make kubelet-agreement N=40 ;;
	upgrades) make kubelet-upgrades N=400 ;;
	storm) make storm ;;
	peers) make bench-peers DOCS= ;;
	bench) make bench FAIL_ABOVE=1.5 ;;
	tables) make kubetables-check ;;
	race) make race-all ;;
	nodes) TMPDIR=$fast PRELET_SWEEP=full go test -count=1 -timeout 90m -run '^Test(Nodes|Canaries)$' ./cmd/prelet ;;
	activation) TMPDIR=$fast PRELET_SWEEP=full go test -count=1 -timeout 40m ./internal/machine/activation ;;
	generation)
		local flips=TestFlippedBitsNeverMakeAnotherNode # of which all would take six hours: each time one in 801
		export TMPDIR=$fast
		PRELET_SWEEP=full go test -count=1 -timeout 150m -skip "$flips" ./internal/machine/generation || return
		go test -count=40 -timeout 60m -run "^$flips\$" ./internal/machine/generation
		;;
	samples)
		TMPDIR=$fast PRELET_SWEEP=full go test -count=1 -timeout 30m ./internal/plan/evaluate ./internal/lab/sites/importer ./internal/machine/probe/cluster \
			./internal/machine/probe/hardware ./internal/model/codec ./internal/model/functions ./examples
		;;
	fuzz) make fuzz T=10s ;;
	sweep) make sweep SWEEP=nightly RUN='^TestSweep' ;;
	*) echo "nightly.sh: unknown part $1; parts: ${all[*]}" >&2 && return 64 ;;
	esac
}

all=(boot boot-trixie boot-bullseye boot-sid kube runtime image image-arm64 selinux kube-old packages recipes nfd registry autoscalers arm64 test-arm64 newcomer hostile agreement upgrades storm bench peers tables race nodes activation generation samples fuzz sweep)
[ $# -gt 0 ] || set -- "${all[@]}"

table=""
failed=0
for part in "$@"; do
	start=$SECONDS
	printf '== %s, output in %s\n' "$part" "$logs/$part.log"

	result=ok
	(run "$part") >"$logs/$part.log" 2>&1 || {
		result=FAILED
		failed=1
		tail -n 40 "$logs/$part.log"
	}
	table+=$(printf '%-12s %6d s  %s' "$part" $((SECONDS - start)) "$result")$'\n'
done

printf '\n%s\n' "$table"
go run ./tools/matrix -o "$logs/results.jsonl" || failed=1
exit "$failed"

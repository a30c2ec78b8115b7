#!/usr/bin/env bash
# The checks of detectors that need more than Go: a C compiler and go-nvml, Debian's ovsdb-server, Python's gRPC, nfpm.
# What is missing is named, and is a failure: a check that is skipped in CI checks nothing. Run by `make e2e-detectors`,
# which has built bin/prelet, bin/detectors and the packages in dist/.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
export PATH=$PATH:/usr/sbin

need() { # need PACKAGE COMMAND...
	"${@:2}" >/dev/null 2>&1 || {
		echo "missing: apt-get install $1" >&2
		exit 1
	}
}
need gcc command -v gcc
need openvswitch-switch command -v ovsdb-server
need "python3-grpcio python3-protobuf" /usr/bin/python3 -c 'import grpc, google.protobuf'

# As nobody it must be able to read what is checked, wherever this tree is.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

echo "== the shipped detectors, as prelet starts them"
for detector in bin/detectors/*; do
	name=$(basename "$detector")
	[ "$name" = detector-check ] || bin/detectors/detector-check "$detector" | tail -n 1 | sed "s/^/$name: /"
done

echo "== ovs, on a real ovsdb-server"
(cd plugins && go test -count=1 -v -run '^TestReal$' ./detectors/ovs | tee "$work/ovs" | tail -n 1)
grep -q -- '--- PASS: TestReal' "$work/ovs"

echo "== nvidia, with NVML built in"
(cd plugins && CGO_ENABLED=1 go test -count=1 -tags nvml ./detectors/nvidia)
bin/detectors/nvidia describe | grep 'NVML, which this build has'

echo "== the one in Python"
cp -r examples/detector-python "$work/python"
(cd "$work/python" && make --silent && PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m unittest --quiet && "$top/bin/detectors/detector-check" build/nvme | tail -n 1)

echo "== the same, asked by prelet: its own gRPC, and the C library's"
mkdir "$work/asked"
cp bin/prelet bin/prelet-detect "$work/python/build/nvme" "$work/asked"
cat >"$work/asked/site.hcl" <<-'SITE'
	detector "nvme" {
	  required = true
	  allow {
	    execute = ["/usr/bin/python3"]
	  }
	}
	stage "detect-hw" "node" {}
SITE
unprivileged=()
[ "$(id -u)" != 0 ] || unprivileged=(setpriv --reuid=65534 --regid=65534 --clear-groups) # root's need users of a pool
[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$work/asked"
(
	cd "$work/asked"
	"${unprivileged[@]}" ./prelet detectors lock --site --config "$work/asked" "$work/asked/nvme" >/dev/null
	sed -i 's#"match": {#"match": {"always": true,#' detectors.lock.json # this machine may have no such disk
	"${unprivileged[@]}" ./prelet detect -o json --config "$work/asked" |
		/usr/bin/python3 -c 'import json, sys; print("nvme:", json.load(sys.stdin)["facts"]["detectors"]["nvme"]["state"])' | tee said
	grep -qx 'nvme: ok' said
)

echo "== the one to copy"
cp -r examples/detector-template "$work/template"
(
	cd "$work/template"
	sed -i "s#=> ../../plugins#=> $top/plugins#" go.mod
	make --silent build test check CHECK="$top/bin/detectors/detector-check"
	make --silent packages NFPM="$top/bin/nfpm"
)

echo "== packages"
(cd test/detectors && PRELET_PACKAGES="$top/dist:$work/template/build" go test -count=1 -v -run '^TestPackages$' . | tee "$work/packages" | grep -- '---')
grep -q -- '^--- PASS: TestPackages' "$work/packages"

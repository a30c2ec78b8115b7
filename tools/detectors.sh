#!/usr/bin/env bash
# The checks of detectors that need more than Go: a C compiler and go-nvml, Debian's ovsdb-server, Python's gRPC, nfpm.
# What is missing is named, and is a failure: a check that is skipped in CI checks nothing. Run by `make e2e-detectors`,
# which has built bin/detectors.
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
(cd plugins && CGO_ENABLED=1 go test -count=1 -tags nvml ./detectors/nvidia && CGO_ENABLED=1 go build -tags nvml -o "$work/nvidia" ./cmd/nvidia)
bin/detectors/detector-check "$work/nvidia" | tail -n 1

echo "== the one in Python"
cp -r examples/detector-python "$work/python"
(cd "$work/python" && make --silent && PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m unittest --quiet && "$top/bin/detectors/detector-check" build/nvme | tail -n 1)

echo "== the one to copy"
cp -r examples/detector-template "$work/template"
(
	cd "$work/template"
	sed -i "s#=> ../../plugins#=> $top/plugins#" go.mod
	make --silent build test check CHECK="$top/bin/detectors/detector-check"
	(cd "$top" && go build -modfile=tools/nfpm/go.mod -o "$work/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)
	make --silent packages NFPM="$work/nfpm"
	dpkg-deb -x build/*.deb "$work/root"
	locked=$(sed -n 's/.*"sha256": "\([0-9a-f]*\)".*/\1/p' "$work/root/usr/lib/prelet/detectors.lock.d/one.json")
	[ "$locked" = "$(sha256sum "$work/root/usr/lib/prelet/detectors/one" | cut -d' ' -f1)" ] || {
		echo "the lock in the package is not of the program in the package" >&2
		exit 1
	}
	ls build/*.deb build/*.rpm
)
if [ -x bin/prelet ]; then
	bin/prelet detectors list --root "$work/root" -o json | grep -q '"one"' || {
		echo "prelet does not find what the package installs" >&2
		exit 1
	}
fi

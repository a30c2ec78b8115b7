#!/usr/bin/env bash
# Runs the checks of detectors that need more than Go: a C compiler and go-nvml, Debian's ovsdb-server, Python's gRPC, Node.js,
# nfpm. A missing tool is a failure, because a skipped check in CI would not be noticed. `make e2e-detectors` runs this script
# after it has built bin/prelet, bin/detectors and the packages in dist/.
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
need nodejs test -x /usr/bin/node
need npm command -v npm

# The user nobody must be able to read the checked files, also if it cannot read this tree.
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
bin/detectors/nvidia describe | grep 'with NVML also memory'

echo "== the one in Python"
cp -r examples/detector-python "$work/python"
(cd "$work/python" && make --silent && PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m unittest --quiet && "$top/bin/detectors/detector-check" build/nvme | tail -n 1)

echo "== the one in Node.js"
cp -r examples/detector-node "$work/node"
(cd "$work/node" && make --silent PROTO="$top/plugins/proto/v1.binpb" && "$top/bin/detectors/detector-check" build/numa | tail -n 1)

echo "== the one that is plain go-plugin"
(cd plugins && CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "-s -w" -o "$work/goplugin" ./examples/goplugin)
bin/detectors/detector-check "$work/goplugin" | tail -n 1

echo "== the same, called by prelet: other libraries at the other end"
mkdir "$work/asked"
cp bin/prelet bin/prelet-detect "$work/python/build/nvme" "$work/node/build/numa" "$work/goplugin" "$work/asked"
cat >"$work/asked/site.hcl" <<-'SITE'
	detector "nvme" {
	  required = true
	  allow {
	    execute = ["/usr/bin/python3"]
	  }
	}
	detector "numa" {
	  required = true
	  config {
	    expected = 1000
	  }
	  allow {
	    execute = ["/usr/bin/node"]
	  }
	}
	detector "goplugin" {
	  required = true
	}
	stage "detect-hw" "node" {}
SITE
unprivileged=()
[ "$(id -u)" != 0 ] || unprivileged=(setpriv --reuid=65534 --regid=65534 --clear-groups) # as root, detectors would need the users of sysusers.d
[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$work/asked"
(
	cd "$work/asked"
	for detector in nvme numa goplugin; do
		"${unprivileged[@]}" ./prelet detectors lock --site --config "$work/asked" "$work/asked/$detector" >/dev/null
	done
	# This machine may not have the device, and its programs are not where those of a node are.
	/usr/bin/python3 - "$work/asked" <<-'LOCK'
		import json, sys
		locks = json.load(open("detectors.lock.json"))
		for lock in locks["detectors"]:
		    lock["describe"].setdefault("match", {})["always"] = True
		    lock["path"] = sys.argv[1] + "/" + lock["name"]
		json.dump(locks, open("detectors.lock.json", "w"))
	LOCK
	"${unprivileged[@]}" ./prelet detect -o json --config "$work/asked" |
		/usr/bin/python3 -c 'import json, sys
for name, d in json.load(sys.stdin)["facts"]["detectors"].items(): print(name + ":", d["state"], d["facts"])' | tee said
	for detector in nvme numa goplugin; do grep -q "^$detector: ok {" said; done
)

echo "== the template"
cp -r examples/detector-template "$work/template"
(
	cd "$work/template"
	sed -i "s#=> ../../plugins#=> $top/plugins#" go.mod
	make --silent build test check CHECK="$top/bin/detectors/detector-check"
	PATH=$top/bin:$PATH make --silent packages
)

echo "== the template under another name, which is in two files"
cp -r examples/detector-template "$work/renamed"
(
	cd "$work/renamed"
	sed -i "s#=> ../../plugins#=> $top/plugins#; s#prelet-detector-one#prelet-detector-two#" go.mod
	sed -i 's#"one"#"two"#' detector.go
	make --silent build
	PATH=$top/bin:$PATH build/two package --out build
	dpkg-deb --contents build/prelet-detector-two_1.0.0_amd64.deb >said
	for file in detectors/two detectors.lock.d/two.json; do grep -q "/usr/lib/prelet/$file\$" said; done
	if grep one said; then exit 1; fi
	grep -q '"name": "two"' build/two.json
)

echo "== packages"
(cd test/detectors && PRELET_PACKAGES="$top/dist:$work/template/build" go test -count=1 -v -run '^TestPackages$' . | tee "$work/packages" | grep -- '---')
grep -q -- '^--- PASS: TestPackages' "$work/packages"

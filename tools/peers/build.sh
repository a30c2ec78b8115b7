#!/usr/bin/env bash
# Builds what prelet is compared with: build.sh CACHE, as root.
#   CACHE/nfd-worker, CACHE/nodeadm  from the Go modules that nfd/ and nodeadm/ name
#   CACHE/debian                     Debian 12 with cloud-init, Ignition and Python: the root in which all programs run
#   CACHE/sizes                      for each line of programs below: its first package, the version of that package, and
#                                    the KiB that its packages and those that they need add to a minimal Debian
# Nothing is installed on this machine but mmdebstrap. A second call builds nothing; remove CACHE to build all again.
set -euo pipefail
cache=$(realpath -m "${1:?the folder that keeps what was built}")
cd "$(dirname "$0")"
programs=(cloud-init ignition "python3-yaml pciutils") # the old script calls lspci

mkdir -p "$cache"
export CGO_ENABLED=0
build() { (cd "$1" && go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/$2" tool); }
build nfd nfd-worker
build nodeadm nodeadm

recipe=$(sha256sum build.sh | cut -d' ' -f1)
[ "$(cat "$cache/debian.recipe" 2>/dev/null)" != "$recipe" ] || exit 0

if ! command -v mmdebstrap >/dev/null; then
	apt-get update -qq -o DPkg::Lock::Timeout=300
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends mmdebstrap
fi
rm -rf "$cache/debian" "$cache/debian.tar"
mkdir "$cache/debian"
include=$(IFS=, && echo "${programs[*]}")
mmdebstrap --quiet --variant=minbase --mode=root --include="${include// /,}" \
	--essential-hook="cp \"\$1/var/lib/dpkg/status\" '$cache/minimal.status'" bookworm "$cache/debian.tar"
tar -C "$cache/debian" -xp --numeric-owner -f "$cache/debian.tar"
rm "$cache/debian.tar"

for packages in "${programs[@]}"; do
	# shellcheck disable=SC2086 # names of packages
	needed=$(apt-get -s -qq --no-install-recommends -o Dir::State::status="$cache/minimal.status" install $packages |
		awk '$1 == "Inst" { print $2 }')
	# shellcheck disable=SC2086 # names of packages
	size=$(dpkg-query --root="$cache/debian" -W -f '${Installed-Size}\n' $needed | awk '{ sum += $1 } END { print sum }')
	version=$(dpkg-query --root="$cache/debian" -W -f '${Version}' "${packages%% *}")
	echo "${packages%% *} $version $size"
done >"$cache/sizes"
echo "$recipe" >"$cache/debian.recipe"

#!/usr/bin/env bash
# Makes the roots that the tests install packages in, as root: .cache/bookworm and .cache/trixie, Debian 12 and 13 with
# systemd (1 minute and 200 MB each, once). Remove a folder to make it again. Installs tools if apt-get is available.
set -euo pipefail
cd "$(dirname "$0")"
[ "$(id -u)" = 0 ] || { echo "roots are made by root only" >&2; exit 1; }

missing=()
for tool in mmdebstrap rpm lintian rpmlint skopeo gpg gpgv openssl; do
	command -v "$tool" >/dev/null || missing+=("$tool")
done
command -v veritysetup >/dev/null || missing+=(cryptsetup-bin)
command -v systemd-repart >/dev/null || missing+=(systemd-repart)
command -v ssh-keygen >/dev/null || missing+=(openssh-client)
if [ ${#missing[@]} -gt 0 ]; then
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

mkdir -p .cache
for suite in bookworm trixie; do
	[ ! -e ".cache/$suite/usr/bin/gpg" ] || continue # of what systemd-sysupdate needs, added last
	rm -rf ".cache/$suite"
	mmdebstrap --variant=minbase --mode=root --include=systemd,systemd-sysv,dbus,systemd-container,gpg "$suite" ".cache/$suite.tar"
	rm -rf ".cache/$suite.part"
	mkdir ".cache/$suite.part"
	tar -C ".cache/$suite.part" -xp --numeric-owner -f ".cache/$suite.tar"
	rm ".cache/$suite.tar"
	mv ".cache/$suite.part" ".cache/$suite"
done

#!/usr/bin/env bash
# Makes the roots that the tests install packages in, as root: roots.sh SUITE... makes .cache/SUITE, such as
# .cache/trixie, Debian 13 with systemd (1 minute and 200 MB each, once). Remove a folder to make it again. Makes all that
# it can. Installs tools if apt-get is available.
set -euo pipefail
cd "$(dirname "$0")"
[ "$(id -u)" = 0 ] || { echo "roots are made by root only" >&2; exit 1; }

missing=()
for tool in rpm lintian rpmlint skopeo gpg gpgv openssl; do
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
for suite in "$@"; do
	[ ! -e ".cache/$suite/usr/bin/gpg" ] || continue # of what systemd-sysupdate needs, added last
	../debian.sh "$suite" ".cache/$suite" systemd,systemd-sysv,dbus,systemd-container,gpg || true # its tests fail
done

#!/usr/bin/env bash
# Installs the built programs and the files of packaging/ to their places in a distribution: install.sh DESTDIR PREFIX.
# Unit files contain /usr/bin/prelet and /usr/lib/prelet; another prefix replaces /usr in them. BIN is the folder of the
# programs, by default bin, which may be for another machine; VERSION their version. Needs Go.
set -euo pipefail
cd "$(dirname "$0")/.."

destdir=$1 prefix=${2:-/usr}
bin=${BIN:-bin}
case $prefix in
/*) ;;
*) echo "PREFIX=$prefix is no absolute path" >&2 && exit 64 ;;
esac
[ -d packaging/systemd ] || {
	echo "packaging/systemd is not there: without its units the kubelet would start before it is configured" >&2
	exit 1
}

put() { # put MODE SOURCE TARGET
	install -D -m "$1" "$2" "$destdir$3"
	echo "$destdir$3"
}
put_text() { # like put, and replaces the prefix in the text
	local text
	text=$(mktemp)
	sed "s|/usr/bin/prelet|$prefix/bin/prelet|g; s|/usr/lib/prelet|$prefix/lib/prelet|g" "$2" >"$text"
	put "$1" "$text" "$3"
	rm -f "$text"
}

put 0755 "$bin/prelet" "$prefix/bin/prelet"
for helper in prelet-detect prelet-detector-check; do
	[ ! -f "$bin/$helper" ] || put 0755 "$bin/$helper" "$prefix/lib/prelet/$helper"
done

# Units and drop-ins keep their paths below packaging/systemd.
while IFS= read -r file; do
	put_text 0644 "$file" "$prefix/lib/systemd/system/${file#packaging/systemd/}"
done < <(find packaging/systemd -type f \( -name '*.service' -o -name '*.timer' -o -name '*.conf' \) \
	-not -path '*/tmpfiles.d/*' -not -path '*/sysusers.d/*' | sort)
for kind in tmpfiles.d sysusers.d; do
	while IFS= read -r file; do
		put_text 0644 "$file" "$prefix/lib/$kind/$(basename "$file")"
	done < <(find packaging/systemd -type f -path "*/$kind/*.conf" | sort)
done

put 0644 packaging/systemd/catalog/prelet.catalog "$prefix/lib/systemd/catalog/prelet.catalog"
put_text 0755 packaging/systemd/fallback.sh "$prefix/lib/prelet/fallback.sh"
put 0644 packaging/selinux/prelet.cil "$prefix/share/prelet/selinux/prelet.cil"
put_text 0755 packaging/greenboot/50-prelet.sh "$prefix/share/prelet/greenboot/50-prelet.sh"

# Packages of detectors install their programs and locks in these folders.
for folder in detectors detectors.lock.d; do
	install -d -m 0755 "$destdir$prefix/lib/prelet/$folder"
	echo "$destdir$prefix/lib/prelet/$folder/"
done

# Manual pages contain a month. Use that of the commit, so that builds are reproducible.
SOURCE_DATE_EPOCH=$(tools/source-date.sh 2>/dev/null || true)
export SOURCE_DATE_EPOCH
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
GOOS='' GOARCH='' CGO_ENABLED=0 go run -trimpath -buildvcs=false -tags grpcnotrace,man \
	-ldflags "-X main.version=${VERSION:-$(tools/version.sh)}" ./cmd/prelet "$made"
put 0644 "$made/prelet.bash" "$prefix/share/bash-completion/completions/prelet"
put 0644 "$made/prelet.zsh" "$prefix/share/zsh/site-functions/_prelet"
put 0644 "$made/prelet.fish" "$prefix/share/fish/vendor_completions.d/prelet.fish"
for page in "$made"/*.[58]; do put 0644 "$page" "$prefix/share/man/man${page##*.}/$(basename "$page")"; done

put 0644 LICENSE "$prefix/share/doc/prelet/LICENSE"

#!/usr/bin/env bash
# Builds and tests this tree on the machines of newcomers, as root, each a row below: newcomer.sh [ROW...]. A row is a
# copy of the tree without git, in a folder of another repository, with this machine's modules and compiled packages;
# "readme" is a clone of the last commit.
# WHOLE=1 runs all of `make test` in each row that tests, not one package. Prints the seconds of each row.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "newcomer.sh: other users are tried by root only" >&2; exit 1; }

# The mounts below, and a network without the world, go with this process.
[ -n "${NEWCOMER_WORK-}" ] || {
	NEWCOMER_WORK=$(mktemp -d /tmp/newcomer.XXXXXX)
	export NEWCOMER_WORK
	trap 'rm -rf "$NEWCOMER_WORK"' EXIT
	unshare --mount --net "$0" "$@"
	exit
}
work=$NEWCOMER_WORK repository=$PWD
ip link set lo up
chmod 755 "$work"
mount -t tmpfs -o mode=755 tmpfs "$work"
home=$work/home cache=$work/home/.cache/go-build
mkdir -p "$work"/{upper,work,go} "$home/go/pkg/mod" "$cache"
git ls-files -z --cached --others --exclude-standard |
	tar -c -f "$work/tree.tar" --null --ignore-failed-read -T - 2>/dev/null
mount --bind -o ro "$(go env GOMODCACHE)" "$home/go/pkg/mod"
mount --bind -o ro "$(go env GOROOT)" "$work/go"
# Another user can add files to Go's cache, too: 256 folders change their owner in memory.
mount -t overlay -o "lowerdir=$(go env GOCACHE),upperdir=$work/upper,workdir=$work/work" overlay "$cache"
chown nobody "$home" "$home/.cache" "$cache" "$cache"/??
git init -q "$work/outer"
git -C "$work/outer" -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m outer
git -C "$work/outer" tag v9.9.9

# copy NAME OWNER: puts the tree in a folder NAME of that repository, and goes there.
copy() {
	mkdir -p "$work/outer/$1"
	cd "$work/outer/$1"
	tar -x --no-same-permissions -f "$work/tree.tar" # as umask wants
	chown -R "$2" .
}

# as OWNER [NAME=VALUE...] COMMAND...: with the environment of a login, and no other than that.
as() {
	local user=$1
	shift
	setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env -i GOPROXY=off GOTOOLCHAIN=local \
		HOME="$home" PATH="$work/go/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin" "$@"
}

without_home() { # root has no HOME; what /etc/passwd has for it has this home's files
	mount --rbind "$home" "$(getent passwd root | cut -d : -f 6)"
	works root env -u HOME
}

# works OWNER [NAME=VALUE...]: the programs are built, have the version of a tree without git, and are tested.
works() {
	as "$@" make build
	bin/prelet version | grep -qF '+unknown' || { echo "got $(bin/prelet version); want no version of another repository" >&2; return 1; }
	if [ -n "${WHOLE-}" ]; then as "$@" make test; else as "$@" make test MODULES=. PACKAGES=./internal/plan/lang; fi
}

# readme: a clone, in which a user runs the first block of commands of README.md.
readme() {
	local narrow="MODULES=. PACKAGES=./internal/plan/lang" command commands
	[ -z "${WHOLE-}" ] || narrow=
	git -C "$repository" -c safe.directory='*' bundle create -q "$work/clone.bundle" HEAD
	git clone -q "$work/clone.bundle" "$work/clone"
	cd "$work/clone"
	chown -R nobody .
	commands=$(awk '/^```sh$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md)
	[ "$commands" = $'make demo\nmake test' ] || { echo "README.md: got the commands: $commands" >&2; return 1; }
	while read -r command; do
		as nobody MAKEFLAGS="${narrow:+ -- $narrow}" bash -c "$command" </dev/null
	done <<<"$commands"
}

# refuses WORDS OWNER [NAME=VALUE...]: `make build` fails, and says WORDS.
refuses() {
	local says
	says=$(as "${@:2}" make build 2>&1) && { echo "got a build; want: $1" >&2; return 1; }
	[[ $says = *"$1"* ]] || { echo "got: $says"$'\n'"want: $1" >&2; return 1; }
}

old_go() { # a Go of Debian 12: what it answers is all that is asked of it
	mkdir "$work/old"
	printf '#!/bin/sh\necho go1.19.8\n' >"$work/old/go"
	chmod 755 "$work/old/go"
}

row() {
	case $1 in
	spaces) copy "a folder/with spaces" root && works root ;;
	home) copy home root && without_home ;;
	user) copy user nobody && works nobody ;;
	umask) umask 077 && copy umask nobody && works nobody ;;
	flags) copy flags root && works root GOFLAGS=-mod=mod ;;
	old) old_go && copy old root && refuses "prelet needs Go 1." root GO="$work/old/go" ;;
	readme) readme ;;
	none) copy none root && refuses "missing or fails" root GO="$work/no-go" ;;
	*) echo "newcomer.sh: unknown row $1; rows: ${rows[*]}" >&2 && return 64 ;;
	esac
}

rows=(readme spaces home user umask flags old none)
[ $# -gt 0 ] || set -- "${rows[@]}"
table="" failed=0
for name in "$@"; do
	start=$SECONDS result=ok
	set +e # `||` would let a row go on after a failure
	(set -e && row "$name")
	[ $? = 0 ] || result=FAILED failed=1
	set -e
	table+=$(printf '%-8s %5d s  %s' "$name" $((SECONDS - start)) "$result")$'\n'
done
printf '\n%s' "$table"
exit "$failed"

#!/usr/bin/env bash
# Tags the commit of a release: tag.sh VERSION, on a clean checkout. It pushes nothing.
#
# On main the modules of this repository replace each other by their folders, so that one commit can change several.
# `go install` refuses a module with a replace. So the tags are on a commit after main's, in which the modules require
# each other at VERSION, with their sums: vVERSION for prelet, FOLDER/vVERSION for each module in a folder. The folders
# are read through a clone that has these tags, as Go will read them from the repository.
#
# Tags are signed if git is configured to: git config tag.gpgSign true.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v$1
module=github.com/prelet/prelet
tags=("$version" "plugins/$version" "editors/prelet-ls/$version")

[ -z "$(git status --porcelain)" ] || {
	echo "the checkout has changes: commit them first" >&2
	exit 1
}
for tag in "${tags[@]}"; do
	[ -z "$(git tag --list "$tag")" ] || {
		echo "the tag $tag exists already: a version is never tagged twice" >&2
		exit 1
	}
done

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT # Go's cache of modules is read-only
git clone -q --shared --no-tags . "$work/clone"

# Modules of others come from the cache first, those of this repository from the clone, whose tags exist nowhere else.
GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
export GOPROXY GOPRIVATE=$module GOWORK=off GOFLAGS=-mod=mod GOMODCACHE=$work/modules
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$work/clone.insteadOf GIT_CONFIG_VALUE_0=https://$module

# require FOLDER MODULE...: lets the module in FOLDER require modules of this repository at the version.
require() {
	local folder=$work/clone/$1 required
	for required in "${@:2}"; do
		go -C "$folder" mod edit -dropreplace="$required" -require="$required@$version"
	done
	go -C "$folder" list -deps -test ./... >/dev/null # writes go.sum
}
in_clone() { git -C "$work/clone" "$@"; }

# A module is tagged before its sum is needed: plugins first, which requires none of these. A module does not contain
# those in its folders, so the last commit leaves the sums as they are.
in_clone tag "plugins/$version"
require . $module/plugins
in_clone commit -qam "all: release ${version#v}

The modules require each other at this version. Not on main: there they replace
each other by their folders."
in_clone tag "$version"
require editors/prelet-ls $module $module/plugins
require examples/detector-template $module/plugins
in_clone commit -qa --amend --no-edit

git fetch -q "$work/clone" HEAD
for tag in "${tags[@]}"; do
	git tag -m "prelet ${version#v}" "$tag" FETCH_HEAD
done
echo "git push --atomic origin ${tags[*]}"

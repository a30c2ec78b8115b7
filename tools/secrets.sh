#!/usr/bin/env bash
# Fails if a secret is in a commit of any branch or in the work tree (gitleaks, configured by .gitleaks.toml). Before that
# it checks that the scanner finds made-up secrets: in a file, and in an earlier commit of a file with allowed ones.
set -euo pipefail
cd "$(dirname "$0")/.."
found=3 # what gitleaks returns then; 1 is any other error

gitleaks() { # gitleaks git|dir DIRECTORY
	go tool -modfile=tools/secrets/go.mod gitleaks "$@" \
		--config .gitleaks.toml --exit-code "$found" --no-banner --log-level error
}

want_found() { # want_found NAME git|dir DIRECTORY
	local name=$1 status=0
	shift
	gitleaks "$@" || status=$?
	[ "$status" = "$found" ] || {
		echo "gitleaks $1 with $name: got exit status $status, want $found: it was not found" >&2
		exit 1
	}
}

# Put together here, so that the repository does not contain them.
declare -A secrets=(
	[token]="$(printf '%s.%s' k3y8zq 5m1xw9rt2uv6hp4d)"
	[key]="$(printf -- '-----BEGIN %s KEY-----\n%s\n-----END %s KEY-----' PRIVATE "$(seq 100 | base64)" PRIVATE)"
)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fixture=cmd/prelet/testdata/scenarios/canary.txtar # where .gitleaks.toml allows heads of keys

for name in "${!secrets[@]}"; do
	mkdir "$scratch/$name"
	echo "${secrets[$name]}" >"$scratch/$name/file"
	want_found "a $name" dir "$scratch/$name"

	repository=$scratch/$name.git
	mkdir -p "$repository/$(dirname $fixture)"
	git -C "$repository" init -q
	commit=(git -C "$repository" -c user.name=test -c user.email=test@example.org -c commit.gpgSign=false commit -q -a)

	{ cat "$fixture" && echo "${secrets[$name]}"; } >"$repository/$fixture"
	git -C "$repository" add .
	"${commit[@]}" -m "add a secret"
	cp "$fixture" "$repository/$fixture"
	"${commit[@]}" -m "remove it"
	want_found "an earlier $name" git "$repository"
done

gitleaks git . --verbose --redact
gitleaks dir . --verbose --redact

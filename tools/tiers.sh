#!/usr/bin/env bash
# Measures what the tiers of tests cost on this machine, and writes that into docs/develop/testing.md: `make tiers`.
# The first run begins with an empty build cache; modules are there.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
mkdir -p bin

page=docs/develop/testing.md
leaf=internal/lab/nodeobject/nodeobject.go # few packages import it, and cmd/prelet does
git diff --quiet -- $leaf || {
	echo "$leaf has changes, and this script changes it: commit them first" >&2
	exit 1
}

GOCACHE=$(mktemp -d "$PWD/bin/cache.XXXXXX")
export GOCACHE
trap 'rm -rf "$GOCACHE"; git checkout -q -- $leaf' EXIT
trap 'exit 143' HUP INT TERM # bash runs the trap above then, too

write() { # writes the rows so far into the page
	rows=$rows awk '
		/^<!-- end of the costs -->/ { skip = 0 }
		!skip
		/^<!-- made by tools\/tiers.sh/ { print "\n| | wall | CPU |\n|---|---|---|\n" ENVIRON["rows"]; skip = 1 }
	' $page >bin/testing.md
	cp bin/testing.md $page
}

rows=""
measure() { # measure NAME COMMAND...: adds a row
	local name=$1 times
	local TIMEFORMAT='%R %U %S'
	shift
	times=$({ time "$@" >bin/tiers.log 2>&1; } 2>&1) || {
		tail -n 40 bin/tiers.log >&2
		exit 1
	}
	rows+=$(awk -v name="$name" '{ printf "| %s | %.0f s | %.0f s |", name, $1, $2 + $3 }' <<<"$times")$'\n'
	printf '%s' "$rows" | tail -n 1
	write
}

measure '`make test`, nothing compiled' make test
sed -i '/^package /a\\n// This line moves those below.' $leaf # make lint accepts it
measure '`make test`, a leaf changed' make test
measure '`make test-all`' make test-all
measure '`make lint check-docs`' make lint check-docs

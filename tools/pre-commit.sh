#!/usr/bin/env bash
# Runs prelet for a hook of pre-commit: pre-commit.sh COMMAND [ARGUMENT...]. The program is got once for this checkout:
# that of its release, or a build.
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
folder=$tools/../bin/pre-commit
if [ ! -x "$folder/prelet" ]; then
	status=0
	"$tools/get-prelet.sh" release "$folder" || status=$?
	[ "$status" != 3 ] || "$tools/get-prelet.sh" build "$folder"
	[ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
fi
exec "$folder/prelet" "$@"

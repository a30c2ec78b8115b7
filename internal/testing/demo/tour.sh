#!/usr/bin/env bash
# `make demo`: prelet's main job from end to end, on any machine, without root and without a cluster. bench/serve is the
# cluster, the hardware is a recorded machine with eight GPUs, and files go below bin/demo. Each command is run as shown
# and its exit status is checked; the script ends with 1 if a check fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."
dir=bin/demo
rm -rf "$dir"
mkdir -p "$dir"/{site,typo,credentials} "$dir/node/etc/default"
chmod 700 "$dir/credentials"

coproc server {
	exec bin/bench/serve -kubelet-config bench/testdata/kubelet-config.yaml \
		-spec testdata/hardware/spec/dgx-h100.json -machine "$dir/machine"
}
read -r address <&"${server[0]}"
of_server() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" <<<"$address"; }

token=$(of_server token)
printf %s "$token" >"$dir/credentials/bootstrap-token"
chmod 400 "$dir/credentials/bootstrap-token"
export CREDENTIALS_DIRECTORY=$PWD/$dir/credentials
sed "s|SERVER|$(of_server url)|; s|PIN|$(of_server ca_hash)|" internal/testing/demo/tour.hcl >"$dir/site/site.hcl"
sed 's/local.nvidia\[0\].model/local.nvidia[0].modle/' "$dir/site/site.hcl" >"$dir/typo/site.hcl"
echo ID=debian >"$dir/node/etc/os-release"
printf '# Kept as it is: prelet touches its own flags only.\nKUBELET_EXTRA_ARGS="--v=2"\n' >"$dir/node/etc/default/kubelet"

fail() {
	printf '\ndemo: %s\n' "$*" >&2
	exit 1
}

step=0
say() {
	step=$((step + 1))
	printf '\n━━ %d. %s\n' "$step" "$*"
}

# show STATUS FILTER ARGUMENTS...: runs prelet, prints its output through a filter, and checks its exit status.
show() {
	local want=$1 filter=$2 status=0
	shift 2
	printf '\n$ prelet %s\n' "$*"
	bin/prelet "$@" >"$dir/output" 2>&1 || status=$?
	cat "$dir/output" >>"$dir/outputs"
	$filter <"$dir/output"
	[ "$status" = "$want" ] || fail "\`prelet $1\` ended with $status, not $want"
}
from_files() { sed -n '/^Files$/{s/^/…\n/;:a;p;n;ba}'; }

# snapshot prints the names of the node's files with their modification times.
snapshot() { find "$dir/node" -type f ! -path '*/run/*' -printf '%T@ %p\n' | sort; }

where=(--config "$dir/site" --root "$dir/node" --hardware "$dir/machine" --var zone=az1-r07)

say 'A site is checked on a laptop: no machine, no network.'
show 0 cat validate "$dir/site"
say 'What would change on this node? A small API server answers, the hardware is a recorded machine with
eight H100. Nothing is written.'
show 0 cat plan "${where[@]}"
say 'Do it.'
show 0 cat run "${where[@]}"

say "The files, all or none. The token is in the kubelet's bootstrap file and nowhere else."
for file in etc/kubernetes/pki/ca.crt etc/kubernetes/bootstrap-kubelet.conf etc/default/kubelet \
	var/lib/kubelet/config.yaml; do
	printf '\n  %s  /%s\n' "$(stat -c %A "$dir/node/$file")" "$file"
	case $file in
	*/kubelet | *.yaml) sed 's/^/      /' "$dir/node/$file" ;;
	esac
done

say 'And again: there is nothing to do, so nothing is written.'
before=$(snapshot)
show 0 from_files plan "${where[@]}"
show 0 cat run "${where[@]}"
[ "$(snapshot)" = "$before" ] || fail "the second run wrote something: $(diff <(echo "$before") <(snapshot))"

say 'Why has this node this label?'
show 0 cat explain label/accelerator "${where[@]}"
say 'A typing error is found before any machine boots.'
show 10 cat validate "$dir/typo"

secret=${token#*.}
! grep -qF "$secret" "$dir/outputs" || fail 'the token was printed'
found=$(grep -rlF "$secret" "$dir/node" | grep -v 'bootstrap-kubelet.conf$\|/generations/') || true
[ -z "$found" ] || fail "the token is in $found"

cat <<END

Everything is below $dir; its API server has ended, so plan and run of its site would time out. Next:
  bin/prelet detect            the hardware of your machine, as a site sees it
  docs/tutorial.md             your first site, and a first plan for your fleet: five minutes
  docs/operators/one-node.md   try it on one node of your cluster, and undo it
END

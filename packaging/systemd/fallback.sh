#!/bin/sh
# prelet-fallback.service runs this while the gate is shut and no prelet of this boot has said why. If prelet cannot start,
# it reports why and what to do, and opens the gate if the files in place are those of the last good generation. It is a
# shell script, because prelet itself may be what is broken.
#
# /var/lib/prelet/last-good is written by prelet after a good verdict: "# generation N", then sha256sum's lines of the
# files of that generation, and of the marks of the machine. journal.json exists from a commit to its verdict. holds.json
# has the holds that a run found to be true, with the id of the boot, in one line.
set -u
gate=/run/prelet/kubelet.env
state=/var/lib/prelet

ask() { systemctl show --property="$1" --value prelet.service; }
load=$(ask LoadState)
# The unit of the package has no condition, so one that kept it from starting is in a drop-in.
skipped=false
for check in Condition Assert; do
	[ "$(ask ${check}Result)" != no ] || [ "$(ask ${check}TimestampMonotonic)" = 0 ] || skipped=true
done
# The unit has tried the program: a shell would run an empty or foreign file as a script.
works=false
case $(systemctl show --property=ExecStartPre prelet-fallback.service) in
*'code=exited ; status=0 '*) [ ! -x /usr/bin/prelet ] || works=true ;; # systemd skips a program that is missing
esac

reinstall="install the package prelet again, then: systemctl restart prelet"
start="(systemctl cat prelet.service), then: systemctl daemon-reload && systemctl start prelet.service"
# The folders that systemd opens for prelet.service before it starts the program, and whose file system does not answer.
# It takes half a second: prelet.service starts again after two, and then the kubelet would wait for it.
unanswered=
if $works && [ "$(ask Result)" = timeout ] && [ "$(ask ExecMainStartTimestampMonotonic)" = 0 ]; then
	unanswered=$(
		for folder in $state /var/lib/kubelet; do
			{
				timeout 0.5 stat $folder >/dev/null 2>&1
				[ $? != 124 ] || printf ' %s' $folder
			} &
		done
		wait
	)
fi

case $works,$load in
true,loaded)
	$skipped || [ -n "$unanswered" ] || exit 0 # it runs, and reports by itself
	why="systemd did not start prelet.service, because a Condition= or Assert= does not hold: remove its drop-in $start"
	;;
false,*) why="/usr/bin/prelet cannot be executed: $reinstall" ;;
*,masked)
	why="prelet.service is masked: systemctl unmask prelet.service && systemctl start prelet.service"
	why="$why (if its unit file is empty, install the package prelet again)"
	;;
*,not-found) why="systemd cannot load prelet.service ($load): $reinstall" ;;
*) why="systemd cannot load prelet.service ($load): correct or remove the drop-in with the wrong line $start" ;;
esac

# Writes a file of the run folder at once, as systemd may read it at any moment.
put() { # put FILE LINE
	printf '%s\n' "$2" >"$1.new" && chmod 0644 "$1.new" && mv "$1.new" "$1"
}
# The line above the console's login, which prelet replaces once it runs.
show() { # show LINE
	put /run/prelet/issue "prelet: $1"
	[ ! -e /run/agetty.reload ] || touch /run/agetty.reload
}
# Without a way to open the gate, the reason is at the gate: the next start of the kubelet does not repeat all this.
shut() { # shut WHY
	put /run/prelet/kubelet.reason "$why; the gate stays shut: $1"
	show "the kubelet does not start: $why"
	echo "$why. The kubelet does not start: $1." >&2
	exit 1
}

if [ -n "$unanswered" ]; then
	why="systemd could not start prelet.service in time: the file system of$unanswered does not answer"
	shut "make its server answer, or unmount it: umount -l, with the mount that findmnt lists; then prelet.service starts"
fi
if $works && [ "$(systemctl show --property=LoadState --value prelet-verify.service)" = loaded ]; then
	echo "$why. prelet-verify.service opens the last good generation, if there is one." >&2
	exit 1
fi
unknown="whether this node had a good generation is not known: $state/last-good is missing"
timeout 5 test -d $state
case $? in
0) ;;
124) shut "the file system of $state does not answer: findmnt --target $state" ;;
*) shut "$unknown" ;;
esac
exec 9<$state
flock --nonblock 9 || exit 0 # a prelet writes, and reports by itself
[ ! -e $state/journal.json ] || shut "a change of its files was interrupted, or has no verdict yet"
[ -s $state/last-good ] || shut "$unknown"
# A FIFO, or a disk that does not answer, must not take the time in which the reason can be written.
timeout 20 sha256sum --check --strict --quiet $state/last-good >&2 ||
	shut "these files are not those of the last good generation, or this is another machine"

# The holds of this boot that are not over. They say nothing at the gate, so that a later start of the kubelet asks again.
list_holds() {
	now=$(sed 's/\..*//' /proc/uptime)
	begin='^"\([^"]*\)":{"boot":"'$PRELET_BOOT_ID'","began_ns":\([0-9]*\),'
	end='"earlier_ns":\([0-9]*\),"limit_ns":\([0-9]*\),'
	{ cat $state/holds.json && echo; } 2>/dev/null | sed 's/"[^"]*":{"boot"/\n&/g' |
		sed -n "s/$begin.*$end.*/\2 \3 \4 \1/p" |
		while read -r began earlier limit name; do
			left=$(((limit - earlier + began) / 1000000000 - now))
			[ $left -le 0 ] || printf ' "%s", for %s s at most;' "$name" $left
		done
}
holds=$(list_holds)
if [ -n "$holds" ]; then
	show "the kubelet is held by$holds $why"
	echo "$why. The kubelet is held by$holds then it starts with the last good generation." >&2
	exit 1
fi

generation=$(sed -n '1s/^# generation //p' $state/last-good)
put $gate "PRELET_GENERATION=$generation"
show "the kubelet starts with generation $generation, the last good one: $why"
echo "$why. The kubelet starts with generation $generation, the last good one; the site is not applied." >&2
exit 1

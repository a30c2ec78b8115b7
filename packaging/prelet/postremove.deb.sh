#!/bin/sh
# Makes systemd forget the units and the gate after a removal. The units stay enabled, as of Debian's own packages: an
# installation after a removal finds them as the operator left them. Purging also removes these links, and the
# generations with their copies of the files as they were before prelet. A site in /etc/prelet is the operator's, and
# stays.
set -e

if [ "$1" = purge ]; then
	rm -f /etc/systemd/system/*.wants/prelet.service /etc/systemd/system/*.wants/prelet-verify.service
	rm -f /etc/systemd/system/*.wants/prelet-boot-check.service /etc/systemd/system/*.wants/prelet-check.timer
	rm -f /etc/systemd/system/*.wants/prelet-site.service
	rm -rf /var/lib/prelet /run/prelet
	rmdir /etc/prelet 2>/dev/null || true
fi
[ "$1" != remove ] || rm -f /etc/issue.d/50-prelet.issue /run/issue.d/50-prelet.issue
[ ! -d /run/systemd/system ] || systemctl daemon-reload

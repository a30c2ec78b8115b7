#!/bin/sh
# Makes systemd forget the units and the gate after a removal. Purging (deb) also removes the generations, with their
# copies of the files as they were before prelet; a site in /etc/prelet is the operator's, and stays.
set -e

[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
	rm -rf /var/lib/prelet /run/prelet
	rmdir /etc/prelet 2>/dev/null || true
fi

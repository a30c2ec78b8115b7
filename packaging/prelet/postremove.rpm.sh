#!/bin/sh
# Makes systemd forget the units and the gate after a removal. rpm has no purge: the generations stay.
set -e

[ "$1" != 0 ] || rm -f /etc/issue.d/50-prelet.issue /run/issue.d/50-prelet.issue
[ ! -d /run/systemd/system ] || systemctl daemon-reload

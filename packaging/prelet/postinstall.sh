#!/bin/sh
# Makes the users of detectors and the folders of the units, and enables the units at the first installation. It starts
# and restarts nothing: the new program runs at the next boot, or with `prelet run`. On a node that runs, a kubelet that
# starts again starts prelet.service first, which opens the gate.
#
# $1 is "configure" and $2 the version before (deb), or $1 is the number of installed versions (rpm).
set -e

systemd-sysusers prelet.conf
# Needs /proc, which the root of an image may not have mounted. The units make these folders as well, when they start.
systemd-tmpfiles --create prelet.conf || [ ! -e /proc/self ]

if { [ "$1" = configure ] && [ -z "$2" ]; } || [ "$1" = 1 ]; then
	systemctl preset prelet.service prelet-verify.service
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload

#!/bin/sh
# Slurm epilog: one pass by policy when a job has ended, so that the next one finds room.
#
# slurm.conf:  Epilog=/etc/slurm/epilog.d/ckpt-prune.sh
# It always ends with 0: an epilog that fails drains the node.
set -u
CONFIG=${PRUNE_CONFIG:-/etc/ckpt-prune/prune.toml}

timeout 240 runuser -u "${SLURM_JOB_USER:-nobody}" -- \
    prune apply --yes --quiet --config "$CONFIG" 2>&1 | logger -t ckpt-prune || true
exit 0

#!/bin/sh
# Slurm prolog: frees room for a job's checkpoints before it starts.
#
# slurm.conf:  Prolog=/etc/slurm/prolog.d/ckpt-prune.sh
# The job says how much it wants:  sbatch --comment="ckpt=200GB run=tiny" train.sh
#
# It always ends with 0: a prolog that fails drains the node, and a full checkpoint volume is no fault of the node.
# The training job finds out for itself with `prune make-room`, see array.sbatch.
set -u
CONFIG=${PRUNE_CONFIG:-/etc/ckpt-prune/prune.toml}

comment=$(scontrol show job "${SLURM_JOB_ID:-}" 2>/dev/null | sed -n 's/^ *Comment=//p')
size=$(printf '%s\n' "$comment" | sed -n 's/.*ckpt=\([0-9.]*[KMGTP]i\{0,1\}B\).*/\1/p')
run=$(printf '%s\n' "$comment" | sed -n 's/.*run=\([A-Za-z0-9_.-]*\).*/\1/p')
[ -n "$size" ] || exit 0

set -- make-room "$size" --yes --quiet --config "$CONFIG"
[ -z "$run" ] || set -- "$@" --run "$run"
# As the owner of the checkpoints, and never longer than the prolog may take.
timeout 240 runuser -u "${SLURM_JOB_USER:-nobody}" -- prune "$@" 2>&1 | logger -t ckpt-prune || true
exit 0

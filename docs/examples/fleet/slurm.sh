#!/bin/bash
# One comparison on several whole nodes: an agent on each, the client on the first. What is compared are the arguments:
#
#     sbatch docs/examples/fleet/slurm.sh nginx go --for 3m
#
# The folder in which it is submitted has to be one that all nodes share, and jissoku on the PATH of each of them. Options
# of sbatch before the name of this file change those below, as in `sbatch --nodes=8 --partition=bench`.
#SBATCH --job-name=jissoku
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --no-requeue
#SBATCH --time=01:00:00
#SBATCH --output=jissoku-%j.out
set -euo pipefail
umask 077

fleet="$PWD/jissoku-$SLURM_JOB_ID"
mkdir "$fleet"
cd "$fleet"
scontrol show hostnames "$SLURM_JOB_NODELIST" | while read -r node; do
  printf '[[host]]\nname = "%s"\naddress = "%s:7470"\n\n' "$node" "$node"
done >fleet.toml
jissoku fleet init

# Each has the whole node, but is one task: its servers and its load share the cores as on any machine.
# shellcheck disable=SC2016
srun --cpu-bind=none --kill-on-bad-exit=1 bash -c '
  exec jissoku agent --listen "$SLURMD_NODENAME:7470" --keys fleet.keys --campaigns "campaigns/$SLURMD_NODENAME"
' >agents.log 2>&1 &
agents=$!
trap 'scancel --signal=TERM "$SLURM_JOB_ID.0" || true; wait "$agents" || true; rm -r fleet.keys' EXIT

until jissoku fleet hosts; do
  kill -0 "$agents" || exit 1
  sleep 1
done
jissoku compare --fleet fleet.toml --out run "$@"

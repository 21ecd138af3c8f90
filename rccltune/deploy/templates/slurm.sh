{{ header('#') }}
# Copy these lines into a batch script (sbatch), before its steps. Once per job and
# not once per task (TaskProlog): a switch of versions between two tasks would give
# ranks of one job different rules, and such a job hangs.
. {{ (directory ~ '/env.sh') | sh }} || exit 1
# A job that was submitted with --export=NONE, or with a list, passes nothing of it
# on to its steps, unless this is uncommented (or each srun has --export=ALL):
#   unset SLURM_EXPORT_ENV
# Every node, once, for the version that was sourced; ends the job where one is not
# ready, or where the variables do not arrive:
check=${NCCL_TUNER_PLUGIN%/*}/check.sh
# Where a plugin of the user's own stayed, any of ours says so.
[ -x "$check" ] || check={{ (directory ~ '/check.sh') | sh }}
srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" "$check" --sourced || exit 1
# (A heterogeneous job: for each component, with --het-group and its own nodes.)
# env.sh is sourced in the job (as above), not only in the shell that calls sbatch.
# Open MPI's mpirun over several hosts: mpirun{% for name in names %} -x {{ name }}{% endfor %} ./job
# MPICH and Intel MPI: mpiexec -genvlist {{ names | join(',') }} ./job

/* Starts the ranks of one host: no MPI, no launcher. */
#ifndef RCCLTUNE_PERF_START_H
#define RCCLTUNE_PERF_START_H

/* Forks `n` ranks.  In each of them it returns the rank; in the process that started them it never
 * returns: when one rank ends badly, or this process is told to end, all others are ended, and the
 * exit code is that of the first that failed by itself.  Ranks end with this process, however it
 * ends. */
int start_ranks(int n);

#endif

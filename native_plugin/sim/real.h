/*
 * The real RCCL in the stand-in library's place: RCCLTUNE_SIM_LIBRCCL names its file, and it runs
 * over the stand-in HIP runtime (../hip).  It makes communicators, asks the tuner and launches;
 * what its profiler interface then says ran is the decision, for which the node file has a time.
 */
#ifndef RCCLTUNE_SIM_REAL_H
#define RCCLTUNE_SIM_REAL_H

#include "rccl.h"

struct bench;

/* Whether a real library is named. */
bool real_is_wanted(void);

/* First of all, where one is: start this program again under the loader that the library needs (one
 * that lies beside it, or the system's), with the stand-in runtime before it. */
void real_restart(char **argv);

/* Load the library; its version, 22707. */
int real_open(const struct bench *bench);
void real_print_version(const struct bench *bench, const char *host);

/* Make this process's communicators; what is asked for and cannot be had here ends the program. */
void real_init(struct bench *bench);

/* Issue a call n times on this process's ranks of a communicator, in a graph where that is to be
 * launched; then tell what each of them ran. */
int real_issue(struct comm *comm, const struct call *call, int n_calls, int graph_launches);
int real_decide(struct comm *comm, int local, struct decision *decision);
/* rcclGetAlgoInfo, the question behind -A; as comm_explain. */
int real_explain(struct comm *comm, int local, const struct call *call, const char **algorithm,
                 const char **protocol, int *channels);
int real_destroy(struct comm *comm);
const char *real_last_error(void);

#endif

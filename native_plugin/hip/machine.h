/*
 * The simulated machine below a library: devices and how long their kernels take come from the
 * compiled node file that RCCLTUNE_SIM_NODE names; communicators of whatever library meet here, so
 * that all of their ranks must have launched the same.  The stand-in library (../sim) calls these
 * functions; for a real one its profiler interface says what was launched (profiler.c).
 */
#ifndef RCCLTUNE_HIP_MACHINE_H
#define RCCLTUNE_HIP_MACHINE_H

#include "../sim/node.h"
#include "hip.h"

/* The node, or NULL where no file is named or whoever loaded the runtime said its devices. */
EXPORT const struct node *rccltune_machine_node(void);

/* Which variants hold for a call from here on: for one that is captured into a graph, perhaps with
 * registered buffers, or for one that is not.  The environment counts as it is when the first
 * communicator is made. */
enum captured { NOT_CAPTURED, CAPTURED, CAPTURED_REGISTERED, N_CAPTURED };
EXPORT void rccltune_machine_manner(enum captured captured);

/* The host that a rank of so many plays on, and how many ranks each host has. */
EXPORT const char *rccltune_machine_host(int rank, int n_ranks);
EXPORT int rccltune_machine_ranks_a_host(int n_ranks);

/* A communicator, as one rank of it, this process's device, sees it. */
struct fabric;
struct fabric_call { /* what one kernel does */
    int collective, dtype, op, root, in_place;
    bool registered; /* its buffers, for a graph */
    size_t n_bytes;  /* as a tuner sees it */
    struct decision decision;
};
enum { FABRIC_DATA = 96 }; /* bytes of a rank that all others can read */

/* Draw its noise and faults; then meet all ranks that come with the same key.  The latter returns
 * a rank that has the same device, -1 where none has. */
EXPORT struct fabric *rccltune_fabric_prepare(int n_ranks, int rank);
EXPORT int rccltune_fabric_join(struct fabric *fabric, const char *key);
/* Waits for ever while a graph of this communicator is left, as NCCL does. */
EXPORT void rccltune_fabric_close(struct fabric *fabric, bool aborted);
EXPORT int rccltune_fabric_placement(const struct fabric *fabric);
EXPORT int rccltune_fabric_nodes(const struct fabric *fabric);
EXPORT int rccltune_fabric_ranks(const struct fabric *fabric);
EXPORT int rccltune_fabric_rank(const struct fabric *fabric);
/* Put a kernel on a stream: a HIP error. */
EXPORT int rccltune_fabric_put(struct fabric *fabric, const struct fabric_call *call, void *stream);
/* Barrier of its ranks; what each wrote is read until the turn. */
EXPORT void *rccltune_fabric_data(struct fabric *fabric, int rank);
EXPORT void rccltune_fabric_meet(struct fabric *fabric);
EXPORT void rccltune_fabric_turn(struct fabric *fabric);

/* Call `run` when the stream is waited for, in the order in which things were put on it; `release`
 * when neither the stream nor a graph needs `data` any more. */
EXPORT int rccltune_machine_defer(void *stream, void (*run)(void *), void (*release)(void *),
                                  void *data);
/* Where device memory lies in its file, which other processes open by this one's number; false for
 * what is no device memory of this process. */
EXPORT bool rccltune_machine_memory(const void *pointer, size_t size, int *file, size_t *at);
/* Make memory of a device zero again without touching it. */
EXPORT void rccltune_machine_clear(void *pointer, size_t size);

/* Of HIP's own, as the stand-in library calls them. */
EXPORT int hipGetDevice(int *device);
EXPORT int hipStreamIsCapturing(void *stream, int *status);
EXPORT int hipMalloc(void **pointer, size_t size);
EXPORT int hipFree(void *pointer);

/* Between the parts. */
struct node *hip_machine(void); /* the same, to change which variants hold */
double hip_simulated_seconds(void);
void hip_simulated_pass(double us); /* whatever all ranks spend alike */
void fabric_run(struct fabric *fabric, const struct fabric_call *call, void *stream, bool captured);
void fabric_wait(void *stream, bool all); /* meet for what was put on a stream */
void fabric_keep(struct fabric *fabric, int graphs);

#endif

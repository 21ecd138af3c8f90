/*
 * A stand-in for AMD's HIP runtime, under which the real RCCL and the stand-in library run without
 * a GPU.  Its devices are those of a node file, or said by whoever loads it; memory is the host's
 * and costs nothing until it is touched; kernels are noted and not run.  What the library imports
 * and is not made here fails, naming itself on stderr.
 *
 * Nothing here ever computes a collective: what RCCL decided to launch is all that comes out.
 */
#ifndef RCCLTUNE_HIP_H
#define RCCLTUNE_HIP_H

#include <stdbool.h>
#include <stdio.h>

#include "hip_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum { HIP_MAX_DEVICES = 64, HIP_MAX_OAMS = 8 };

/* The devices of one host. */
struct hip_node {
    int n_devices, per_oam; /* in the order of OAMs */
    int compute_units;      /* of one device */
    int64_t memory_mib;     /* of one device */
    char product[64], arch[16];
    bool has_nics; /* one an OAM, as several nodes need */
};

/* Work that a device was told to run. */
struct hip_ran {
    int n_collectives, n_point_to_point, n_launches; /* since rccltune_hip_forget */
    /* Of one of its collectives. */
    char algorithm[16], protocol[16]; /* the profiler's words: RING, SIMPLE; empty where none is */
    int channels;
    /* Of one of its kernels, empty where none is. */
    unsigned grid; /* blocks */
    const char *kernel;
};

/* The simulated benchmark's own calls; devices are said once, before the library is loaded.  Who
 * never says them has those of the node file (machine.h). */
EXPORT void rccltune_hip_devices(const struct hip_node *node);
EXPORT void rccltune_hip_forget(int device);
/* The collective and the kernel with this number, from 0. */
EXPORT void rccltune_hip_ran(int device, int number, struct hip_ran *ran);

/* The name under which RCCL reads the topology that each device would have found (NCCL_TOPO_FILE).
 */
#define HIP_TOPOLOGY_FILE "/simulated/topology.xml"
/* Of this thread's device; the text is the caller's to free, NULL without memory. */
EXPORT char *rccltune_hip_topology(void);

/* Devices of the node, hidden ones too; where one is on the PCI bus; whether OAMs are parted into
 * several. */
EXPORT int rccltune_hip_count(void);
EXPORT void rccltune_hip_address(int device, int *bus, int *function);
EXPORT bool rccltune_hip_is_parted(void);

/* Between the parts. */
const struct hip_node *hip_node(void);
/* A process that is told its devices by a node file sees those that the environment leaves it. */
void hip_set_devices(const struct hip_node *node, bool may_be_hidden);
void hip_note_collective(int device, const char *algorithm, const char *protocol, int channels);
void hip_note_point_to_point(int device);
void hip_note_kernel(int device, const char *name, unsigned grid);
int hip_current(void);       /* this thread's device, by its place on the node */
int hip_ordinal(int device); /* under which number this process sees it, or -1 */
int hip_fail(int error);
int hip_unmade(const char *name);
void hip_write_nic(FILE *out, int oam, int bus);

#endif

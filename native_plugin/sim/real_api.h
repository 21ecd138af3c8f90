/* The functions of the real library and of the stand-in HIP runtime that the benchmark calls. */
#ifndef RCCLTUNE_SIM_REAL_API_H
#define RCCLTUNE_SIM_REAL_API_H

#include <stddef.h>
#include <stdint.h>

#include "../hip/hip.h"

#define REAL_LIBRARY_VARIABLE "RCCLTUNE_SIM_LIBRCCL"
#define REAL_FOLDER_VARIABLE  "RCCLTUNE_SIM_HIP"

struct unique_id {
    uint64_t words[16];
};

/* RCCL's public interface (rccl.h of ROCm 7.2.4); an unscoped enum is an int. */
extern struct real_rccl {
    int (*get_version)(int *);
    int (*get_unique_id)(struct unique_id *);
    int (*comm_init_rank)(void **, int, struct unique_id, int);
    int (*comm_finalize)(void *);
    int (*comm_destroy)(void *);
    int (*comm_abort)(void *);
    const char *(*get_last_error)(void *);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
    int (*reduce_scatter)(const void *, void *, size_t, int, int, void *, void *);
    int (*all_gather)(const void *, void *, size_t, int, void *, void *);
    int (*broadcast)(const void *, void *, size_t, int, int, void *, void *);
    int (*reduce)(const void *, void *, size_t, int, int, int, void *, void *);
    int (*all_to_all)(const void *, void *, size_t, int, void *, void *);
    int (*comm_register)(void *, void *, size_t, void **);
    int (*window_register)(void *, void *, size_t, void **, int);
    /* Communicator, function, count, type, two that do not matter here, calls of a group;
     * algorithm, protocol, channels. */
    int (*get_algorithm)(void *, int, uint64_t, int, int, int, int, int *, int *, int *);
    int (*get_algorithm_name)(int, const char **);
    int (*get_protocol_name)(int, const char **);
} real_rccl;

extern struct real_hip {
    void (*devices)(const struct hip_node *);
    void (*forget)(int);
    void (*ran)(int, int, struct hip_ran *);
    int (*set_device)(int);
    int (*malloc)(void **, size_t);
    int (*stream)(void **, unsigned);
    int (*begin_capture)(void *, int);
    int (*end_capture)(void *, void **);
    int (*instantiate)(void **, void *, void **, char *, size_t);
    int (*launch_graph)(void *, void *);
    int (*destroy_graph)(void *);
    int (*destroy_instance)(void *);
} real_hip;

/* Find them; a library that does not load ends the program. */
void real_load(void);

#endif

/* What RCCL asks a plugin for by name and version, as far as the stand-in runtime answers: its
 * profiler interface, version 4, and its network interface, version 8. */
#ifndef RCCLTUNE_HIP_INTERFACES_H
#define RCCLTUNE_HIP_INTERFACES_H

#include "hip.h"

enum { EVENT_GROUP = 1, EVENT_COLLECTIVE = 1 << 1, EVENT_POINT_TO_POINT = 1 << 2 };

struct descriptor {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t number;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *dtype;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
        } collective;
        struct {
            const char *function;
            void *buffer;
            const char *dtype;
            size_t count;
            int peer;
            uint8_t channels;
        } point_to_point;
    } of;
};

EXPORT extern const struct profiler {
    const char *name;
    int (*start)(void **, int *, const char *, uint64_t, int, int, int, void *);
    int (*start_event)(void *, void **, struct descriptor *);
    int (*stop_event)(void *);
    int (*record_state)(void *, int, void *);
    int (*finalize)(void *);
} ncclProfiler_v4;

struct properties {
    char *name, *path;
    uint64_t guid;
    int pointers, registered_once, mbit_s, port;
    float latency;
    int most_connections, most_receives, kind, version;
};

EXPORT extern const struct network {
    const char *name;
    int (*init)(void *);
    int (*devices)(int *);
    int (*properties)(int, struct properties *);
    int (*listen)(int, void *, void **);
    int (*connect)(int, void *, void **, void **);
    int (*accept)(void *, void **, void **);
    int (*register_memory)(void *, void *, size_t, int, void **);
    int (*register_file)(void *, void *, size_t, int, uint64_t, int, void **);
    int (*forget_memory)(void *, void *);
    int (*send)(void *, void *, int, int, void *, void **);
    int (*receive)(void *, int, void **, int *, int *, void **, void **);
    int (*flush)(void *, int, void **, int *, void **, void **);
    int (*test)(void *, int *, int *);
    int (*close_send)(void *);
    int (*close_receive)(void *);
    int (*close_listen)(void *);
    int (*device_memory)(void *, void *, void **);
    int (*consumed)(void *, int, void *);
} ncclNetPlugin_v8;

#endif

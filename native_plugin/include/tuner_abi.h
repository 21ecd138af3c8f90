/*
 * The tuner interface of NCCL and RCCL, versions 2 to 7, in our own words.
 *
 * A host library looks up one exported object per version, `ncclTunerPlugin_v<N>`, newest first,
 * and calls through it.  No host header is included, because one binary has to serve hosts whose
 * headers contradict each other; what must not drift is pinned by the assertions below.
 *
 * Facts: NCCL 2.30.7 src/include/plugin/tuner/tuner_v{2..6}.h (member order and signatures), NCCL
 * 2.32.6 (commit 2449986f) tuner_v7.h, RCCL 2.21.5 and 2.28.3 (the same layouts).  v2 is what RCCL
 * 2.21.5 (ROCm 6.3) asks for, v3 2.22.3 (6.4), v4 2.26.6 and 2.27.7 (7.0 to 7.2), v5 2.28.3, v6
 * 2.30 and later; v7 is what NCCL 2.32.6 asks for first, and no RCCL that was seen.
 */
#ifndef RCCLTUNE_TUNER_ABI_H
#define RCCLTUNE_TUNER_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Results a host understands (ncclResult_t), as far as we return them. */
enum abi_result {
    ABI_SUCCESS = 0,
    ABI_SYSTEM_ERROR = 2,
    ABI_INVALID_USAGE = 5,
};

/* Collectives that keep their number in every release (ncclFunc_t 0..4).  Above 4 the meaning of a
 * number depends on the release, so those calls are never answered. */
enum abi_collective {
    ABI_BROADCAST = 0,
    ABI_REDUCE = 1,
    ABI_ALL_GATHER = 2,
    ABI_REDUCE_SCATTER = 3,
    ABI_ALL_REDUCE = 4,
    ABI_N_COLLECTIVES = 5,
};

/* The host's logger.  We never call it: its level numbers moved (INFO is 3 in NCCL and older RCCL,
 * 4 in newer RCCL, where 3 prints as a warning), so no number is right everywhere. */
typedef void (*abi_logger)(int level, unsigned long subsystems, const char *file, int line,
                           const char *format, ...);

/* Handed to init from v5 on.  None is read nor written: RCCL appends members to the constants
 * without a new version, and the model that they tune is the host's business.  Those of v7 are
 * another type, so that nobody hands one on as the other: each table by compute capability has five
 * rows there and four before, which moves all but the first two members. */
struct abi_nvl_domain_info;
struct abi_tuner_constants;
struct abi_tuner_constants_v7;

/* Version 2: the answer is a setting, which RCCL 2.21.5 uses without checking it. */
struct abi_tuner_v2 {
    const char *name;
    int (*init)(size_t n_ranks, size_t n_nodes, abi_logger logger, void **context);
    int (*get_coll_info)(void *context, int collective, size_t n_bytes, int collnet_support,
                         int nvls_support, int n_pipe_ops, int *algorithm, int *protocol,
                         int *n_channels);
    int (*destroy)(void *context);
};

/* Version 3: the answer is an edit of the cost table, float[n_algorithms][n_protocols] row by row,
 * passed as float** although it is no array of pointers. */
struct abi_tuner_v3 {
    const char *name;
    int (*init)(size_t n_ranks, size_t n_nodes, abi_logger logger, void **context);
    int (*get_coll_info)(void *context, int collective, size_t n_bytes, int n_pipe_ops,
                         float **cost_table, int n_algorithms, int n_protocols, int *n_channels);
    int (*destroy)(void *context);
};

/* Version 4: version 3 plus whether the user's buffers are registered. */
struct abi_tuner_v4 {
    const char *name;
    int (*init)(size_t n_ranks, size_t n_nodes, abi_logger logger, void **context);
    int (*get_coll_info)(void *context, int collective, size_t n_bytes, int n_pipe_ops,
                         float **cost_table, int n_algorithms, int n_protocols, int reg_buff,
                         int *n_channels);
    int (*destroy)(void *context);
};

/* Version 5: init gets the communicator's id and the model's constants; destroy is called finalize.
 */
struct abi_tuner_v5 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes, abi_logger logger,
                struct abi_nvl_domain_info *nvl_domain, struct abi_tuner_constants *constants);
    int (*get_coll_info)(void *context, int collective, size_t n_bytes, int n_pipe_ops,
                         float **cost_table, int n_algorithms, int n_protocols, int reg_buff,
                         int *n_channels);
    int (*finalize)(void *context);
};

/* Version 6: version 5 plus an optional chunk size per channel.  We leave it NULL. */
struct abi_tuner_v6 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes, abi_logger logger,
                struct abi_nvl_domain_info *nvl_domain, struct abi_tuner_constants *constants);
    int (*get_coll_info)(void *context, int collective, size_t n_bytes, int n_pipe_ops,
                         float **cost_table, int n_algorithms, int n_protocols, int reg_buff,
                         int *n_channels);
    int (*finalize)(void *context);
    int (*get_chunk_size)(void *context, int collective, size_t n_bytes, int algorithm,
                          int protocol, int n_channels, size_t *chunk_size);
};

/* Version 7: version 6 with the wider constants. */
struct abi_tuner_v7 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes, abi_logger logger,
                struct abi_nvl_domain_info *nvl_domain, struct abi_tuner_constants_v7 *constants);
    int (*get_coll_info)(void *context, int collective, size_t n_bytes, int n_pipe_ops,
                         float **cost_table, int n_algorithms, int n_protocols, int reg_buff,
                         int *n_channels);
    int (*finalize)(void *context);
    int (*get_chunk_size)(void *context, int collective, size_t n_bytes, int algorithm,
                          int protocol, int n_channels, size_t *chunk_size);
};

#define ABI_ASSERT_LAYOUT(version, last, members)                                                  \
    _Static_assert(offsetof(struct abi_tuner_##version, name) == 0, #version ": name");            \
    _Static_assert(offsetof(struct abi_tuner_##version, init) == 1 * sizeof(void *),               \
                   #version ": init");                                                             \
    _Static_assert(offsetof(struct abi_tuner_##version, get_coll_info) == 2 * sizeof(void *),      \
                   #version ": get_coll_info");                                                    \
    _Static_assert(offsetof(struct abi_tuner_##version, last) == 3 * sizeof(void *),               \
                   #version ": " #last);                                                           \
    _Static_assert(sizeof(struct abi_tuner_##version) == (members) * sizeof(void *),               \
                   #version ": size")

ABI_ASSERT_LAYOUT(v2, destroy, 4);
ABI_ASSERT_LAYOUT(v3, destroy, 4);
ABI_ASSERT_LAYOUT(v4, destroy, 4);
ABI_ASSERT_LAYOUT(v5, finalize, 4);
ABI_ASSERT_LAYOUT(v6, finalize, 5);
ABI_ASSERT_LAYOUT(v7, finalize, 5);
_Static_assert(offsetof(struct abi_tuner_v6, get_chunk_size) == 4 * sizeof(void *),
               "v6: chunk size");
_Static_assert(offsetof(struct abi_tuner_v7, get_chunk_size) == 4 * sizeof(void *),
               "v7: chunk size");
_Static_assert(sizeof(int) == 4 && sizeof(float) == 4,
               "the hosts' enums and cost cells are 32 bits");

#endif

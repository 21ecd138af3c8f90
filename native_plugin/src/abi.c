/*
 * One thin adapter per ABI version.  What they have in common: getCollInfo never fails (hosts turn
 * a failure into a failed collective, whatever the header's comment says), a call that matches
 * nothing writes nothing, and a winning cell becomes exactly 0.0f (RCCL 2.28.3+ tells by `== 0.0`
 * that a tuner decided, and then leaves the protocol alone).
 */
#include "tuner_abi.h"

#include "answer.h"
#include "names.h"
#include "plugin.h"

#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static const char plugin_name[] = "rccltune";

/* Versions 2 and 3 cannot say whether buffers are registered.  RCCL 2.21.5 (ROCm 6.3) registers
 * none: all of it stands under CUDART_VERSION >= 11030 (src/enqueue.cc:666). */
enum { NOT_REGISTERED = 0 };

/* Hosts hand over their own logger, ncclDebugLog, which lies in the library (tuner->init in
 * src/init.cc of NCCL 2.21.5 to 2.30.7; the real RCCL 2.27.7 was tried). */
static const void *address_of(abi_logger logger)
{
    const void *address = NULL;
    memcpy(&address, &logger, sizeof address);
    return address;
}

static int start(const struct plugin_comm *comm, void **context)
{
    struct plugin *plugin = NULL;
    if (context == NULL) {
        return ABI_INVALID_USAGE;
    }
    enum plugin_status status = plugin_init(comm, &plugin);
    *context = plugin;
    switch (status) {
    case PLUGIN_WRONG:
        return ABI_INVALID_USAGE;
    case PLUGIN_UNSURE:
        return ABI_SYSTEM_ERROR;
    case PLUGIN_READY:
        break;
    }
    return ABI_SUCCESS;
}

static int init_v2(size_t n_ranks, size_t n_nodes, abi_logger logger, void **context)
{
    struct plugin_comm comm = {
        .abi = 2, .n_nodes = n_nodes, .n_ranks = n_ranks, .host = address_of(logger)};
    return start(&comm, context);
}

static int init_v3(size_t n_ranks, size_t n_nodes, abi_logger logger, void **context)
{
    struct plugin_comm comm = {
        .abi = 3, .n_nodes = n_nodes, .n_ranks = n_ranks, .host = address_of(logger)};
    return start(&comm, context);
}

static int init_v4(size_t n_ranks, size_t n_nodes, abi_logger logger, void **context)
{
    struct plugin_comm comm = {
        .abi = 4, .n_nodes = n_nodes, .n_ranks = n_ranks, .host = address_of(logger)};
    return start(&comm, context);
}

static int init_v5(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,
                   abi_logger logger, struct abi_nvl_domain_info *nvl_domain,
                   struct abi_tuner_constants *constants)
{
    (void)nvl_domain;
    (void)constants;
    struct plugin_comm comm = {5, true, comm_id, n_nodes, n_ranks, address_of(logger)};
    return start(&comm, context);
}

static int init_v6(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,
                   abi_logger logger, struct abi_nvl_domain_info *nvl_domain,
                   struct abi_tuner_constants *constants)
{
    (void)nvl_domain;
    (void)constants;
    struct plugin_comm comm = {6, true, comm_id, n_nodes, n_ranks, address_of(logger)};
    return start(&comm, context);
}

static int init_v7(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,
                   abi_logger logger, struct abi_nvl_domain_info *nvl_domain,
                   struct abi_tuner_constants_v7 *constants)
{
    (void)nvl_domain;
    (void)constants;
    struct plugin_comm comm = {7, true, comm_id, n_nodes, n_ranks, address_of(logger)};
    return start(&comm, context);
}

static void set_channels(const struct candidate *rule, int *n_channels)
{
    if (n_channels != NULL && rule->channels >= 1) {
        *n_channels = rule->channels;
    }
}

/*
 * Version 2 hosts use an answer as it is: no cost table, no check (RCCL 2.21.5 src/enqueue.cc).
 * Only what every GPU and topology runs is given there, expressed as a table of our own so that the
 * rest of the plugin need not know.
 */
static int get_v2(void *context, int collective, size_t n_bytes, int collnet_support,
                  int nvls_support, int n_pipe_ops, int *algorithm, int *protocol, int *n_channels)
{
    float cells[2][N_KNOWN_PROTOCOLS] = {
        [ALGORITHM_TREE] = {collective == ABI_ALL_REDUCE ? 1.0F : -1.0F, -1.0F, -1.0F},
        [ALGORITHM_RING] = {1.0F, -1.0F, 1.0F},
    };
    const struct plugin_call call = {collective, n_bytes, n_pipe_ops,       NOT_REGISTERED,
                                     cells[0],   2,       N_KNOWN_PROTOCOLS};
    (void)collnet_support;
    (void)nvls_support;
    if (algorithm == NULL || protocol == NULL) {
        return ABI_SUCCESS;
    }
    const struct candidate *rule = plugin_decide(context, &call);
    if (rule != NULL) {
        if (rule->algorithm != LEAVE_TO_HOST) {
            *algorithm = rule->algorithm;
            *protocol = rule->protocol;
        }
        set_channels(rule, n_channels);
    }
    return ABI_SUCCESS;
}

static int get_v4(void *context, int collective, size_t n_bytes, int n_pipe_ops, float **cost_table,
                  int n_algorithms, int n_protocols, int reg_buff, int *n_channels)
{
    float *cells = (float *)(void *)cost_table; /* the hosts' cast, undone */
    const struct plugin_call call = {collective, n_bytes,      n_pipe_ops, reg_buff,
                                     cells,      n_algorithms, n_protocols};
    const struct candidate *rule = plugin_decide(context, &call);
    if (rule != NULL) {
        if (rule->algorithm != LEAVE_TO_HOST) {
            cells[(size_t)rule->algorithm * (size_t)n_protocols + (size_t)rule->protocol] = 0.0F;
        }
        set_channels(rule, n_channels);
    }
    return ABI_SUCCESS;
}

static int get_v3(void *context, int collective, size_t n_bytes, int n_pipe_ops, float **cost_table,
                  int n_algorithms, int n_protocols, int *n_channels)
{
    return get_v4(context, collective, n_bytes, n_pipe_ops, cost_table, n_algorithms, n_protocols,
                  NOT_REGISTERED, n_channels);
}

static int finish(void *context)
{
    plugin_finalize(context);
    return ABI_SUCCESS;
}

/* Declared first, so that -Wmissing-variable-declarations holds for the rest of the project. */
extern const struct abi_tuner_v2 ncclTunerPlugin_v2;
extern const struct abi_tuner_v3 ncclTunerPlugin_v3;
extern const struct abi_tuner_v4 ncclTunerPlugin_v4;
extern const struct abi_tuner_v5 ncclTunerPlugin_v5;
extern const struct abi_tuner_v6 ncclTunerPlugin_v6;
extern const struct abi_tuner_v7 ncclTunerPlugin_v7;

EXPORT const struct abi_tuner_v2 ncclTunerPlugin_v2 = {plugin_name, init_v2, get_v2, finish};
EXPORT const struct abi_tuner_v3 ncclTunerPlugin_v3 = {plugin_name, init_v3, get_v3, finish};
EXPORT const struct abi_tuner_v4 ncclTunerPlugin_v4 = {plugin_name, init_v4, get_v4, finish};
EXPORT const struct abi_tuner_v5 ncclTunerPlugin_v5 = {plugin_name, init_v5, get_v4, finish};
/* No chunk sizes: hosts ask for them per channel slice, which no rule speaks of. */
EXPORT const struct abi_tuner_v6 ncclTunerPlugin_v6 = {plugin_name, init_v6, get_v4, finish, NULL};
EXPORT const struct abi_tuner_v7 ncclTunerPlugin_v7 = {plugin_name, init_v7, get_v4, finish, NULL};

EXPORT int rccltune_answer_v1(const struct rccltune_answer *answer)
{
    return answer_tell(answer) ? 0 : -1;
}

EXPORT void rccltune_asked_v1(struct rccltune_asked *asked, int forget)
{
    answer_read(asked, forget != 0);
}

EXPORT void rccltune_questions_v1(uint64_t *all, uint64_t *counted)
{
    answer_questions(all, counted);
}

EXPORT double rccltune_cost_v1(void)
{
    enum { N_ALGORITHMS = 7, N_PROTOCOLS = 3, N_REPEATS = 1000, FIRST_SIZE = 10, LAST_SIZE = 26 };
    struct plugin *plugin = plugin_as_in_a_job();
    float cells[N_ALGORITHMS * N_PROTOCOLS]; /* what is answered becomes 0, and stays selectable */
    struct timespec began;
    struct timespec ended;
    long n_calls = 0;
    if (plugin == NULL) {
        return -1;
    }
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        cells[i] = 1.0F;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    for (int repeat = 0; repeat < N_REPEATS; repeat++) {
        for (int collective = 0; collective < TABLE_N_COLLECTIVES; collective++) {
            for (int size = FIRST_SIZE; size <= LAST_SIZE; size++) {
                int n_channels = 0;
                (void)get_v4(plugin, collective, (size_t)1 << size, 1, (float **)(void *)cells,
                             N_ALGORITHMS, N_PROTOCOLS, NOT_REGISTERED, &n_channels);
                n_calls++;
            }
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    return (1e9 * (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec)) /
           (double)n_calls;
}

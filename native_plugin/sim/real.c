#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../hip/hip.h"

static const char library_variable[] = "RCCLTUNE_SIM_LIBRCCL",
                  folder_variable[] = "RCCLTUNE_SIM_HIP";

struct unique_id {
    uint64_t words[16];
};

/* RCCL's public interface (rccl.h of ROCm 7.2.4); an unscoped enum is an int. */
static struct {
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
    /* Communicator, function, count, type, two that do not matter here, calls of a group;
     * algorithm, protocol, channels. */
    int (*get_algorithm)(void *, int, uint64_t, int, int, int, int, int *, int *, int *);
    int (*get_algorithm_name)(int, const char **);
    int (*get_protocol_name)(int, const char **);
} rccl;

static struct {
    void (*devices)(const struct hip_node *);
    void (*forget)(int);
    void (*ran)(int, struct hip_ran *);
    int (*set_device)(int);
    int (*malloc)(void **, size_t);
    int (*stream)(void **, unsigned);
} hip;

/* A communicator's ranks in this process. */
struct real_comm {
    struct real_rank {
        void *comm, *stream;
        char *send, *receive;
        int device;
        int next; /* of the decisions below */
        struct decision *decisions;
    } * ranks;
    int room; /* decisions of a rank */
};

bool real_is_wanted(void)
{
    const char *file = getenv(library_variable);
    return file != NULL && *file != '\0';
}

static void folder_of(const char *file, char *folder, size_t size)
{
    const char *slash = strrchr(file, '/');
    int length = slash != NULL ? (int)(slash - file) : 0;
    if (length == 0 || (size_t)length >= size)
        sim_fail("%s is no absolute path", file);
    snprintf(folder, size, "%.*s", length, file);
}

void real_restart(char **argv)
{
    char self[PATH_MAX], folder[PATH_MAX], beside[PATH_MAX], path[2 * PATH_MAX],
        loader[PATH_MAX + 32], preload[PATH_MAX + 32];
    if (!real_is_wanted() || getenv(folder_variable) != NULL)
        return;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        sim_fail("cannot read /proc/self/exe: %s", strerror(errno));
    self[length] = '\0';
    folder_of(self, beside, sizeof beside); /* …/_native/sim, or …/_native */
    folder_of(beside, folder, sizeof folder);
    strncat(folder, "/hip", sizeof folder - strlen(folder) - 1);
    folder_of(getenv(library_variable), beside, sizeof beside);
    snprintf(path, sizeof path, "%s:%s", folder, beside);
    snprintf(preload, sizeof preload, "%s/zero_pages.so", folder);
    snprintf(loader, sizeof loader, "%s/ld-linux-x86-64.so.2", beside);
    const char *interpreter = access(loader, X_OK) == 0 ? loader : "/lib64/ld-linux-x86-64.so.2";
    if (access(preload, R_OK) != 0)
        sim_fail("the stand-in HIP runtime is not built (%s)", preload);
    size_t n = 0;
    while (argv[n] != NULL)
        n++;
    char **again = calloc(n + 8, sizeof *again);
    if (again == NULL || setenv(folder_variable, folder, 1) != 0)
        sim_fail("no memory to start again");
    char *const start[] = {
        (char *)(uintptr_t)interpreter, "--library-path", path, "--preload", preload, self};
    memcpy(again, start, sizeof start);
    memcpy(again + sizeof start / sizeof *start, argv + 1, n * sizeof *argv);
    execv(interpreter, again);
    sim_fail("cannot start %s: %s", interpreter, strerror(errno));
}

static void *look_up(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        sim_fail("%s: %s", getenv(library_variable), dlerror());
    return found;
}

/* POSIX lets dlsym give functions; ISO C has no cast for it. */
#define FIND(library, member, name)                                                                \
    memcpy(&(member), &(void *){look_up(library, name)}, sizeof(void *))

static void load(void)
{
    const char *file = getenv(library_variable);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        sim_fail("the library does not load over the stand-in HIP runtime: %s", dlerror());
    FIND(library, rccl.get_version, "ncclGetVersion");
    FIND(library, rccl.get_unique_id, "ncclGetUniqueId");
    FIND(library, rccl.comm_init_rank, "ncclCommInitRank");
    FIND(library, rccl.comm_finalize, "ncclCommFinalize");
    FIND(library, rccl.comm_destroy, "ncclCommDestroy");
    FIND(library, rccl.comm_abort, "ncclCommAbort");
    FIND(library, rccl.get_last_error, "ncclGetLastError");
    FIND(library, rccl.group_start, "ncclGroupStart");
    FIND(library, rccl.group_end, "ncclGroupEnd");
    FIND(library, rccl.all_reduce, "ncclAllReduce");
    FIND(library, rccl.reduce_scatter, "ncclReduceScatter");
    FIND(library, rccl.all_gather, "ncclAllGather");
    FIND(library, rccl.broadcast, "ncclBroadcast");
    FIND(library, rccl.reduce, "ncclReduce");
    FIND(library, rccl.get_algorithm, "rcclGetAlgoInfo");
    FIND(library, rccl.get_algorithm_name, "rcclGetAlgoName");
    FIND(library, rccl.get_protocol_name, "rcclGetProtocolName");
    FIND(RTLD_DEFAULT, hip.devices, "rccltune_hip_devices");
    FIND(RTLD_DEFAULT, hip.forget, "rccltune_hip_forget");
    FIND(RTLD_DEFAULT, hip.ran, "rccltune_hip_ran");
    FIND(RTLD_DEFAULT, hip.set_device, "hipSetDevice");
    FIND(RTLD_DEFAULT, hip.malloc, "hipMalloc");
    FIND(RTLD_DEFAULT, hip.stream, "hipStreamCreateWithFlags");
}

static void check(const struct bench *bench)
{
    const struct node *node = &bench->node;
    const struct options *o = &bench->options;
    int devices = node->ranks / node->nodes;
    if (bench->collective >= N_TUNABLE)
        sim_fail("over the real library only collectives that ask a tuner run, not %s",
                 collective_names[bench->collective]);
    if (o->graph > 0 || o->agg_iters > 1 || o->registered > 0)
        sim_fail("over the real library there is no -G, -m or -R");
    if (bench->n_nodes > 1 && bench->n_local > bench->n_ranks / bench->n_nodes)
        sim_fail("ranks of several hosts cannot be one process over the real library: it tells "
                 "hosts apart by process");
    if (devices > HIP_MAX_DEVICES || devices > HIP_MAX_OAMS * node->devices_per_oam)
        sim_fail("the stand-in HIP runtime has at most %d devices on %d OAMs", HIP_MAX_DEVICES,
                 HIP_MAX_OAMS);
    for (int i = 0; i < node->n_faults; i++) {
        int kind = node->faults[i].kind;
        if (kind == FAULT_NO_PLUGIN || kind == FAULT_NO_FILE || kind == FAULT_SUBSTITUTE ||
            kind == FAULT_DIFFERS)
            sim_fail("the node's faults would change what the real library does");
    }
}

int real_open(const struct bench *bench)
{
    const struct node *node = &bench->node;
    const char *folder = getenv(folder_variable);
    char runtime[PATH_MAX + 32];
    int version = 0;
    check(bench);
    snprintf(runtime, sizeof runtime, "%s/libamdhip64.so.7", folder != NULL ? folder : "");
    setenv("NCCL_PROFILER_PLUGIN", runtime, 1);
    setenv("RCCL_USE_ROCM_SMI_LIB", "1", 1);
    if (bench->n_nodes > 1) {
        char host[48];
        setenv("NCCL_NET_PLUGIN", runtime, 1);
        setenv("NCCL_HOSTID", host_of(bench, bench->first_rank, host, sizeof host), 1);
    }
    setenv("NCCL_TOPO_FILE", HIP_TOPOLOGY_FILE, 0); /* a site's own counts */
    load();
    struct hip_node devices = {.n_devices = node->ranks / node->nodes,
                               .per_oam = node->devices_per_oam,
                               .compute_units = node->compute_units,
                               .memory_mib = node->memory_mib,
                               .has_nics = bench->n_nodes > 1};
    snprintf(devices.product, sizeof devices.product, "%s", node->product);
    snprintf(devices.arch, sizeof devices.arch, "%s", node->arch);
    hip.devices(&devices);
    if (rccl.get_version(&version) != NCCL_SUCCESS)
        sim_fail("%s does not tell its version", getenv(library_variable));
    return version;
}

/* In every log, so that nobody takes the times for a measurement of hardware. */
void real_print_version(const struct bench *bench, const char *host)
{
    int v = bench->library.version;
    printf("# SIMULATED times; RCCL %d.%d.%d, real: %s (%s, simulated node %s)\n", v / 10000,
           v / 100 % 100, v % 100, getenv(library_variable), host, bench->node.name);
}

/* The process of a communicator's first rank makes its id; everybody reads it out of that slot. */
static void exchange_ids(struct bench *bench, struct unique_id ids[MAX_GROUPS])
{
    bool is_maker[MAX_GROUPS] = {0};
    for (int c = 0; c < bench->n_comms; c++) {
        int first = bench->members[c][0];
        is_maker[c] = first >= bench->first_rank && first < bench->first_rank + bench->n_local;
        if (is_maker[c] && rccl.get_unique_id(&ids[c]) != NCCL_SUCCESS)
            test_failure(bench, NCCL_SYSTEM_ERROR, real_last_error());
    }
    for (int word = 0; word < 16; word++) {
        for (int c = 0; c < bench->n_comms; c++) {
            if (is_maker[c])
                meet_slot(bench->members[c][0])->digest = ids[c].words[word];
        }
        meet(0);
        for (int c = 0; c < bench->n_comms; c++)
            ids[c].words[word] = meet_slot(bench->members[c][0])->digest;
        meet_turn();
    }
}

static void make_room(struct bench *bench, struct comm *comm)
{
    size_t bytes = bench->options.max_bytes + 4096;
    comm->real = calloc(1, sizeof *comm->real);
    if (comm->real != NULL)
        comm->real->ranks = calloc((size_t)comm->n_local, sizeof *comm->real->ranks);
    if (comm->real == NULL || comm->real->ranks == NULL)
        sim_fail("no memory for %d ranks", comm->n_local);
    for (int i = 0; i < comm->n_local; i++) {
        struct real_rank *rank = &comm->real->ranks[i];
        rank->device = device_of(bench, comm->world_ranks[i]);
        if (hip.set_device(rank->device) != 0 || hip.malloc((void **)&rank->send, bytes) != 0 ||
            hip.malloc((void **)&rank->receive, bytes) != 0 || hip.stream(&rank->stream, 1) != 0)
            sim_fail("no simulated memory for %zu bytes on device %d", bytes, rank->device);
    }
}

void real_init(struct bench *bench)
{
    static struct unique_id ids[MAX_GROUPS];
    exchange_ids(bench, ids);
    int result = rccl.group_start();
    for (int c = 0; c < bench->n_comms; c++) {
        struct comm *comm = &bench->comms[c];
        comm->library = &bench->library;
        make_room(bench, comm);
        for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS; i++) {
            hip.set_device(comm->real->ranks[i].device);
            result = rccl.comm_init_rank(&comm->real->ranks[i].comm, comm->n_ranks, ids[c],
                                         comm->ranks[i]);
        }
    }
    int ended = rccl.group_end();
    result = result != NCCL_SUCCESS ? result : ended;
    if (result != NCCL_SUCCESS)
        test_failure(bench, result, real_last_error());
}

static int issue(const struct comm *comm, int local, const struct call *call)
{
    const struct real_rank *rank = &comm->real->ranks[local];
    size_t count = call->count_bytes / (size_t)dtype_bytes[call->dtype];
    char *send = rank->send, *receive = rank->receive;
    /* As rccl-tests: in place a rank's own part of the larger buffer is the smaller one. */
    if (call->in_place) {
        size_t offset = call->count_bytes * (size_t)comm->ranks[local];
        send = receive;
        if (call->collective == COLL_ALL_GATHER)
            send += offset;
        if (call->collective == COLL_REDUCE_SCATTER)
            receive += offset;
    }
    switch (call->collective) {
    case COLL_ALL_REDUCE:
        return rccl.all_reduce(send, receive, count, call->dtype, call->op, rank->comm,
                               rank->stream);
    case COLL_ALL_GATHER:
        return rccl.all_gather(send, receive, count, call->dtype, rank->comm, rank->stream);
    case COLL_REDUCE_SCATTER:
        return rccl.reduce_scatter(send, receive, count, call->dtype, call->op, rank->comm,
                                   rank->stream);
    case COLL_BROADCAST:
        return rccl.broadcast(send, receive, count, call->dtype, 0, rank->comm, rank->stream);
    default:
        return rccl.reduce(send, receive, count, call->dtype, call->op, 0, rank->comm,
                           rank->stream);
    }
}

/* Channels that the node's default count would shrink to; fewer ran only where fewer were asked
 * for, or where the library has fewer than the node file believes. */
static int usual_channels(const struct comm *comm, const struct call *call, int algorithm,
                          int protocol)
{
    static const int64_t bytes_a_thread[N_PROTOCOLS] = {8, 8, 64}, threads = 256, cell = 16384;
    int64_t bytes = (int64_t)call->n_bytes, usual = comm->library->node->channels;
    int64_t least = threads * bytes_a_thread[protocol];
    if (algorithm == ALGO_RING && protocol == PROTO_LL)
        least *= comm->n_ranks;
    if (bytes / least < usual)
        usual = bytes / least;
    int64_t traffic = bytes * (call->collective == COLL_ALL_REDUCE ? 2 : 1);
    if (protocol == PROTO_LL)
        traffic *= 4;
    int64_t cells = (traffic + cell - 1) / cell;
    if (usual < 1 || cells < 1)
        return 1;
    int64_t each = (cells + usual - 1) / usual;
    return (int)((cells + each - 1) / each);
}

static struct decision decision_of(const struct comm *comm, const struct call *call,
                                   const struct hip_ran *ran)
{
    int algorithm =
        find_name_any_case(ran->algorithm, strlen(ran->algorithm), algorithm_titles, N_ALGORITHMS);
    int protocol =
        find_name_any_case(ran->protocol, strlen(ran->protocol), protocol_titles, N_PROTOCOLS);
    if (ran->n_collectives == 0) {
        if (ran->n_point_to_point == 0 && strstr(ran->kernel, "msccl") == NULL)
            sim_fail("the real library did not say what it ran for %s of %zu bytes (kernel '%s')",
                     collective_names[call->collective], call->n_bytes, ran->kernel);
        return (struct decision){
            .path = ran->n_point_to_point > 0 ? PATH_DIRECT : PATH_MSCCL,
            .channels = (uint8_t)ran->grid,
        };
    }
    if (algorithm < 0 || protocol < 0)
        sim_fail("the real library ran %s with %s, which no node file knows", ran->algorithm,
                 ran->protocol);
    bool fewer = ran->channels < usual_channels(comm, call, algorithm, protocol);
    return (struct decision){
        .path = PATH_TUNED,
        .algorithm = (uint8_t)algorithm,
        .protocol = (uint8_t)protocol,
        .channels = (uint8_t)ran->channels,
        .cap = (uint8_t)(fewer ? ran->channels : 0),
    };
}

static void make_decisions(struct comm *comm, int n_calls)
{
    for (int i = 0; i < comm->n_local && n_calls > comm->real->room; i++) {
        struct real_rank *rank = &comm->real->ranks[i];
        free(rank->decisions);
        rank->decisions = calloc((size_t)n_calls, sizeof *rank->decisions);
        if (rank->decisions == NULL)
            sim_fail("no memory for %d decisions", n_calls);
    }
    if (n_calls > comm->real->room)
        comm->real->room = n_calls;
}

int real_issue(struct comm *comm, const struct call *call, int n_calls)
{
    int result = NCCL_SUCCESS;
    make_decisions(comm, n_calls);
    for (int i = 0; i < comm->n_local; i++)
        comm->real->ranks[i].next = 0;
    for (int n = 0; n < n_calls && result == NCCL_SUCCESS && call->n_bytes > 0; n++) {
        if (comm->n_local > 1)
            result = rccl.group_start();
        for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS; i++) {
            hip.forget(comm->real->ranks[i].device);
            result = issue(comm, i, call);
        }
        if (comm->n_local > 1 && result == NCCL_SUCCESS)
            result = rccl.group_end();
        for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS && comm->n_ranks > 1; i++) {
            struct hip_ran ran;
            hip.ran(comm->real->ranks[i].device, &ran);
            struct decision decision = decision_of(comm, call, &ran);
            comm->real->ranks[i].decisions[n] = decision;
            tell_ran(comm, i, &decision, call, (int)ran.grid);
        }
    }
    return result;
}

int real_decide(struct comm *comm, int local, struct decision *decision)
{
    struct real_rank *rank = &comm->real->ranks[local];
    *decision = rank->decisions[rank->next++];
    return NCCL_SUCCESS;
}

int real_explain(struct comm *comm, int local, const struct call *call, const char **algorithm,
                 const char **protocol, int *channels)
{
    int a = -1, p = -1;
    hip.set_device(comm->real->ranks[local].device);
    int result = rccl.get_algorithm(comm->real->ranks[local].comm, call->collective,
                                    call->count_bytes / (size_t)dtype_bytes[call->dtype],
                                    call->dtype, 0, 0, 1, &a, &p, channels);
    if (result != NCCL_SUCCESS || rccl.get_algorithm_name(a, algorithm) != NCCL_SUCCESS ||
        rccl.get_protocol_name(p, protocol) != NCCL_SUCCESS)
        *algorithm = *protocol = "N/A";
    return result;
}

int real_destroy(struct comm *comm)
{
    /* Between hosts the library would wait until all data had been sent, and nothing sends any. */
    bool waits = comm->n_nodes > 1;
    int result = rccl.group_start();
    for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS && !waits; i++)
        result = rccl.comm_finalize(comm->real->ranks[i].comm);
    int ended = rccl.group_end();
    result = result != NCCL_SUCCESS ? result : ended;
    for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS; i++)
        result = (waits ? rccl.comm_abort : rccl.comm_destroy)(comm->real->ranks[i].comm);
    for (int i = 0; i < comm->n_local; i++)
        free(comm->real->ranks[i].decisions);
    free(comm->real->ranks);
    free(comm->real);
    comm->real = NULL;
    return result;
}

const char *real_last_error(void)
{
    return rccl.get_last_error(NULL);
}

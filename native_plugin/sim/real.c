#include "real.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "real_api.h"

/* A communicator's ranks in this process. */
struct real_comm {
    struct real_rank {
        void *comm, *stream, *graph, *instance;
        char *send, *receive;
        int device;
        int next; /* of the decisions below */
        struct decision *decisions;
    } * ranks;
    int room; /* decisions of a rank */
};

static void check(const struct bench *bench)
{
    const struct node *node = &bench->node;
    int devices = node->ranks / node->nodes;
    if (bench->collective > COLL_ALLTOALL)
        sim_fail("over the real library there is no %s", collective_names[bench->collective]);
    if (bench->n_nodes > 1 && bench->n_local > bench->n_ranks / bench->n_nodes)
        sim_fail("ranks of several hosts cannot be one process over the real library: it tells "
                 "hosts apart by process");
    if (devices > HIP_MAX_DEVICES || devices > HIP_MAX_OAMS * node->devices_per_oam)
        sim_fail("the stand-in HIP runtime has at most %d devices on %d OAMs", HIP_MAX_DEVICES,
                 HIP_MAX_OAMS);
    for (int i = 0; i < node->n_faults; i++) {
        int kind = node->faults[i].kind;
        if (kind == FAULT_NO_PLUGIN || kind == FAULT_NO_FILE || kind == FAULT_SUBSTITUTE)
            sim_fail("the node's faults would change what the real library does");
    }
}

int real_open(const struct bench *bench)
{
    const struct node *node = &bench->node;
    const char *folder = getenv(REAL_FOLDER_VARIABLE);
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
    real_load();
    struct hip_node devices = {.n_devices = node->ranks / node->nodes,
                               .per_oam = node->devices_per_oam,
                               .compute_units = node->compute_units,
                               .memory_mib = node->memory_mib,
                               .has_nics = bench->n_nodes > 1};
    snprintf(devices.product, sizeof devices.product, "%s", node->product);
    snprintf(devices.arch, sizeof devices.arch, "%s", node->arch);
    real_hip.devices(&devices);
    if (real_rccl.get_version(&version) != NCCL_SUCCESS)
        sim_fail("%s does not tell its version", getenv(REAL_LIBRARY_VARIABLE));
    return version;
}

/* In every log, so that nobody takes the times for a measurement of hardware. */
void real_print_version(const struct bench *bench, const char *host)
{
    int v = bench->library.version;
    printf("# SIMULATED times; RCCL %d.%d.%d, real: %s (%s, simulated node %s)\n", v / 10000,
           v / 100 % 100, v % 100, getenv(REAL_LIBRARY_VARIABLE), host, bench->node.name);
}

/* The process of a communicator's first rank makes its id; everybody reads it out of that slot. */
static void exchange_ids(struct bench *bench, struct unique_id ids[MAX_GROUPS])
{
    bool is_maker[MAX_GROUPS] = {0};
    for (int c = 0; c < bench->n_comms; c++) {
        int first = bench->members[c][0];
        is_maker[c] = first >= bench->first_rank && first < bench->first_rank + bench->n_local;
        if (is_maker[c] && real_rccl.get_unique_id(&ids[c]) != NCCL_SUCCESS)
            test_failure(bench, NCCL_SYSTEM_ERROR, real_last_error());
    }
    for (int word = 0; word < 16; word++) {
        for (int c = 0; c < bench->n_comms; c++) {
            if (is_maker[c])
                launch_slot(bench->members[c][0])->digest = ids[c].words[word];
        }
        meet(0);
        for (int c = 0; c < bench->n_comms; c++)
            ids[c].words[word] = launch_slot(bench->members[c][0])->digest;
        launch_barrier();
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
        if (real_hip.set_device(rank->device) != 0 ||
            real_hip.malloc((void **)&rank->send, bytes) != 0 ||
            real_hip.malloc((void **)&rank->receive, bytes) != 0 ||
            real_hip.stream(&rank->stream, 1) != 0)
            sim_fail("no simulated memory for %zu bytes on device %d", bytes, rank->device);
    }
}

/* As rccl-tests: -R 1 registers both buffers of each rank with its communicator, -R 2 as windows
 * that all ranks have alike.  They go with the communicator. */
static void register_buffers(const struct bench *bench, struct comm *comm)
{
    size_t bytes = bench->options.max_bytes + 4096;
    int result = real_rccl.group_start();
    for (int i = 0; i < 2 * comm->n_local && result == NCCL_SUCCESS; i++) {
        struct real_rank *rank = &comm->real->ranks[i / 2];
        char *buffer = i % 2 == 0 ? rank->send : rank->receive;
        void *handle;
        real_hip.set_device(rank->device);
        result = bench->options.registered == 1
                     ? real_rccl.comm_register(rank->comm, buffer, bytes, &handle)
                     : real_rccl.window_register(rank->comm, buffer, bytes, &handle, 1);
    }
    int ended = real_rccl.group_end();
    result = result != NCCL_SUCCESS ? result : ended;
    if (result != NCCL_SUCCESS)
        test_failure(bench, result, real_last_error());
}

void real_init(struct bench *bench)
{
    static struct unique_id ids[MAX_GROUPS];
    exchange_ids(bench, ids);
    int result = real_rccl.group_start();
    for (int c = 0; c < bench->n_comms; c++) {
        struct comm *comm = &bench->comms[c];
        comm->library = &bench->library;
        make_room(bench, comm);
        for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS; i++) {
            real_hip.set_device(comm->real->ranks[i].device);
            result = real_rccl.comm_init_rank(&comm->real->ranks[i].comm, comm->n_ranks, ids[c],
                                              comm->ranks[i]);
        }
    }
    int ended = real_rccl.group_end();
    result = result != NCCL_SUCCESS ? result : ended;
    if (result != NCCL_SUCCESS)
        test_failure(bench, result, real_last_error());
    for (int c = 0; c < bench->n_comms && bench->options.registered > 0; c++)
        register_buffers(bench, &bench->comms[c]);
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
        return real_rccl.all_reduce(send, receive, count, call->dtype, call->op, rank->comm,
                                    rank->stream);
    case COLL_ALL_GATHER:
        return real_rccl.all_gather(send, receive, count, call->dtype, rank->comm, rank->stream);
    case COLL_REDUCE_SCATTER:
        return real_rccl.reduce_scatter(send, receive, count, call->dtype, call->op, rank->comm,
                                        rank->stream);
    case COLL_BROADCAST:
        return real_rccl.broadcast(send, receive, count, call->dtype, 0, rank->comm, rank->stream);
    case COLL_ALLTOALL:
        return real_rccl.all_to_all(send, receive, count, call->dtype, rank->comm, rank->stream);
    default:
        return real_rccl.reduce(send, receive, count, call->dtype, call->op, 0, rank->comm,
                                rank->stream);
    }
}

static struct decision decision_of(const struct comm *comm, const struct call *call,
                                   const struct hip_ran *ran)
{
    int algorithm = find_name(text_of(ran->algorithm), algorithm_titles, N_ALGORITHMS, true);
    int protocol = find_name(text_of(ran->protocol), protocol_titles, N_PROTOCOLS, true);
    if (ran->n_collectives == 0) {
        if (ran->n_point_to_point == 0 && strstr(ran->kernel, "msccl") == NULL)
            sim_fail("the real library did not say what it ran for %s of %zu bytes (kernel '%s')",
                     collective_names[call->collective], call->n_bytes, ran->kernel);
        return (struct decision){
            .path = ran->n_point_to_point == 0          ? PATH_MSCCL
                    : call->collective == COLL_ALLTOALL ? PATH_P2P
                                                        : PATH_DIRECT,
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

static int issue_all(struct comm *comm, const struct call *call)
{
    bool is_group = comm->n_local > 1 || call->aggregated > 1;
    int result = is_group ? real_rccl.group_start() : NCCL_SUCCESS;
    for (int n = 0; n < call->aggregated; n++) {
        for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS; i++)
            result = issue(comm, i, call);
    }
    return is_group && result == NCCL_SUCCESS ? real_rccl.group_end() : result;
}

static void check_hip(int result, const char *what)
{
    if (result != 0)
        sim_fail("the stand-in HIP runtime does not %s (error %d)", what, result);
}

/* As rccl-tests: all calls of a block are one graph of each rank. */
static void begin_graphs(const struct comm *comm)
{
    for (int i = 0; i < comm->n_local; i++)
        check_hip(real_hip.begin_capture(comm->real->ranks[i].stream, 1), "begin a graph");
}

static void launch_graphs(const struct comm *comm, int launches)
{
    for (int i = 0; i < comm->n_local; i++) {
        struct real_rank *rank = &comm->real->ranks[i];
        check_hip(real_hip.end_capture(rank->stream, &rank->graph), "end a graph");
        check_hip(real_hip.instantiate(&rank->instance, rank->graph, NULL, NULL, 0),
                  "make a graph");
    }
    for (int n = 0; n < launches; n++) {
        for (int i = 0; i < comm->n_local; i++)
            check_hip(
                real_hip.launch_graph(comm->real->ranks[i].instance, comm->real->ranks[i].stream),
                "launch a graph");
    }
    for (int i = 0; i < comm->n_local; i++) {
        check_hip(real_hip.destroy_instance(comm->real->ranks[i].instance), "destroy a graph");
        check_hip(real_hip.destroy_graph(comm->real->ranks[i].graph), "destroy a graph");
    }
}

static void read_decisions(struct comm *comm, int local, const struct call *call, int n_calls)
{
    struct real_rank *rank = &comm->real->ranks[local];
    for (int n = 0; n < n_calls; n++) {
        struct hip_ran ran;
        real_hip.ran(rank->device, n * call->aggregated, &ran);
        if (ran.n_collectives > 0 && n * call->aggregated >= ran.n_collectives)
            sim_fail("the real library told of %d collectives where %d ran", ran.n_collectives,
                     n_calls);
        rank->decisions[n] = decision_of(comm, call, &ran);
        tell_ran(comm, local, &rank->decisions[n], call, (int)ran.grid);
    }
}

int real_issue(struct comm *comm, const struct call *call, int n_calls, int graph_launches)
{
    int result = NCCL_SUCCESS;
    make_decisions(comm, n_calls);
    for (int i = 0; i < comm->n_local; i++) {
        comm->real->ranks[i].next = 0;
        real_hip.forget(comm->real->ranks[i].device);
    }
    if (call->n_bytes == 0)
        return NCCL_SUCCESS;
    if (graph_launches > 0)
        begin_graphs(comm);
    for (int n = 0; n < n_calls && result == NCCL_SUCCESS; n++)
        result = issue_all(comm, call);
    if (graph_launches > 0 && result == NCCL_SUCCESS)
        launch_graphs(comm, graph_launches);
    for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS && comm->n_ranks > 1; i++)
        read_decisions(comm, i, call, n_calls);
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
    real_hip.set_device(comm->real->ranks[local].device);
    int result = real_rccl.get_algorithm(comm->real->ranks[local].comm, call->collective,
                                         call->count_bytes / (size_t)dtype_bytes[call->dtype],
                                         call->dtype, 0, 0, 1, &a, &p, channels);
    if (result != NCCL_SUCCESS || real_rccl.get_algorithm_name(a, algorithm) != NCCL_SUCCESS ||
        real_rccl.get_protocol_name(p, protocol) != NCCL_SUCCESS)
        *algorithm = *protocol = "N/A";
    return result;
}

int real_destroy(struct comm *comm)
{
    /* Between hosts the library would wait until all data had been sent, and nothing sends any. */
    bool waits = comm->n_nodes > 1;
    int result = real_rccl.group_start();
    for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS && !waits; i++)
        result = real_rccl.comm_finalize(comm->real->ranks[i].comm);
    int ended = real_rccl.group_end();
    result = result != NCCL_SUCCESS ? result : ended;
    for (int i = 0; i < comm->n_local && result == NCCL_SUCCESS; i++)
        result = (waits ? real_rccl.comm_abort : real_rccl.comm_destroy)(comm->real->ranks[i].comm);
    for (int i = 0; i < comm->n_local; i++)
        free(comm->real->ranks[i].decisions);
    free(comm->real->ranks);
    free(comm->real);
    comm->real = NULL;
    return result;
}

const char *real_last_error(void)
{
    return real_rccl.get_last_error(NULL);
}

#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "debug.h"
#include "move.h"

static struct library library;
bool moves_data;

/* Calls between ncclGroupStart and ncclGroupEnd. */
static _Thread_local struct group {
    int depth, result;
    struct request *requests;
    size_t n, room;
} group;

EXPORT void rccltune_simulated_moves_v1(int wanted);
void rccltune_simulated_moves_v1(int wanted)
{
    moves_data = wanted != 0;
}

static int version(void)
{
    const struct node *node = rccltune_machine_node();
    if (node == NULL)
        sim_fail("RCCLTUNE_SIM_NODE names no node file: this library is a stand-in, rccltune loads "
                 "it under --simulate");
    return node_release(node);
}

static void read_environment(void)
{
    static bool is_read;
    if (!is_read)
        conf_read();
    is_read = true;
}

/* Once a process, as the first communicator's ranks know where they are. */
static int start(int rank, int n_ranks)
{
    static bool is_started;
    static int result;
    static char host[64];
    if (is_started)
        return result;
    is_started = true;
    int code = version(), device = 0;
    hipGetDevice(&device);
    snprintf(host, sizeof host, "%s", rccltune_machine_host(rank, n_ranks));
    debug_start(host, device, code >= ROCM_7_11 ? 4 : 3);
    result = library_start(&library, rccltune_machine_node(), code);
    if (rank == 0)
        library_print_version(&library);
    if (result == NCCL_SUCCESS)
        tuner_open(&library.tuner, library.family, library.version);
    return result;
}

EXPORT int ncclGetVersion(int *code)
{
    if (code == NULL)
        return NCCL_INVALID_ARGUMENT;
    *code = version();
    return NCCL_SUCCESS;
}

/* Memory that a program let the library allocate, which alone a graph can have registered. */
static struct memory {
    char *at;
    size_t size;
    struct memory *next;
} * memory;

EXPORT int ncclMemAlloc(void **pointer, size_t size)
{
    struct memory *made = pointer != NULL ? malloc(sizeof *made) : NULL;
    if (made == NULL || hipMalloc(pointer, size) != HIP_OK) {
        free(made);
        return pointer == NULL ? NCCL_INVALID_ARGUMENT : NCCL_UNHANDLED_CUDA_ERROR;
    }
    *made = (struct memory){*pointer, size, memory};
    memory = made;
    return NCCL_SUCCESS;
}

EXPORT int ncclMemFree(void *pointer)
{
    struct memory **at = &memory;
    while (*at != NULL && (*at)->at != pointer)
        at = &(*at)->next;
    struct memory *gone = *at;
    if (gone != NULL) {
        *at = gone->next;
        free(gone);
    }
    return hipFree(pointer) == HIP_OK ? NCCL_SUCCESS : NCCL_UNHANDLED_CUDA_ERROR;
}

static bool can_be_registered(const void *pointer)
{
    for (const struct memory *one = memory; one != NULL; one = one->next) {
        if ((const char *)pointer >= one->at && (const char *)pointer < one->at + one->size)
            return true;
    }
    return false;
}

EXPORT void ncclResetDebugInit(void)
{
    debug_restart();
}

EXPORT int ncclGetUniqueId(struct unique_id *id)
{
    read_environment();
    if (id == NULL)
        return NCCL_INVALID_ARGUMENT;
    memset(id, 0, sizeof *id);
    if (getrandom(id->bytes, 32, 0) != 32)
        return NCCL_SYSTEM_ERROR;
    return NCCL_SUCCESS;
}

EXPORT const char *ncclGetErrorString(int result)
{
    return result_text(result);
}

EXPORT const char *ncclGetLastError(const void *comm)
{
    (void)comm;
    return debug_last_error();
}

static uint64_t hash_of(const struct unique_id *id)
{
    uint64_t keys = keys_of(0);
    for (size_t i = 0; i < sizeof id->bytes; i++)
        keys = keys_with(keys, (unsigned char)id->bytes[i]);
    return keys;
}

static int fault_at_init(int rank)
{
    const struct fault *f = NULL;
    while ((f = next_fault(library.node, f, FAULT_INIT_ERROR, NULL)) != NULL) {
        if (f->rank < 0 || f->rank == rank) {
            debug_warn("%s", f->message);
            return NCCL_SYSTEM_ERROR;
        }
    }
    return NCCL_SUCCESS;
}

static int make(struct ncclComm *c, const struct unique_id *id, int n_ranks)
{
    char key[32];
    struct comm *comm = &c->comm;
    comm->id = hash_of(id);
    snprintf(key, sizeof key, "%016llx", (unsigned long long)comm->id);
    comm->n_ranks = n_ranks;
    comm->n_local = 1;
    comm->ranks = &c->rank;
    comm->world_ranks = &c->rank;
    /* Since 2.28.3 the tuner comes first, so that a rank whose plugin fails leaves the others
     * waiting in the transports; before, they had passed them and wait in the first collective. */
    bool tuner_first = library.family->since >= ROCM_7_11;
    c->fabric = rccltune_fabric_prepare(n_ranks, c->rank);
    comm->n_nodes = rccltune_fabric_nodes(c->fabric);
    int result = fault_at_init(c->rank);
    if (result != NCCL_SUCCESS)
        return result;
    comm_build(comm, &library);
    if (tuner_first)
        result = comm_init_tuner(comm);
    if (result != NCCL_SUCCESS)
        return result;
    int other = rccltune_fabric_join(c->fabric, key);
    if (other >= 0) {
        debug_warn("Duplicate GPU detected : rank %d and rank %d both on the same CUDA device",
                   c->rank, other);
        return NCCL_INVALID_USAGE;
    }
    comm->placement = rccltune_fabric_placement(c->fabric);
    if (!tuner_first)
        result = comm_init_tuner(comm);
    if (result == NCCL_SUCCESS)
        comm_log_init(comm);
    return result;
}

EXPORT int ncclCommInitRank(struct ncclComm **made, int n_ranks, struct unique_id id, int rank)
{
    read_environment();
    if (made == NULL || n_ranks < 1 || rank < 0 || rank >= n_ranks) {
        debug_warn("Invalid rank requested : %d/%d", rank, n_ranks);
        return NCCL_INVALID_ARGUMENT;
    }
    *made = NULL;
    int result = start(rank, n_ranks);
    struct ncclComm *c = result == NCCL_SUCCESS ? calloc(1, sizeof *c) : NULL;
    if (result != NCCL_SUCCESS || c == NULL)
        return result != NCCL_SUCCESS ? result : NCCL_SYSTEM_ERROR;
    c->rank = rank;
    result = make(c, &id, n_ranks);
    if (result == NCCL_SUCCESS)
        *made = c;
    return result; /* what was begun of one that failed stays, as the process is at its end */
}

static int end(struct ncclComm *c, bool aborted)
{
    if (c == NULL)
        return NCCL_SUCCESS;
    rccltune_fabric_close(c->fabric, aborted);
    int result = comm_destroy(&c->comm);
    move_end(c);
    free(c->premuls);
    free(c);
    return result;
}

EXPORT int ncclCommFinalize(struct ncclComm *c)
{
    return c != NULL ? NCCL_SUCCESS : NCCL_INVALID_ARGUMENT;
}

EXPORT int ncclCommDestroy(struct ncclComm *c)
{
    return end(c, false);
}

EXPORT int ncclCommAbort(struct ncclComm *c)
{
    return end(c, true);
}

/* In which way a rank's buffers lie in each other, as rccl-tests has them in place. */
static bool is_in_place(const struct request *r)
{
    size_t own = (size_t)r->comm->rank * r->count * (size_t)dtype_bytes[r->dtype];
    const char *send = r->send, *receive = r->receive;
    if (r->collective == COLL_ALL_GATHER)
        return send == receive + own;
    if (r->collective == COLL_REDUCE_SCATTER)
        return receive == send + own;
    return send == receive;
}

static size_t bytes_of(const struct request *r)
{
    bool all = r->collective == COLL_ALL_GATHER || r->collective == COLL_REDUCE_SCATTER ||
               r->collective == COLL_ALLTOALL;
    return r->count * (size_t)dtype_bytes[r->dtype] * (size_t)(all ? r->comm->comm.n_ranks : 1);
}

static int decide(struct ncclComm *c, const struct call *call, bool registered,
                  struct decision *decision)
{
    rccltune_machine_manner(registered    ? CAPTURED_REGISTERED
                            : call->graph ? CAPTURED
                                          : NOT_CAPTURED);
    if (!c->has_prepared || memcmp(&c->prepared, call, sizeof *call) != 0) {
        comm_prepare(&c->comm, call);
        memcpy(&c->prepared, call, sizeof *call);
        c->has_prepared = true;
    }
    return comm_decide(&c->comm, 0, decision);
}

/* Several equal calls of a group are one kernel. */
static int issue(const struct request *requests, int n)
{
    const struct request *r = requests;
    struct ncclComm *c = r->comm;
    int status = 0;
    struct call call;
    if (r->count == 0)
        return NCCL_SUCCESS;
    hipStreamIsCapturing(r->stream, &status);
    memset(&call, 0, sizeof call);
    call.collective = r->collective;
    call.dtype = r->dtype;
    call.op = r->op;
    call.in_place = is_in_place(r);
    call.n_bytes = bytes_of(r) * (size_t)n;
    call.count_bytes = r->count * (size_t)dtype_bytes[r->dtype];
    call.aggregated = n;
    call.graph = status != 0;
    struct fabric_call kernel = {.collective = r->collective,
                                 .dtype = r->dtype,
                                 .op = r->op,
                                 .root = r->root,
                                 .in_place = call.in_place,
                                 .registered = call.graph && registers_graphs(library.family) &&
                                               can_be_registered(r->send) &&
                                               can_be_registered(r->receive),
                                 .n_bytes = call.n_bytes};
    int result = decide(c, &call, kernel.registered, &kernel.decision);
    if (result == NCCL_SUCCESS && rccltune_fabric_put(c->fabric, &kernel, r->stream) != 0)
        result = NCCL_UNHANDLED_CUDA_ERROR;
    for (int i = 0; i < n && moves_data && result == NCCL_SUCCESS; i++)
        result = move_later(&requests[i], 1, &kernel, call.graph);
    return result;
}

/* Sends and receives of a group are one kernel, which asks no tuner: with one of each to every rank
 * an alltoall. */
static int issue_pairs(const struct request *requests, int n)
{
    struct ncclComm *c = requests->comm;
    int n_sends = 0, status = 0;
    size_t sent = 0, received = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes = requests[i].count * (size_t)dtype_bytes[requests[i].dtype];
        n_sends += requests[i].send != NULL;
        *(requests[i].send != NULL ? &sent : &received) += bytes;
    }
    int ranks = c->comm.n_ranks;
    bool is_exchange = ranks > 2 && n_sends == ranks && n - n_sends == ranks;
    hipStreamIsCapturing(requests->stream, &status);
    struct call call;
    memset(&call, 0, sizeof call);
    call.collective = is_exchange ? COLL_ALLTOALL : COLL_SENDRECV;
    call.dtype = requests->dtype;
    call.n_bytes = sent > received ? sent : received;
    call.count_bytes = call.n_bytes;
    call.aggregated = 1;
    call.graph = status != 0;
    struct fabric_call kernel = {
        .collective = call.collective, .dtype = call.dtype, .n_bytes = call.n_bytes};
    if (call.n_bytes == 0)
        return NCCL_SUCCESS;
    int result = decide(c, &call, false, &kernel.decision);
    if (result == NCCL_SUCCESS && rccltune_fabric_put(c->fabric, &kernel, requests->stream) != 0)
        result = NCCL_UNHANDLED_CUDA_ERROR;
    if (moves_data && result == NCCL_SUCCESS)
        result = move_later(requests, n, &kernel, call.graph);
    return result;
}

static bool are_alike(const struct request *a, const struct request *b)
{
    return a->comm == b->comm && a->collective == b->collective && a->dtype == b->dtype &&
           a->op == b->op && a->root == b->root && a->count == b->count && a->stream == b->stream &&
           is_in_place(a) == is_in_place(b);
}

static int keep(const struct request *request)
{
    if (group.n == group.room) {
        size_t room = group.room > 0 ? 2 * group.room : 64;
        struct request *more = realloc(group.requests, room * sizeof *more);
        if (more == NULL)
            return NCCL_SYSTEM_ERROR;
        group.requests = more;
        group.room = room;
    }
    group.requests[group.n++] = *request;
    return NCCL_SUCCESS;
}

/* The words of NCCL's argument check (src/misc/argcheck.cc). */
static int check(const struct request *r, const char *name)
{
    const struct ncclComm *c = r->comm;
    if (c == NULL) {
        debug_warn("%s : comm argument is NULL", name);
        return NCCL_INVALID_ARGUMENT;
    }
    if (r->root < 0 || r->root >= c->comm.n_ranks) {
        debug_warn("%s : invalid root %d (root should be in the 0..%d range)", name, r->root,
                   c->comm.n_ranks);
        return NCCL_INVALID_ARGUMENT;
    }
    if (r->dtype < 0 || r->dtype >= N_DTYPES) {
        debug_warn("%s : invalid type %d", name, r->dtype);
        return NCCL_INVALID_ARGUMENT;
    }
    bool made = r->op >= OP_FIRST_MADE && r->op - OP_FIRST_MADE < c->n_premuls &&
                c->premuls[r->op - OP_FIRST_MADE].is_made;
    if (r->op < 0 || (r->op >= OP_FIRST_MADE && !made)) {
        debug_warn("%s : invalid reduction operation %d", name, r->op);
        return NCCL_INVALID_ARGUMENT;
    }
    return NCCL_SUCCESS;
}

static int take(const struct request *request, const char *name)
{
    int result = check(request, name);
    if (group.depth > 0) {
        if (result == NCCL_SUCCESS)
            result = keep(request);
        if (group.result == NCCL_SUCCESS)
            group.result = result;
        return result;
    }
    if (result != NCCL_SUCCESS)
        return result;
    return request->collective == COLL_SENDRECV ? issue_pairs(request, 1) : issue(request, 1);
}

EXPORT int ncclGroupStart(void)
{
    group.depth++;
    return NCCL_SUCCESS;
}

EXPORT int ncclGroupEnd(void)
{
    if (group.depth == 0) {
        debug_warn("ncclGroupEnd: not in a group call.");
        return NCCL_INVALID_USAGE;
    }
    if (--group.depth > 0)
        return NCCL_SUCCESS;
    struct group whole = group;
    group = (struct group){0};
    int result = whole.result;
    size_t n;
    for (size_t i = 0; i < whole.n && result == NCCL_SUCCESS; i += n) {
        const struct request *first = &whole.requests[i];
        bool are_pairs = first->collective == COLL_SENDRECV;
        for (n = 1; i + n < whole.n; n++) {
            const struct request *next = first + n;
            if (are_pairs ? next->comm != first->comm || next->collective != COLL_SENDRECV ||
                                next->stream != first->stream
                          : !are_alike(first, next))
                break;
        }
        result = are_pairs ? issue_pairs(first, (int)n) : issue(first, (int)n);
    }
    free(whole.requests);
    return result;
}

#define REQUEST(...) take(&(struct request){__VA_ARGS__}, __func__ + 4) /* behind "nccl" */

EXPORT int ncclAllReduce(const void *send, void *receive, size_t count, int dtype, int op,
                         struct ncclComm *comm, void *stream)
{
    return REQUEST(comm, COLL_ALL_REDUCE, dtype, op, 0, send, receive, count, stream);
}

EXPORT int ncclReduceScatter(const void *send, void *receive, size_t count, int dtype, int op,
                             struct ncclComm *comm, void *stream)
{
    return REQUEST(comm, COLL_REDUCE_SCATTER, dtype, op, 0, send, receive, count, stream);
}

EXPORT int ncclAllGather(const void *send, void *receive, size_t count, int dtype,
                         struct ncclComm *comm, void *stream)
{
    return REQUEST(comm, COLL_ALL_GATHER, dtype, OP_SUM, 0, send, receive, count, stream);
}

EXPORT int ncclBroadcast(const void *send, void *receive, size_t count, int dtype, int root,
                         struct ncclComm *comm, void *stream)
{
    return REQUEST(comm, COLL_BROADCAST, dtype, OP_SUM, root, send, receive, count, stream);
}

EXPORT int ncclReduce(const void *send, void *receive, size_t count, int dtype, int op, int root,
                      struct ncclComm *comm, void *stream)
{
    return REQUEST(comm, COLL_REDUCE, dtype, op, root, send, receive, count, stream);
}

EXPORT int ncclAllToAll(const void *send, void *receive, size_t count, int dtype,
                        struct ncclComm *comm, void *stream)
{
    return REQUEST(comm, COLL_ALLTOALL, dtype, OP_SUM, 0, send, receive, count, stream);
}

/* One end of a pair: the other one's rank stands for the root. */
EXPORT int ncclSend(const void *send, size_t count, int dtype, int peer, struct ncclComm *comm,
                    void *stream)
{
    return REQUEST(comm, COLL_SENDRECV, dtype, OP_SUM, peer, send, NULL, count, stream);
}

EXPORT int ncclRecv(void *receive, size_t count, int dtype, int peer, struct ncclComm *comm,
                    void *stream)
{
    return REQUEST(comm, COLL_SENDRECV, dtype, OP_SUM, peer, NULL, receive, count, stream);
}

EXPORT int ncclRedOpCreatePreMulSum(int *op, const void *scalar, int dtype, int residence,
                                    struct ncclComm *c)
{
    (void)residence; /* the device's memory can be read here like the host's */
    if (op == NULL || scalar == NULL || c == NULL || dtype < 0 || dtype >= N_DTYPES)
        return NCCL_INVALID_ARGUMENT;
    int i = 0;
    while (i < c->n_premuls && c->premuls[i].is_made)
        i++;
    if (i == c->n_premuls) {
        struct premul *more = realloc(c->premuls, ((size_t)i + 1) * sizeof *more);
        if (more == NULL)
            return NCCL_SYSTEM_ERROR;
        c->premuls = more;
        c->n_premuls++;
    }
    c->premuls[i] = (struct premul){.is_made = true, .factor = factor_of(c, dtype, scalar)};
    *op = OP_FIRST_MADE + i;
    return NCCL_SUCCESS;
}

EXPORT int ncclRedOpDestroy(int op, struct ncclComm *c)
{
    int i = op - OP_FIRST_MADE;
    if (c == NULL || i < 0 || i >= c->n_premuls || !c->premuls[i].is_made) {
        debug_warn("ncclRedOpDestroy : operator unknown to communicator.");
        return NCCL_INVALID_ARGUMENT;
    }
    c->premuls[i].is_made = false;
    return NCCL_SUCCESS;
}

#include "collective.h"

#include "library.h"

enum { GRAIN = 16 };

/* The shares of a collective's bytes that a rank sends and receives: all of them, or one part in
 * n_ranks. */
static const struct {
    bool in_parts, sends_part, receives_part;
} shapes[N_COLLECTIVES] = {
    [ALL_GATHER] = {true, true, false},
    [REDUCE_SCATTER] = {true, false, true},
    [ALLTOALL] = {true, false, false},
};

/* A scalar of 2 in the step's type. */
static int make_mulsum(const struct step *step)
{
    union {
        double d;
        float f;
        uint16_t h;
        uint8_t b;
        int64_t i;
        int32_t w;
    } two = {.d = 0};
    int op = -1;
    if (nccl.make_mulsum == NULL)
        fail(EXIT_CALL, "this library has no ncclRedOpCreatePreMulSum");
    switch (step->type) {
    case DOUBLE:
        two.d = 2;
        break;
    case FLOAT:
        two.f = 2;
        break;
    case HALF:
    case BFLOAT16:
        two.h = 0x4000;
        break;
    case FP8_E4M3:
        two.b = runtime.has_fnuz ? 0x48 : 0x40;
        break;
    case FP8_E5M2:
        two.b = runtime.has_fnuz ? 0x44 : 0x40;
        break;
    case INT64:
    case UINT64:
        two.i = 2;
        break;
    case INT32:
    case UINT32:
        two.w = 2;
        break;
    default:
        two.b = 2;
    }
    check_nccl(nccl.make_mulsum(&op, &two, (int)step->type, SCALAR_ON_HOST, communicator.comm),
               "ncclRedOpCreatePreMulSum");
    return op;
}

struct call call_begin(const struct step *step)
{
    struct call call = {.step = step, .mulsum = -1};
    size_t width = type_bytes[step->type], n = (size_t)communicator.n_ranks;
    bool in_parts = shapes[step->collective].in_parts;
    size_t bytes = in_parts ? step->n_bytes / n : step->n_bytes;
    bytes = bytes >= GRAIN ? bytes / GRAIN * GRAIN : bytes / width * width;
    size_t whole = in_parts ? bytes * n : bytes;
    call.count = bytes / width;
    call.n_bytes = whole;
    call.send_bytes = shapes[step->collective].sends_part ? bytes : whole;
    call.recv_bytes = shapes[step->collective].receives_part ? bytes : whole;
    communicator_take_buffers(step);
    if (call.count == 0)
        fail(EXIT_USAGE, "%zu bytes are less than one %s for each of %d ranks", step->n_bytes,
             type_names[step->type], communicator.n_ranks);
    bool reduces = step->collective == ALL_REDUCE || step->collective == REDUCE ||
                   step->collective == REDUCE_SCATTER;
    if (reduces && step->op == MULSUM)
        call.mulsum = make_mulsum(step);
    return call;
}

void call_end(const struct call *call)
{
    if (call->mulsum >= 0 && nccl.destroy_op != NULL)
        check_nccl(nccl.destroy_op(call->mulsum, communicator.comm), "ncclRedOpDestroy");
}

struct places places_of(const struct call *call, long number)
{
    size_t steps = communicator.room / call->n_bytes;
    size_t shift = call->n_bytes * ((size_t)number % (steps > 0 ? steps : 1));
    size_t own = call->count * type_bytes[call->step->type] * (size_t)communicator.rank;
    struct places at = {communicator.send + shift, communicator.receive + shift};
    if (call->step->in_place) {
        /* The smaller buffer is this rank's part of the larger one. */
        at.send = at.receive + (call->send_bytes < call->recv_bytes ? own : 0);
        at.receive += call->recv_bytes < call->send_bytes ? own : 0;
    }
    return at;
}

int root_of(const struct call *call, long number)
{
    int n = communicator.n_ranks;
    return call->step->root != ANY_ROOT ? call->step->root % n : (int)((n - number % n) % n);
}

/* Sends to all and receives from all, where the library has no function for it. */
static int exchange_all(const struct call *call, struct places at)
{
    size_t bytes = call->count * type_bytes[call->step->type];
    int type = (int)call->step->type, result = nccl.group_start();
    for (int other = 0; other < communicator.n_ranks && result == 0; other++) {
        size_t part = bytes * (size_t)other;
        result = nccl.send(at.send + part, call->count, type, other, communicator.comm,
                           communicator.stream);
        if (result == 0)
            result = nccl.receive(at.receive + part, call->count, type, other, communicator.comm,
                                  communicator.stream);
    }
    int ended = nccl.group_end();
    return result != 0 ? result : ended;
}

/* To the next rank, from the one before. */
static int send_on(const struct call *call, struct places at)
{
    int n = communicator.n_ranks, type = (int)call->step->type, result = nccl.group_start();
    if (result == 0)
        result = nccl.send(at.send, call->count, type, (communicator.rank + 1) % n,
                           communicator.comm, communicator.stream);
    if (result == 0)
        result = nccl.receive(at.receive, call->count, type, (communicator.rank + n - 1) % n,
                              communicator.comm, communicator.stream);
    int ended = nccl.group_end();
    return result != 0 ? result : ended;
}

int call_issue(const struct call *call, long number)
{
    struct places at = places_of(call, number);
    int type = (int)call->step->type;
    int op = call->mulsum >= 0 ? call->mulsum : (int)call->step->op;
    void *comm = communicator.comm, *stream = communicator.stream;
    switch (call->step->collective) {
    case ALL_REDUCE:
        return nccl.all_reduce(at.send, at.receive, call->count, type, op, comm, stream);
    case ALL_GATHER:
        return nccl.all_gather(at.send, at.receive, call->count, type, comm, stream);
    case REDUCE_SCATTER:
        return nccl.reduce_scatter(at.send, at.receive, call->count, type, op, comm, stream);
    case BROADCAST:
        return nccl.broadcast(at.send, at.receive, call->count, type, root_of(call, number), comm,
                              stream);
    case REDUCE:
        return nccl.reduce(at.send, at.receive, call->count, type, op, root_of(call, number), comm,
                           stream);
    case ALLTOALL:
        return nccl.all_to_all == NULL
                   ? exchange_all(call, at)
                   : nccl.all_to_all(at.send, at.receive, call->count, type, comm, stream);
    default:
        return send_on(call, at);
    }
}

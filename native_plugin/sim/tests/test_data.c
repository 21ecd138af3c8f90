/*
 * What collectives of the stand-in library make of data, in every type and with every operation,
 * against values that are worked out here in another way: small whole numbers, whose results are
 * looked up among all values that the type has.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "made_node.h"
#include "world.h"

enum {
    INT8,
    UINT8,
    INT32,
    UINT32,
    INT64,
    UINT64,
    HALF,
    FLOAT,
    DOUBLE,
    BFLOAT,
    E4M3,
    E5M2,
    N_TYPES
};
enum { SUM, PROD, MAX, MIN, AVG, MULSUM, N_OPERATIONS };
static const size_t widths[N_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static bool is_fnuz;
static int the_type, the_operation; /* under test, for messages */

/* The value of a small float from its definition: sign, exponent, fraction. */
static double small_value(unsigned bits, int exponent_bits, int fraction_bits, int bias)
{
    double value = 0;
    unsigned exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
    for (int i = 0; i < fraction_bits; i++)
        value += (bits >> i & 1) * exp2(i - fraction_bits);
    value = exponent == 0 ? value * exp2(1 - bias) : (1 + value) * exp2((int)exponent - bias);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

static double value_of(int type, unsigned bits)
{
    switch (type) {
    case HALF:
        return small_value(bits, 5, 10, 15);
    case BFLOAT:
        return small_value(bits, 8, 7, 127);
    case E4M3:
        return small_value(bits, 4, 3, is_fnuz ? 8 : 7);
    default:
        return small_value(bits, 5, 2, is_fnuz ? 16 : 15);
    }
}

/* The finite value next to another; of two as near the one with an even last bit. */
static unsigned nearest_bits(int type, double value)
{
    unsigned best = 0, end = type == HALF || type == BFLOAT ? 0x7b00 : 0x78;
    if (type == BFLOAT)
        end = 0x7f00;
    if (is_fnuz && widths[type] == 1)
        end = 0x80;
    for (unsigned bits = 1; bits < end; bits++) {
        double now = fabs(value_of(type, bits) - fabs(value));
        double before = fabs(value_of(type, best) - fabs(value));
        if (now < before || (now == before && bits % 2 == 0))
            best = bits;
    }
    return value < 0 && best != 0 ? best | 1u << (widths[type] * 8 - 1) : best;
}

/* Searching costs, and there are few different values. */
static unsigned bits_of(int type, double value)
{
    static struct {
        double value;
        unsigned bits;
    } known[N_TYPES][64];
    static int n_known[N_TYPES];
    for (int i = 0; i < n_known[type]; i++) {
        if (known[type][i].value == value)
            return known[type][i].bits;
    }
    unsigned bits = nearest_bits(type, value);
    if (n_known[type] < 64) {
        known[type][n_known[type]].value = value;
        known[type][n_known[type]++].bits = bits;
    }
    return bits;
}

static void put(int type, void *at, size_t i, double value)
{
    char *to = (char *)at + i * widths[type];
    float single = (float)value;
    int64_t whole = (int64_t)value;
    uint64_t unsigned_whole = value < 0 ? (uint64_t)whole : (uint64_t)value;
    unsigned bits;
    switch (type) {
    case FLOAT:
        memcpy(to, &single, 4);
        break;
    case DOUBLE:
        memcpy(to, &value, 8);
        break;
    case HALF:
    case BFLOAT:
    case E4M3:
    case E5M2:
        bits = bits_of(type, value);
        memcpy(to, &bits, widths[type]); /* x86 and ARM put the low bytes first */
        break;
    default:
        memcpy(to, &unsigned_whole, widths[type]);
    }
}

static bool has_sign(int type)
{
    return type != UINT8 && type != UINT32 && type != UINT64;
}

/* What rank r has at i: small, and products of eight stay in every type. */
static double input(int type, int operation, int r, size_t i)
{
    int k = (int)(i % 97);
    if (operation == PROD)
        return (k + r) % 4 == 0 ? 2 : 1;
    return (k * 7 + r * 3) % 5 - (has_sign(type) ? 2 : 0);
}

static double expected(int type, int operation, int n, size_t i)
{
    double result =
        operation == MULSUM ? 2 * input(type, operation, 0, i) : input(type, operation, 0, i);
    for (int r = 1; r < n; r++) {
        double x = input(type, operation, r, i);
        switch (operation) {
        case PROD:
            result *= x;
            break;
        case MAX:
            result = fmax(result, x);
            break;
        case MIN:
            result = fmin(result, x);
            break;
        case MULSUM:
            result += 2 * x;
            break;
        default:
            result += x;
        }
    }
    if (operation == AVG)
        result = type < HALF ? trunc(result / n) : result / n;
    return result;
}

struct buffers {
    char *send, *receive, *host, *wanted;
    size_t bytes;
};

/* Fill with what rank r sends, elements from `first` of what all have. */
static void fill(struct world *w, const struct buffers *b, void *to, int r, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(the_type, b->host, i, input(the_type, the_operation, r, first + i));
    CHECK(w->hipMemcpy(to, b->host, n * widths[the_type], 1) == 0);
}

static void poison(struct world *w, const struct buffers *b)
{
    CHECK(w->hipMemsetAsync(b->receive, 0xa5, b->bytes, w->stream) == 0);
    CHECK(w->hipMemsetAsync(b->send, 0x5a, b->bytes, w->stream) == 0);
}

/* Compare n elements behind `from`, copied on the stream behind the collective. */
static void compare(struct world *w, const struct buffers *b, const char *from, size_t n,
                    const char *what)
{
    size_t bytes = n * widths[the_type], wrong = 0;
    memset(b->host, 0xee, bytes);
    CHECK(w->hipMemcpyAsync(b->host, from, bytes, 2, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    for (size_t i = 0; i < n; i++)
        wrong += memcmp(b->host + i * widths[the_type], b->wanted + i * widths[the_type],
                        widths[the_type]) != 0;
    if (wrong > 0) {
        fprintf(stderr, "rank %d of %d: %zu of %zu elements of %s, type %d, operation %d, wrong\n",
                w->rank, w->n_ranks, wrong, n, what, the_type, the_operation);
        check_failures++;
    }
}

static void want_reduced(const struct buffers *b, int n_ranks, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(the_type, b->wanted, i, expected(the_type, the_operation, n_ranks, first + i));
}

static void reductions(struct world *w, const struct buffers *b, int op, size_t count)
{
    int n = w->n_ranks, root = n - 1;
    size_t width = widths[the_type], own = (size_t)w->rank * count * width;
    for (int in_place = 0; in_place < 2; in_place++) {
        char *send = in_place ? b->receive : b->send;
        poison(w, b);
        fill(w, b, send, w->rank, 0, count);
        CHECK(w->ncclAllReduce(send, b->receive, count, the_type, op, w->comm, w->stream) == 0);
        want_reduced(b, n, 0, count);
        compare(w, b, b->receive, count, "all_reduce");
        poison(w, b);
        fill(w, b, send, w->rank, 0, count);
        CHECK(w->ncclReduce(send, w->rank == root || in_place ? b->receive : NULL, count, the_type,
                            op, root, w->comm, w->stream) == 0);
        if (w->rank == root)
            compare(w, b, b->receive, count, "reduce");
        else
            CHECK(w->hipStreamSynchronize(w->stream) == 0);
        poison(w, b);
        fill(w, b, b->send, w->rank, 0, count * (size_t)n);
        char *to = in_place ? b->send + own : b->receive;
        CHECK(w->ncclReduceScatter(b->send, to, count, the_type, op, w->comm, w->stream) == 0);
        want_reduced(b, n, (size_t)w->rank * count, count);
        compare(w, b, to, count, "reduce_scatter");
    }
}

static void copies(struct world *w, const struct buffers *b, size_t count)
{
    int n = w->n_ranks, root = n / 2;
    size_t width = widths[the_type], own = (size_t)w->rank * count;
    for (int in_place = 0; in_place < 2; in_place++) {
        char *send = in_place ? b->receive + own * width : b->send;
        poison(w, b);
        fill(w, b, send, w->rank, 0, count);
        CHECK(w->ncclAllGather(send, b->receive, count, the_type, w->comm, w->stream) == 0);
        for (size_t i = 0; i < count * (size_t)n; i++)
            put(the_type, b->wanted, i, input(the_type, SUM, (int)(i / count), i % count));
        compare(w, b, b->receive, count * (size_t)n, "all_gather");
        poison(w, b);
        send = in_place ? b->receive : b->send;
        fill(w, b, send, w->rank, 0, count * (size_t)n);
        CHECK(w->ncclAllToAll(send, b->receive, count, the_type, w->comm, w->stream) == 0);
        for (size_t i = 0; i < count * (size_t)n; i++)
            put(the_type, b->wanted, i, input(the_type, SUM, (int)(i / count), own + i % count));
        compare(w, b, b->receive, count * (size_t)n, "alltoall");
        poison(w, b);
        fill(w, b, send, w->rank, 0, count);
        CHECK(w->ncclBroadcast(send, b->receive, count, the_type, root, w->comm, w->stream) == 0);
        for (size_t i = 0; i < count; i++)
            put(the_type, b->wanted, i, input(the_type, SUM, root, i));
        compare(w, b, b->receive, count, "broadcast");
    }
    /* A ring of pairs, and everybody with everybody in pairs. */
    int next = (w->rank + 1) % n, before = (w->rank + n - 1) % n;
    poison(w, b);
    fill(w, b, b->send, w->rank, 0, count * (size_t)n);
    CHECK(w->ncclGroupStart() == 0);
    CHECK(w->ncclSend(b->send, count, the_type, next, w->comm, w->stream) == 0);
    CHECK(w->ncclRecv(b->receive, count, the_type, before, w->comm, w->stream) == 0);
    CHECK(w->ncclGroupEnd() == 0);
    for (size_t i = 0; i < count; i++)
        put(the_type, b->wanted, i, input(the_type, SUM, before, i));
    compare(w, b, b->receive, count, "sendrecv");
    CHECK(w->ncclGroupStart() == 0);
    for (int peer = 0; peer < n; peer++) {
        size_t at = (size_t)peer * count * width;
        CHECK(w->ncclSend(b->send + at, count, the_type, peer, w->comm, w->stream) == 0);
        CHECK(w->ncclRecv(b->receive + at, count, the_type, peer, w->comm, w->stream) == 0);
    }
    CHECK(w->ncclGroupEnd() == 0);
    for (size_t i = 0; i < count * (size_t)n; i++)
        put(the_type, b->wanted, i, input(the_type, SUM, (int)(i / count), own + i % count));
    compare(w, b, b->receive, count * (size_t)n, "pairs");
}

static void make_buffers(struct world *w, struct buffers *b, size_t bytes)
{
    b->bytes = bytes;
    b->host = malloc(bytes);
    b->wanted = malloc(bytes);
    CHECK(w->hipMalloc((void **)&b->send, bytes) == 0);
    CHECK(w->hipMalloc((void **)&b->receive, bytes) == 0);
    CHECK(world_communicator(w) == 0);
    w->rccltune_simulated_moves_v1(1);
}

static void end(struct world *w, struct buffers *b)
{
    free(b->host);
    free(b->wanted);
    CHECK(w->ncclCommDestroy(w->comm) == 0);
}

static void types_rank(struct world *w, void *argument)
{
    struct buffers b;
    (void)argument;
    make_buffers(w, &b, 8 * 8 * 1024);
    for (the_type = 0; the_type < N_TYPES; the_type++) {
        for (the_operation = 0; the_operation < N_OPERATIONS; the_operation++) {
            int op = the_operation;
            char two[8] = "";
            put(the_type, two, 0, 2);
            if (op == MULSUM)
                CHECK(w->ncclRedOpCreatePreMulSum(&op, two, the_type, 1, w->comm) == 0);
            reductions(w, &b, op, 1001);
            if (op != the_operation)
                CHECK(w->ncclRedOpDestroy(op, w->comm) == 0);
        }
        the_operation = SUM;
        copies(w, &b, 1001);
        reductions(w, &b, SUM, 1); /* fewer elements than ranks */
    }
    end(w, &b);
}

static void test_types(void)
{
    made_scale(8, 1);
    made_node("", "");
    is_fnuz = true;
    CHECK(world_run(8, 60, types_rank, NULL) == 0);
    CHECK(world_run(3, 60, types_rank, NULL) == 0);
    made_arch("gfx950");
    made_node("", "");
    is_fnuz = false;
    CHECK(world_run(8, 60, types_rank, NULL) == 0);
}

/* Whole numbers wrap in their own width; two bytes become infinity where one byte stays finite. */
static void edges_rank(struct world *w, void *argument)
{
    struct buffers b;
    (void)argument;
    make_buffers(w, &b, 4096);
    unsigned char result[8];
    static const struct {
        int type;
        unsigned bits, sum_of_3;
    } rows[] = {{INT8, 100, 44},          {UINT8, 100, 44},   {HALF, 0x7bff, 0x7c00},
                {BFLOAT, 0x7f7f, 0x7f80}, {E4M3, 0x7f, 0x7f}, {E5M2, 0x7f, 0x7f},
                {HALF, 0xfbff, 0xfc00},   {E4M3, 0xff, 0xff}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(w->hipMemcpy(b.send, &rows[i].bits, widths[rows[i].type], 1) == 0);
        CHECK(w->ncclAllReduce(b.send, b.receive, 1, rows[i].type, SUM, w->comm, w->stream) == 0);
        memset(result, 0, sizeof result);
        CHECK(w->hipMemcpyAsync(result, b.receive, widths[rows[i].type], 2, w->stream) == 0);
        CHECK(w->hipStreamSynchronize(w->stream) == 0);
        CHECK(memcmp(result, &rows[i].sum_of_3, widths[rows[i].type]) == 0);
    }
    end(w, &b);
}

static void test_edges(void)
{
    made_arch("gfx942");
    made_node("", "");
    CHECK(world_run(3, 60, edges_rank, NULL) == 0);
}

/* A graph moves its data at every launch, and what was captured before the switch never does. */
static void graph_rank(struct world *w, void *argument)
{
    struct buffers b;
    void *graph = NULL, *instance = NULL;
    (void)argument;
    the_type = FLOAT;
    the_operation = SUM;
    make_buffers(w, &b, 4096);
    CHECK(w->hipStreamBeginCapture(w->stream, 1) == 0);
    CHECK(w->ncclAllReduce(b.send, b.receive, 100, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipStreamEndCapture(w->stream, &graph) == 0);
    CHECK(w->hipGraphInstantiateWithFlags(&instance, graph, 0) == 0);
    CHECK(w->hipGraphDestroy(graph) == 0);
    want_reduced(&b, w->n_ranks, 0, 100);
    for (int i = 0; i < 3; i++) {
        poison(w, &b);
        fill(w, &b, b.send, w->rank, 0, 100);
        CHECK(w->hipGraphLaunch(instance, w->stream) == 0);
        compare(w, &b, b.receive, 100, "a graph");
    }
    CHECK(w->hipGraphExecDestroy(instance) == 0);
    /* Not moved: what was there stays. */
    w->rccltune_simulated_moves_v1(0);
    poison(w, &b);
    memset(b.wanted, 0xa5, 400);
    CHECK(w->ncclAllReduce(b.send, b.receive, 100, FLOAT, SUM, w->comm, w->stream) == 0);
    compare(w, &b, b.receive, 100, "an all_reduce that only takes its time");
    end(w, &b);
}

static void test_graph(void)
{
    made_node("", "");
    CHECK(world_run(4, 60, graph_rank, NULL) == 0);
}

/* A fault's elements are really wrong: its number on one rank, its share on all. */
static void wrong_rank(struct world *w, void *argument)
{
    struct buffers b;
    size_t wrong = 0;
    (void)argument;
    the_type = FLOAT;
    the_operation = SUM;
    make_buffers(w, &b, 4096);
    fill(w, &b, b.send, w->rank, 0, 100);
    want_reduced(&b, w->n_ranks, 0, 100);
    CHECK(w->ncclAllReduce(b.send, b.receive, 100, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipMemcpyAsync(b.host, b.receive, 400, 2, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    for (size_t i = 0; i < 100; i++)
        wrong += memcmp(b.host + 4 * i, b.wanted + 4 * i, 4) != 0;
    CHECK(wrong == (w->rank == 0 ? 13 : 10));
    end(w, &b);
}

static void test_wrong(void)
{
    made_node("", "fault wrong all_reduce - - - - - - - 0 1000 -1 1 3 0.1 segv - -\n");
    CHECK(world_run(4, 60, wrong_rank, NULL) == 0);
}

/* Large buffers of which a few elements were written: right, and small. */
static void sparse_rank(struct world *w, void *argument)
{
    struct buffers b;
    size_t count = 16 << 20;
    static const size_t at[] = {0, 12345, 8388607, (16 << 20) - 1};
    (void)argument;
    the_type = FLOAT;
    the_operation = SUM;
    make_buffers(w, &b, 64 << 20);
    for (int i = 0; i < 4; i++)
        fill(w, &b, b.send + at[i] * 4, w->rank, at[i], 1);
    CHECK(w->ncclAllReduce(b.send, b.receive, count, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    for (int i = 0; i < 4; i++) {
        want_reduced(&b, w->n_ranks, at[i], 1);
        compare(w, &b, b.receive + at[i] * 4, 1, "a large all_reduce");
    }
    put(FLOAT, b.wanted, 0, 0);
    compare(w, &b, b.receive + 4 * 4000000, 1, "what nobody wrote");
    long shared = 0;
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        sscanf(line, "RssShmem: %ld kB", &shared);
    if (status != NULL)
        fclose(status);
    CHECK(shared < 2048);
    end(w, &b);
}

static void test_sparse(void)
{
    made_node("", "");
    CHECK(world_run(4, 60, sparse_rank, NULL) == 0);
}

/* One large number and three ones: what comes out tells where the large one joined.  Sums by hand,
 * ties to even (IEEE 754): 3 + 2^24 is 2^24 + 4; 2^24 + 1 stays, however often. */
static void order_rank(struct world *w, void *argument)
{
    const float *wanted = argument;
    struct buffers b;
    float number = w->rank == 0 ? 0x1p24f : 1, got;
    make_buffers(w, &b, 4096);
    for (int i = 0; i < 16; i++)
        memcpy(b.host + 4 * i, &number, 4);
    CHECK(w->hipMemcpy(b.send, b.host, 64, 1) == 0);
    CHECK(w->ncclAllReduce(b.send, b.receive, 16, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipMemcpyAsync(b.host, b.receive, 64, 2, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    for (int i = 0; i < 16; i++) {
        memcpy(&got, b.host + 4 * i, 4);
        CHECK(got - 0x1p24f == wanted[i / 4]);
    }
    end(w, &b);
}

static void test_order(void)
{
    /* Chunk c of a ring begins behind rank c of the ring, a tree with the ring's last rank. */
    float ring[] = {4, 4, 0, 0}, other_ring[] = {4, 0, 0, 4}, tree[] = {4, 4, 4, 4};
    float other_tree[] = {0, 0, 0, 0};
    made_scale(4, 1);
    made_node("", "");
    setenv("NCCL_PROTO", "LL", 1);
    setenv("NCCL_ALGO", "Ring", 1);
    CHECK(world_run(4, 60, order_rank, ring) == 0);
    setenv("NCCL_ALGO", "Tree", 1);
    CHECK(world_run(4, 60, order_rank, tree) == 0);
    made_node("order 1,2,3\n", "");
    CHECK(world_run(4, 60, order_rank, other_tree) == 0);
    setenv("NCCL_ALGO", "Ring", 1);
    CHECK(world_run(4, 60, order_rank, other_ring) == 0);
    unsetenv("NCCL_ALGO");
    unsetenv("NCCL_PROTO");
}

int main(void)
{
    test_types();
    test_edges();
    test_graph();
    test_wrong();
    test_sparse();
    test_order();
    return check_failures != 0;
}

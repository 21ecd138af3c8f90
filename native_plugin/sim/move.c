/*
 * What a collective does to its data: every rank reduces its own slice of what all have, then all
 * copy the slices.  Sums are added in the library's order, each rounded to the type (adding.h);
 * other operations in double or in whole numbers of 64 bits that wrap, rounded once.  Ranks read
 * each other's device memory through its file; pages that nobody wrote are neither read nor made,
 * so that large buffers of which a program checks samples stay small.
 */
#include "move.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adding.h"
#include "debug.h"
#include "meeting.h"
#include "number.h"

enum { AT_ONCE = 4096 }; /* elements */

/* What a rank tells the others of its part. */
struct told {
    int process, file, n_sends;
    size_t send_at, receive_at; /* in its file */
    size_t table_at;            /* of what it sends in pairs, or of its slice of a reduction */
};
_Static_assert(sizeof(struct told) <= FABRIC_DATA, "fits into a rank's data");

struct sent { /* an entry of that table */
    int peer;
    size_t at, bytes;
};

struct move {
    struct ncclComm *comm;
    int collective, dtype, op, root, n_requests;
    bool in_place;
    struct decision what;
    struct factor factor;
    size_t n_wrong; /* elements of this rank's result that a fault spoils */
    void *table;    /* device memory of this rank, where one is needed */
    struct told *told;
    struct request requests[];
};

static size_t width_of(const struct move *m)
{
    return (size_t)dtype_bytes[m->dtype];
}

static size_t received(const struct move *m)
{
    const struct request *r = m->requests;
    bool all = m->collective == COLL_ALL_GATHER || m->collective == COLL_ALLTOALL;
    if (m->collective == COLL_REDUCE && m->comm->rank != m->root)
        return 0;
    return r->count * (size_t)(all ? m->comm->comm.n_ranks : 1);
}

static int open_peer(const struct told *told)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", told->process, told->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        sim_fail("cannot open another rank's memory, %s: %s", path, strerror(errno));
    return file;
}

/* Meet, and take down what all told; files are opened once a communicator. */
static void tell(struct move *m, const struct told *mine)
{
    struct ncclComm *c = m->comm;
    int n = c->comm.n_ranks;
    *(struct told *)rccltune_fabric_data(c->fabric, c->rank) = *mine;
    rccltune_fabric_meet(c->fabric);
    for (int i = 0; i < n; i++)
        m->told[i] = *(const struct told *)rccltune_fabric_data(c->fabric, i);
    rccltune_fabric_turn(c->fabric);
    if (c->peers != NULL)
        return;
    c->peers = calloc((size_t)n, sizeof *c->peers);
    if (c->peers == NULL)
        sim_fail("no memory for %d ranks", n);
    for (int i = 0; i < n; i++)
        c->peers[i] = open_peer(&m->told[i]);
}

void move_end(struct ncclComm *c)
{
    for (int i = 0; c->peers != NULL && i < c->comm.n_ranks; i++)
        close(c->peers[i]);
    free(c->peers);
}

static void meet(struct move *m)
{
    rccltune_fabric_meet(m->comm->fabric);
    rccltune_fabric_turn(m->comm->fabric);
}

static void read_all(int file, void *to, size_t n, size_t at)
{
    char *out = to;
    while (n > 0) {
        ssize_t got = pread(file, out, n, (off_t)at);
        if (got <= 0)
            sim_fail("cannot read another rank's memory: %s", strerror(errno));
        out += got;
        at += (size_t)got;
        n -= (size_t)got;
    }
}

/* Where from `at` on the next page is that somebody wrote; `end` where there is none before. */
static size_t next_written(int file, size_t at, size_t end)
{
    off_t found = lseek(file, (off_t)at, SEEK_DATA);
    return found < 0 || (size_t)found > end ? end : (size_t)found;
}

static void copy(int file, size_t at, void *to, size_t n)
{
    char *out = to;
    size_t end = at + n;
    while (at < end) {
        size_t written = next_written(file, at, end);
        if (written > at)
            rccltune_machine_clear(out, written - at);
        out += written - at;
        at = written;
        if (at == end)
            break;
        off_t hole = lseek(file, (off_t)at, SEEK_HOLE);
        size_t until = hole < 0 || (size_t)hole > end ? end : (size_t)hole;
        read_all(file, out, until - at, at);
        out += until - at;
        at = until;
    }
}

static void reduce_reals(const struct move *m, size_t at, size_t n, void *out)
{
    double sum[AT_ONCE], next[AT_ONCE];
    char in[AT_ONCE * 8];
    int ranks = m->comm->comm.n_ranks;
    for (int i = 0; i < ranks; i++) {
        read_all(m->comm->peers[i], in, n * width_of(m), m->told[i].send_at + at);
        double *to = i == 0 ? sum : next;
        reals_read(m->dtype, in, n, to);
        for (size_t k = 0; k < n && m->op >= OP_FIRST_MADE; k++)
            to[k] *= m->factor.real;
        if (i > 0)
            reals_combine(m->op, sum, next, n);
    }
    for (size_t k = 0; k < n && m->op == OP_AVG; k++)
        sum[k] /= ranks;
    reals_write(m->dtype, sum, n, out);
}

/* Numbers of all ranks, added in an order. */
static void add_reals(const struct move *m, const struct addition *order, size_t at, size_t n,
                      void *out)
{
    char in[AT_ONCE * 8];
    int ranks = m->comm->comm.n_ranks;
    double *sums = malloc((size_t)ranks * n * sizeof *sums);
    if (sums == NULL)
        sim_fail("no memory for %d ranks' numbers", ranks);
    for (int i = 0; i < ranks; i++) {
        double *mine = sums + (size_t)i * n;
        read_all(m->comm->peers[i], in, n * width_of(m), m->told[i].send_at + at);
        reals_read(m->dtype, in, n, mine);
        for (size_t k = 0; k < n && m->op >= OP_FIRST_MADE; k++)
            mine[k] *= m->factor.real;
    }
    const double *sum = sums;
    for (int i = 0; i < ranks - 1; i++) {
        double *into = sums + (size_t)order[i].into * n;
        reals_combine(OP_SUM, into, sums + (size_t)order[i].from * n, n);
        reals_round(m->dtype, into, n);
        sum = into;
    }
    reals_write(m->dtype, sum, n, out);
    free(sums);
}

static void reduce_wholes(const struct move *m, size_t at, size_t n, void *out)
{
    uint64_t sum[AT_ONCE], next[AT_ONCE];
    char in[AT_ONCE * 8];
    int ranks = m->comm->comm.n_ranks;
    for (int i = 0; i < ranks; i++) {
        read_all(m->comm->peers[i], in, n * width_of(m), m->told[i].send_at + at);
        uint64_t *to = i == 0 ? sum : next;
        wholes_read(m->dtype, in, n, to);
        for (size_t k = 0; k < n && m->op >= OP_FIRST_MADE; k++)
            to[k] *= (uint64_t)m->factor.whole;
        if (i > 0)
            wholes_combine(m->op, m->dtype, sum, next, n);
    }
    if (m->op == OP_AVG)
        wholes_divide(m->dtype, sum, n, ranks);
    wholes_write(m->dtype, sum, n, out);
}

/* Of zeros every operation makes zeros, which need no page. */
static bool is_written(const struct move *m, size_t at, size_t bytes)
{
    for (int i = 0; i < m->comm->comm.n_ranks; i++) {
        size_t from = m->told[i].send_at + at;
        if (next_written(m->comm->peers[i], from, from + bytes) < from + bytes)
            return true;
    }
    return false;
}

/* What all ranks send, elements from `first` on, into `out`. */
static void reduce(const struct move *m, size_t first, size_t n, char *out)
{
    size_t width = width_of(m);
    struct addition order[MAX_RANKS];
    bool adds = dtype_is_real(m->dtype) && (m->op == OP_SUM || m->op >= OP_FIRST_MADE);
    int parts = m->collective == COLL_REDUCE_SCATTER ? m->comm->comm.n_ranks : 1;
    struct adding adding = {.comm = &m->comm->comm,
                            .what = m->what,
                            .collective = m->collective,
                            .root = m->root,
                            .count = m->requests[0].count * (size_t)parts,
                            .width = width};
    while (n > 0) {
        size_t part = n < AT_ONCE ? n : AT_ONCE;
        size_t end = adds ? order_at(&adding, first, order) : 0;
        part = end > 0 && part > end - first ? end - first : part;
        if (!is_written(m, first * width, part * width))
            rccltune_machine_clear(out, part * width);
        else if (end > 0)
            add_reals(m, order, first * width, part, out);
        else
            (dtype_is_real(m->dtype) ? reduce_reals : reduce_wholes)(m, first * width, part, out);
        first += part;
        n -= part;
        out += part * width;
    }
}

struct slice {
    size_t first, n;
};

static struct slice slice_of(const struct move *m, int rank)
{
    size_t ranks = (size_t)m->comm->comm.n_ranks, count = m->requests[0].count;
    size_t share = (count + ranks - 1) / ranks, first = share * (size_t)rank;
    if (first > count)
        first = count;
    return (struct slice){first, share < count - first ? share : count - first};
}

static void all_reduce(struct move *m)
{
    const struct request *r = m->requests;
    struct slice mine = slice_of(m, m->comm->rank);
    size_t width = width_of(m);
    char *out = r->receive;
    reduce(m, mine.first, mine.n, out + mine.first * width);
    meet(m);
    for (int i = 0; i < m->comm->comm.n_ranks; i++) {
        struct slice s = slice_of(m, i);
        if (i != m->comm->rank)
            copy(m->comm->peers[i], m->told[i].receive_at + s.first * width, out + s.first * width,
                 s.n * width);
    }
}

static void reduce_to_root(struct move *m)
{
    const struct request *r = m->requests;
    struct slice mine = slice_of(m, m->comm->rank);
    size_t width = width_of(m);
    reduce(m, mine.first, mine.n, m->table);
    meet(m);
    for (int i = 0; i < m->comm->comm.n_ranks && m->comm->rank == m->root; i++) {
        struct slice s = slice_of(m, i);
        copy(m->comm->peers[i], m->told[i].table_at, (char *)r->receive + s.first * width,
             s.n * width);
    }
}

static void all_gather(struct move *m)
{
    const struct request *r = m->requests;
    size_t bytes = r->count * width_of(m);
    for (int i = 0; i < m->comm->comm.n_ranks; i++) {
        char *to = (char *)r->receive + (size_t)i * bytes;
        if (to != (const char *)r->send || i != m->comm->rank)
            copy(m->comm->peers[i], m->told[i].send_at, to, bytes);
    }
}

/* In place a rank's parts are read before anybody writes. */
static void exchange(struct move *m)
{
    const struct request *r = m->requests;
    size_t bytes = r->count * width_of(m), ranks = (size_t)m->comm->comm.n_ranks;
    char *to = m->in_place ? m->table : r->receive;
    for (size_t i = 0; i < ranks; i++)
        copy(m->comm->peers[i], m->told[i].send_at + (size_t)m->comm->rank * bytes, to + i * bytes,
             bytes);
    if (m->in_place) {
        meet(m);
        copy(m->comm->peers[m->comm->rank], m->told[m->comm->rank].table_at, r->receive,
             bytes * ranks);
    }
}

/* What a rank receives from another is the first of the other's sends to it, then the second. */
static void pairs(struct move *m)
{
    int ranks = m->comm->comm.n_ranks;
    for (int peer = 0; peer < ranks; peer++) {
        const struct told *told = &m->told[peer];
        struct sent *sent = calloc((size_t)told->n_sends + 1, sizeof *sent);
        if (sent == NULL)
            sim_fail("no memory for what another rank sends");
        if (told->n_sends > 0)
            read_all(m->comm->peers[peer], sent, (size_t)told->n_sends * sizeof *sent,
                     told->table_at);
        int next = 0;
        for (int i = 0; i < m->n_requests; i++) {
            const struct request *r = &m->requests[i];
            if (r->send != NULL || r->root != peer)
                continue;
            while (next < told->n_sends && sent[next].peer != m->comm->rank)
                next++;
            size_t bytes = r->count * (size_t)dtype_bytes[r->dtype];
            if (next == told->n_sends || sent[next].bytes != bytes)
                wait_for_ever(); /* nobody sends that */
            copy(m->comm->peers[peer], sent[next++].at, r->receive, bytes);
        }
        free(sent);
    }
}

static size_t at(const void *pointer, size_t bytes, int *file)
{
    size_t found = 0;
    if (bytes > 0 && !rccltune_machine_memory(pointer, bytes, file, &found))
        sim_fail("%p is not %zu bytes of this rank's device memory", pointer, bytes);
    return found;
}

static void *table_of(size_t bytes)
{
    void *table = NULL;
    if (hipMalloc(&table, bytes) != 0)
        sim_fail("no simulated memory to check with");
    return table;
}

static void tell_buffers(struct move *m, struct told *told)
{
    const struct request *r = m->requests;
    size_t bytes = r->count * width_of(m), ranks = (size_t)m->comm->comm.n_ranks;
    size_t sends = m->collective == COLL_REDUCE_SCATTER || m->collective == COLL_ALLTOALL
                       ? bytes * ranks
                       : bytes;
    bool is_root = m->comm->rank == m->root;
    if (m->collective != COLL_BROADCAST || is_root)
        told->send_at = at(r->send, sends, &told->file);
    if (m->collective != COLL_REDUCE || is_root)
        told->receive_at = at(r->receive, received(m) * width_of(m), &told->file);
    size_t room = m->collective == COLL_REDUCE                    ? slice_of(m, 0).n * width_of(m)
                  : m->collective == COLL_ALLTOALL && m->in_place ? bytes * ranks
                                                                  : 0;
    if (room > 0) {
        m->table = table_of(room);
        told->table_at = at(m->table, room, &told->file);
    }
}

static void tell_pairs(struct move *m, struct told *told)
{
    struct sent *sent = table_of(((size_t)m->n_requests + 1) * sizeof *sent);
    for (int i = 0; i < m->n_requests; i++) {
        const struct request *r = &m->requests[i];
        size_t bytes = r->count * (size_t)dtype_bytes[r->dtype];
        if (r->send != NULL)
            sent[told->n_sends++] = (struct sent){
                .peer = r->root, .at = at(r->send, bytes, &told->file), .bytes = bytes};
    }
    m->table = sent;
    told->table_at = at(sent, sizeof *sent, &told->file);
}

/* Bytes that no right result has there. */
static void spoil(const struct move *m)
{
    unsigned char *out = m->requests[0].receive;
    size_t n = received(m) < m->n_wrong ? received(m) : m->n_wrong;
    for (size_t i = 0; i < n * width_of(m); i++)
        out[i] ^= 0x55;
}

static void run(void *data)
{
    struct move *m = data;
    struct told told = {.process = (int)getpid()};
    const struct request *r = m->requests;
    bool is_pairs = r->collective == COLL_SENDRECV;
    if (!moves_data)
        return; /* a replay that nobody looks at */
    m->told = calloc((size_t)m->comm->comm.n_ranks, sizeof *m->told);
    if (m->told == NULL)
        sim_fail("no memory for %d ranks", m->comm->comm.n_ranks);
    number_start(m->comm->comm.library->node->arch);
    (is_pairs ? tell_pairs : tell_buffers)(m, &told);
    tell(m, &told);
    if (is_pairs)
        pairs(m);
    else if (m->collective == COLL_ALL_REDUCE)
        all_reduce(m);
    else if (m->collective == COLL_REDUCE)
        reduce_to_root(m);
    else if (m->collective == COLL_REDUCE_SCATTER)
        reduce(m, (size_t)m->comm->rank * r->count, r->count, r->receive);
    else if (m->collective == COLL_ALL_GATHER)
        all_gather(m);
    else if (m->collective == COLL_ALLTOALL)
        exchange(m);
    else if (r->receive != r->send || m->comm->rank != m->root)
        copy(m->comm->peers[m->root], m->told[m->root].send_at, r->receive, r->count * width_of(m));
    meet(m); /* nobody may write what another still reads */
    spoil(m);
    if (m->table != NULL)
        hipFree(m->table);
    free(m->told);
    m->table = NULL;
}

/* A fault's elements are the first rank's, or the one's that it names; its share is everybody's. */
static size_t wrong_elements(const struct move *m, const struct fabric_call *kernel, int kind)
{
    const struct comm *comm = &m->comm->comm;
    const struct fault *f = NULL;
    struct call call = {.collective = kernel->collective,
                        .dtype = kernel->dtype,
                        .in_place = kernel->in_place,
                        .n_bytes = kernel->n_bytes};
    struct situation s = comm_situation(comm, &call, &kernel->decision);
    size_t wrong = 0;
    while ((f = next_fault(comm->library->node, f, kind, &s)) != NULL) {
        if (m->comm->rank == (f->rank < 0 ? 0 : f->rank) && f->number > 0)
            wrong += (size_t)f->number;
        wrong += (size_t)ceil(f->factor * (double)received(m));
    }
    return wrong;
}

int move_later(const struct request *requests, int n, const struct fabric_call *kernel,
               bool captured)
{
    size_t size = (size_t)n * sizeof *requests;
    struct move *m = calloc(1, sizeof *m + size);
    if (m == NULL)
        return NCCL_SYSTEM_ERROR;
    memcpy(m->requests, requests, size);
    m->comm = requests->comm;
    m->collective = requests->collective;
    m->dtype = requests->dtype;
    m->op = requests->op;
    m->root = requests->root;
    m->in_place = kernel->in_place;
    m->what = kernel->decision;
    m->n_requests = n;
    if (m->op >= OP_FIRST_MADE)
        m->factor = m->comm->premuls[m->op - OP_FIRST_MADE].factor;
    m->n_wrong = wrong_elements(m, kernel, FAULT_WRONG);
    if (captured)
        m->n_wrong += wrong_elements(m, kernel, FAULT_WRONG_REPLAY);
    bool deferred = rccltune_machine_defer(requests->stream, run, free, m) == 0;
    return deferred ? NCCL_SUCCESS : NCCL_UNHANDLED_CUDA_ERROR;
}

struct factor factor_of(const struct ncclComm *comm, int dtype, const void *scalar)
{
    struct factor factor = {0};
    number_start(comm->comm.library->node->arch);
    if (dtype_is_real(dtype))
        reals_read(dtype, scalar, 1, &factor.real);
    else
        wholes_read(dtype, scalar, 1, (uint64_t *)&factor.whole);
    return factor;
}

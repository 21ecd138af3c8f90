#include "order.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "library.h"
#include "rendezvous.h"
#include "summation_tree.h"
#include "values.h"

/* All pairs of ranks are called up to so many, which says more often that a tree fits; beyond, as
 * few as a tree takes, and no more than so many for each rank: a part of very many trees is not
 * taken apart. */
enum { ALL_PAIRS_UP_TO = 8, MOST_CALLS_A_RANK = 8 };
/* Random numbers repeat after so many elements (a prime: no chunk ends there again and again). */
enum { PERIOD = 4093, ONES = 1024, MOST_RANDOM = 8 };
/* Fewer elements do not tell trees apart by their bits alone; larger results are taken apart only
 * where a tree that is known does not explain them. */
enum { ENOUGH = 1024, MOST_TREES = 1024, TAKEN_APART = 4 << 20 };
static const float large = 0x1p60f;

/* One kind of element: what the calls counted for it, and its tree once that is known. */
struct kind {
    uint64_t hash; /* of what was counted */
    size_t example;
    enum tree_state state;
    struct tree tree;
    uint64_t id;
};

/* Elements with one tree, up to `end` of the whole result. */
struct run {
    uint64_t end, id;
};

struct pair {
    unsigned char plus, minus;
};

static struct probe {
    const struct call *call;
    struct graph graph; /* where the step replays one */
    struct row *row;
    enum type type;
    size_t width, first, count; /* this rank's part of the result; bytes of an element */
    char *result;               /* of the whole call, on the host */
    char *random;               /* this part of the random call's */
    unsigned char **counted;    /* of each pair, the ones that joined later, by element */
    struct pair *pairs;
    int n_pairs, most_pairs;
    struct kind *kinds;
    int n_kinds;
    struct run *runs;
    size_t n_runs, room_for_runs;
    float sent; /* all that the send buffer holds, NAN where it holds other things */
} probe;

/* The tree that all elements of this rank's part had at the last step with one, by collective. */
static struct tree known[N_COLLECTIVES];

const char *order_refused(const struct step *step, int n_ranks)
{
    if (step->collective != ALL_REDUCE && step->collective != REDUCE_SCATTER)
        return "all_reduce and reduce_scatter add in an order that can be probed";
    if ((step->type != FLOAT && step->type != BFLOAT16) || step->op != SUM)
        return "sums of float and bfloat16 are probed";
    return n_ranks > MOST_LEAVES ? "there are too many ranks" : NULL;
}

static void *allocate(size_t n, size_t size)
{
    void *made = calloc(n > 0 ? n : 1, size);
    if (made == NULL)
        fail(EXIT_MEMORY, "no memory for %zu times %zu bytes of a probe", n, size);
    return made;
}

/* 24 random bits with exponents over 2^16, as the prototype's; the same in every process. */
static float random_number(int rank, size_t index)
{
    uint64_t x = hash_with(hash_with(hash_start, (uint64_t)rank + 1), index % PERIOD);
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 32;
    float fraction = (float)((int64_t)(x >> 39) - (1 << 24)) / (float)(1 << 24);
    float value = ldexpf(fraction, (int)(x & 15) - MOST_RANDOM);
    return value_of_bits(probe.type, bits_of(probe.type, value));
}

static void put(char *to, size_t index, float value)
{
    uint32_t bits = bits_of(probe.type, value);
    uint16_t half = (uint16_t)bits;
    memcpy(to + index * probe.width, probe.width == 2 ? (void *)&half : (void *)&bits, probe.width);
}

static uint32_t bits_at(const char *from, size_t index)
{
    uint32_t bits;
    uint16_t half;
    memcpy(&half, from + index * probe.width, sizeof half);
    if (probe.width == 2)
        return half;
    memcpy(&bits, from + index * probe.width, sizeof bits);
    return bits;
}

static void send_random(void)
{
    char *numbers = allocate(PERIOD, probe.width);
    for (size_t i = 0; i < PERIOD; i++)
        put(numbers, i, random_number(communicator.rank, i));
    values_spread(places_of(probe.call, 0).send, numbers, PERIOD * probe.width,
                  probe.call->send_bytes);
    probe.sent = NAN;
    free(numbers);
}

static void send_all(float value)
{
    char *numbers;
    if (probe.sent == value && !probe.call->step->in_place)
        return;
    numbers = allocate(ONES, probe.width);
    for (size_t i = 0; i < ONES; i++)
        put(numbers, i, value);
    values_spread(places_of(probe.call, 0).send, numbers, ONES * probe.width,
                  probe.call->send_bytes);
    probe.sent = value;
    free(numbers);
}

/* Makes the call on what the send buffer holds, and copies `bytes` of its result from `first` on.
 */
static void make_call(char *to, size_t first, size_t bytes)
{
    const struct call *call = probe.call;
    if (probe.graph.instance != NULL)
        check_runtime(runtime.launch(probe.graph.instance, communicator.stream), "GraphLaunch");
    else
        check_nccl(call_issue(call, 0), collective_names[call->step->collective]);
    probe.row->made += probe.graph.instance == NULL;
    if (bytes > 0)
        check_runtime(runtime.copy(to, places_of(call, 0).receive + first, bytes, COPY_TO_HOST,
                                   communicator.stream),
                      "MemcpyAsync");
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
}

/* Bits of what the random call left, over all ranks; how many hold others than rank 0 where all
 * hold the same result. */
static uint64_t hash_results(int *n_differing)
{
    uint64_t mine = hash_start, *all = allocate((size_t)communicator.n_ranks, sizeof *all);
    size_t bytes = probe.call->recv_bytes, i = 0;
    for (uint64_t word; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, probe.result + i, sizeof word);
        mine = (mine ^ word) * 1099511628211u;
        mine ^= mine >> 32;
    }
    for (; i < bytes; i++)
        mine = (mine ^ (unsigned char)probe.result[i]) * 1099511628211u;
    rendezvous_gather(&mine, all, sizeof mine);
    *n_differing = 0;
    if (communicator.rank == 0 && probe.call->step->collective == REDUCE_SCATTER) {
        mine = hash_start;
        for (int i_rank = 0; i_rank < communicator.n_ranks; i_rank++)
            mine = hash_with(mine, all[i_rank]);
    } else if (communicator.rank == 0) {
        for (int i_rank = 1; i_rank < communicator.n_ranks; i_rank++)
            *n_differing += all[i_rank] != mine;
    }
    rendezvous_broadcast(n_differing, sizeof *n_differing);
    free(all);
    return mine;
}

static void call_random(uint64_t *bits, int *n_differing)
{
    send_random();
    if (!probe.call->step->in_place)
        check_runtime(runtime.fill(places_of(probe.call, 0).receive, 0xff, probe.call->recv_bytes,
                                   communicator.stream),
                      "MemsetAsync");
    make_call(probe.result, 0, probe.call->recv_bytes);
    bool is_whole = probe.call->step->collective == ALL_REDUCE;
    memcpy(probe.random, probe.result + (is_whole ? probe.first : 0) * probe.width,
           probe.count * probe.width);
    *bits = hash_results(n_differing);
}

/* Makes a call of what was filled in, and counts what a pair tells of this part. */
static void count_ones(const struct pair *pair)
{
    int most = communicator.n_ranks - 2;
    size_t offset = probe.call->step->collective == ALL_REDUCE ? probe.first : 0;
    make_call(probe.result, offset * probe.width, probe.count * probe.width);
    if (pair == NULL)
        return;
    unsigned char *counts = allocate(probe.count, 1);
    for (size_t i = 0; i < probe.count; i++) {
        float value = value_of_bits(probe.type, bits_at(probe.result, i));
        bool is_count = value >= 0 && value <= (float)most && value == floorf(value);
        counts[i] = is_count ? (unsigned char)value : ONES_NONE;
    }
    probe.pairs[probe.n_pairs] = *pair;
    probe.counted[probe.n_pairs++] = counts;
}

/* Elements of this part that are not as a tree predicts. */
static int64_t differing(const struct tree *tree, size_t begin, size_t end)
{
    static struct {
        uint64_t id, first;
        enum type type;
        uint32_t bits[PERIOD];
    } sums;
    uint64_t id = tree_id(tree);
    int64_t wrong = 0;
    if (sums.id != id || sums.type != probe.type) {
        float *values = allocate(PERIOD * (size_t)tree->n, sizeof *values);
        for (int rank = 0; rank < tree->n; rank++) {
            for (size_t i = 0; i < PERIOD; i++)
                values[(size_t)rank * PERIOD + i] = random_number(rank, i);
        }
        tree_sum(tree, probe.type, values, PERIOD, sums.bits);
        sums.id = id;
        sums.type = probe.type;
        free(values);
    }
    for (size_t i = begin; i < end; i++)
        wrong += bits_at(probe.random, i) != sums.bits[(probe.first + i) % PERIOD];
    return wrong;
}

static void add_run(size_t end, uint64_t id)
{
    if (probe.n_runs > 0 && probe.runs[probe.n_runs - 1].id == id) {
        probe.runs[probe.n_runs - 1].end = end;
        return;
    }
    if (probe.n_runs == probe.room_for_runs) {
        probe.room_for_runs = 2 * probe.room_for_runs + 64;
        probe.runs = realloc(probe.runs, probe.room_for_runs * sizeof *probe.runs);
        if (probe.runs == NULL)
            fail(EXIT_MEMORY, "no memory for %zu runs of a probe", probe.room_for_runs);
    }
    probe.runs[probe.n_runs++] = (struct run){end, id};
}

static struct kind *kind_of(size_t at)
{
    uint64_t hash = hash_start;
    for (int k = 0; k < probe.n_pairs; k++)
        hash = (hash ^ probe.counted[k][at]) * 1099511628211u;
    for (int i = 0; i < probe.n_kinds; i++) {
        if (probe.kinds[i].hash == hash)
            return &probe.kinds[i];
    }
    if (probe.n_kinds == MOST_TREES)
        return NULL;
    struct kind *kind = &probe.kinds[probe.n_kinds++];
    *kind = (struct kind){.hash = hash, .example = at, .state = TREE_NONE, .id = hash};
    return kind;
}

/* Where an element was counted otherwise than the one before, another kind begins. */
static size_t end_of_run(size_t at)
{
    size_t end = probe.count;
    for (int k = 0; k < probe.n_pairs; k++) {
        const unsigned char *counts = probe.counted[k];
        size_t i = at + 1;
        while (i < end && counts[i] == counts[at])
            i++;
        end = i;
    }
    return end;
}

/* Sorts elements into kinds by all that was counted; calls that are missing are put into `wanted`.
 */
static void find_kinds(unsigned char *wanted)
{
    int n = communicator.n_ranks;
    unsigned char *ones = allocate((size_t)n * (size_t)n, 1);
    probe.n_kinds = 0;
    for (size_t at = 0; at < probe.count; at = end_of_run(at))
        kind_of(at);
    for (int i = 0; i < probe.n_kinds; i++) {
        struct kind *kind = &probe.kinds[i];
        memset(ones, ONES_UNASKED, (size_t)n * (size_t)n);
        for (int k = 0; k < probe.n_pairs; k++) {
            const struct pair *pair = &probe.pairs[k];
            ones[pair->plus * n + pair->minus] = ones[pair->minus * n + pair->plus] =
                probe.counted[k][kind->example];
        }
        kind->state = tree_build(n, ones, wanted, &kind->tree);
        if (kind->state == TREE_FOUND)
            kind->id = tree_id(&kind->tree);
    }
    free(ones);
}

/* Pairs that a rank wants to have called for its part of the result. */
struct wish {
    int n;
    struct pair pairs[];
};

static size_t wish_bytes(void)
{
    return sizeof(struct wish) + (size_t)probe.most_pairs * sizeof(struct pair);
}

static const struct wish *wish_of(const char *wishes, int rank)
{
    return (const struct wish *)(const void *)(wishes + (size_t)rank * wish_bytes());
}

/* What is wanted for this part; nothing where that is too much. */
static void make_wish(const unsigned char *wanted, struct wish *wish)
{
    int n = communicator.n_ranks, room = probe.most_pairs - probe.n_pairs;
    wish->n = 0;
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            if (wanted[i * n + j] == 0 && wanted[j * n + i] == 0)
                continue;
            if (wish->n == room) {
                wish->n = 0;
                return;
            }
            wish->pairs[wish->n++] = (struct pair){(unsigned char)i, (unsigned char)j};
        }
    }
}

static float number_for(const struct wish *wish, int k)
{
    int rank = communicator.rank;
    if (k >= wish->n)
        return 1;
    return rank == wish->pairs[k].plus ? large : rank == wish->pairs[k].minus ? -large : 1;
}

/* Fills the send buffer with the k-th pair of each rank's part. */
static void send_wishes(const char *wishes, int k)
{
    int n = communicator.n_ranks;
    float first = number_for(wish_of(wishes, 0), k);
    bool is_uniform = true;
    for (int part = 1; part < n; part++)
        is_uniform = is_uniform && number_for(wish_of(wishes, part), k) == first;
    if (is_uniform) {
        send_all(first);
        return;
    }
    size_t count = probe.call->send_bytes / probe.width,
           share = (count + (size_t)n - 1) / (size_t)n;
    char *numbers = allocate(count, probe.width);
    for (size_t i = 0; i < count; i++)
        put(numbers, i, number_for(wish_of(wishes, (int)(i / share)), k));
    values_spread(places_of(probe.call, 0).send, numbers, count * probe.width,
                  probe.call->send_bytes);
    probe.sent = NAN;
    free(numbers);
}

static void call_wishes(const char *wishes)
{
    const struct wish *mine = wish_of(wishes, communicator.rank);
    int most = 0;
    for (int rank = 0; rank < communicator.n_ranks; rank++)
        most = wish_of(wishes, rank)->n > most ? wish_of(wishes, rank)->n : most;
    for (int k = 0; k < most; k++) {
        send_wishes(wishes, k);
        count_ones(k < mine->n ? &mine->pairs[k] : NULL);
    }
}

/* Parts have trees of their own, so that each rank asks what it wants for its own part, and all is
 * called at once. */
static void call_pairs(void)
{
    int n = communicator.n_ranks;
    size_t size = (size_t)n * (size_t)n, bytes = wish_bytes();
    unsigned char *wanted = allocate(size, 1);
    char *wishes = allocate((size_t)n, bytes);
    struct wish *mine = allocate(1, bytes);
    memset(wanted, n <= ALL_PAIRS_UP_TO, size);
    if (n > ALL_PAIRS_UP_TO)
        find_kinds(wanted);
    for (bool goes_on = true; goes_on;) {
        make_wish(wanted, mine);
        rendezvous_gather(mine, wishes, bytes);
        rendezvous_broadcast(wishes, (size_t)n * bytes);
        call_wishes(wishes);
        memset(wanted, 0, size);
        find_kinds(wanted);
        goes_on = false;
        for (int rank = 0; rank < n; rank++)
            goes_on = goes_on || (wish_of(wishes, rank)->n > 0 && n > ALL_PAIRS_UP_TO);
    }
    free(wanted);
    free(wishes);
    free(mine);
}

static void tell_tree(const struct tree *tree, uint64_t id)
{
    static uint64_t told[MOST_TREES];
    static int n_told;
    char text[TREE_TEXT];
    for (int i = 0; i < n_told; i++) {
        if (told[i] == id)
            return;
    }
    if (n_told == MOST_TREES)
        return;
    told[n_told++] = id;
    tree_write(tree, text);
    rows_remark("tree %016" PRIx64 " %s", id, text);
}

static void compare_kinds(void)
{
    size_t end;
    for (size_t at = 0; at < probe.count; at = end) {
        const struct kind *kind = kind_of(at);
        end = end_of_run(at);
        add_run(end, kind != NULL ? kind->id : 0);
        if (kind == NULL || kind->state != TREE_FOUND)
            continue;
        tell_tree(&kind->tree, kind->id);
        probe.row->checked += (int64_t)(end - at);
        probe.row->wrong += differing(&kind->tree, at, end);
    }
}

/* Whether all numbers are those that the last step's one tree predicts: then it is that tree. */
static bool is_known(void)
{
    const struct tree *tree = &known[probe.call->step->collective];
    bool fits = tree->n == communicator.n_ranks && probe.call->n_bytes >= ENOUGH * probe.width &&
                (probe.count == 0 || differing(tree, 0, probe.count) == 0);
    bool is_small = communicator.n_ranks <= ALL_PAIRS_UP_TO && probe.call->n_bytes <= TAKEN_APART;
    if (is_small || !rendezvous_agree(fits))
        return false;
    if (probe.count > 0)
        add_run(probe.count, tree_id(tree));
    probe.row->checked = (int64_t)probe.count;
    return true;
}

static struct {
    struct run *runs;
    size_t n;
    int rank;         /* that the last ones are of */
    int n_here, most; /* kinds of the last owner's, and the most of one */
    uint64_t tree, ids[MOST_TREES];
} joined;

static void end_owner(void)
{
    /* In whatever order they stand. */
    uint64_t sum = 0;
    for (int i = 0; i < joined.n_here; i++)
        sum += hash_with(hash_start, joined.ids[i]);
    if (joined.n_here == 1 && probe.call->step->collective == ALL_REDUCE)
        joined.tree = joined.ids[0];
    else if (joined.n_here > 0)
        joined.tree = hash_with(joined.tree, sum);
    joined.most = joined.n_here > joined.most ? joined.n_here : joined.most;
    joined.n_here = 0;
}

static void join_runs(int rank, const char *text, size_t length)
{
    bool by_owner = probe.call->step->collective == REDUCE_SCATTER;
    size_t n = length / sizeof(struct run);
    uint64_t offset = by_owner ? (uint64_t)rank * probe.call->count : 0;
    joined.runs = realloc(joined.runs, (joined.n + n + 1) * sizeof *joined.runs);
    if (joined.runs == NULL)
        fail(EXIT_MEMORY, "no memory for %zu runs of a probe", joined.n + n);
    for (size_t i = 0; i < n; i++) {
        struct run run;
        memcpy(&run, text + i * sizeof run, sizeof run);
        run.end += offset;
        int k = 0;
        while (k < joined.n_here && joined.ids[k] != run.id)
            k++;
        if (k == joined.n_here && k < MOST_TREES)
            joined.ids[joined.n_here++] = run.id;
        if (joined.n > 0 && joined.runs[joined.n - 1].id == run.id)
            joined.runs[joined.n - 1].end = run.end;
        else
            joined.runs[joined.n++] = run;
    }
    if (by_owner)
        end_owner();
}

static void tell_runs(void)
{
    enum { MOST_TOLD = 3600, EACH = 40 };
    char text[MOST_TOLD + EACH] = "";
    size_t length = 0, i = 0;
    for (; i < joined.n && length < MOST_TOLD; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %016" PRIx64 ":%" PRIu64,
                                   joined.runs[i].id, joined.runs[i].end);
    rows_remark("order %d%s%s", context.line, text, i < joined.n ? " more" : "");
}

/* Rank 0 joins all ranks' parts. */
static void join_parts(struct row *row)
{
    joined.n = 0;
    joined.n_here = joined.most = 0;
    joined.tree = hash_start;
    bool is_whole = probe.call->step->collective == ALL_REDUCE;
    for (size_t i = 0; i < probe.n_runs && is_whole; i++)
        probe.runs[i].end += probe.first;
    rendezvous_collect((const char *)probe.runs, probe.n_runs * sizeof *probe.runs, join_runs);
    if (communicator.rank != 0)
        return;
    if (is_whole)
        end_owner();
    row->trees = joined.most;
    row->tree = joined.tree;
    row->signature = hash_start;
    for (size_t i = 0; i < joined.n; i++) {
        row->signature = hash_with(row->signature, joined.runs[i].id);
        row->signature = hash_with(row->signature, joined.runs[i].end);
    }
    tell_runs();
}

/* The tree of all of this part, for the next step; of an all_reduce rank 0's, who has a part of
 * every result. */
static void remember(int trees)
{
    struct tree *tree = &known[probe.call->step->collective];
    bool is_one = probe.n_kinds == 1 && probe.kinds[0].state == TREE_FOUND;
    rendezvous_broadcast(&trees, sizeof trees);
    if (trees != 1)
        return;
    if (is_one)
        *tree = probe.kinds[0].tree;
    if (probe.call->step->collective == ALL_REDUCE)
        rendezvous_broadcast(tree, sizeof *tree);
}

static void begin(const struct call *call, struct row *row)
{
    size_t n = (size_t)communicator.n_ranks;
    bool is_whole = call->step->collective == ALL_REDUCE;
    size_t share = is_whole ? (call->count + n - 1) / n : call->count;
    probe = (struct probe){.call = call,
                           .row = row,
                           .type = call->step->type,
                           .width = type_bytes[call->step->type],
                           .first = share * (size_t)communicator.rank,
                           .count = share,
                           .runs = probe.runs,
                           .room_for_runs = probe.room_for_runs,
                           .sent = NAN};
    if (is_whole && probe.first + share > call->count) {
        probe.first = probe.first < call->count ? probe.first : call->count;
        probe.count = call->count - probe.first;
    }
    probe.most_pairs = communicator.n_ranks * MOST_CALLS_A_RANK;
    probe.counted = allocate((size_t)probe.most_pairs, sizeof *probe.counted);
    probe.pairs = allocate((size_t)probe.most_pairs, sizeof *probe.pairs);
    probe.kinds = allocate(MOST_TREES, sizeof *probe.kinds);
    probe.result = allocate(call->recv_bytes, 1);
    probe.random = allocate(probe.count, probe.width);
    row->made = row->checked = row->wrong = 0;
}

static void end(void)
{
    graph_forget(&probe.graph);
    for (int k = 0; k < probe.n_pairs; k++)
        free(probe.counted[k]);
    free(probe.counted);
    free(probe.pairs);
    free(probe.kinds);
    free(probe.result);
    free(probe.random);
}

void order_probe(const struct call *call, struct row *row)
{
    static char note[200];
    int n_differing = 0;
    uint64_t bits = 0;
    const char *failed = NULL;
    begin(call, row);
    if (call->step->graph) {
        /* The first call makes connections, which cannot be captured. */
        send_all(1);
        make_call(NULL, 0, 0);
        failed = graph_capture(call, 1, &probe.graph, row);
    }
    move_data(true);
    if (failed != NULL) {
        snprintf(note, sizeof note, "graph: %s", failed);
        row->note = note;
    } else {
        call_random(&bits, &n_differing);
        if (!is_known()) {
            call_pairs();
            compare_kinds();
            join_parts(row);
            remember(row->trees);
        } else {
            join_parts(row);
        }
        row->bits = bits;
    }
    move_data(false);
    if (n_differing > 0) {
        snprintf(note, sizeof note, "%d ranks hold other bits than rank 0", n_differing);
        row->note = note;
        row->wrong += communicator.rank == 0 ? n_differing : 0;
    }
    end();
}

#include "values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

enum { PERIOD = 1021, PIECE = 64 << 10, POISON = 0xff };
enum { MOST_TWOS = 6, MOST_VALUE = 100 };

/* Floating-point formats: bits of exponent and fraction, and the exponent's bias.  FNUZ has one NaN
 * (the sign bit alone), no infinity and no negative zero. */
struct format {
    int exponent_bits, fraction_bits, bias;
};

static struct format format_of(enum type type, bool fnuz)
{
    switch (type) {
    case HALF:
        return (struct format){5, 10, 15};
    case BFLOAT16:
        return (struct format){8, 7, 127};
    case FP8_E4M3:
        return (struct format){4, 3, fnuz ? 8 : 7};
    default:
        return (struct format){5, 2, fnuz ? 16 : 15};
    }
}

static bool is_integer(enum type type)
{
    return type <= UINT64;
}

/* Up to where every whole number has a place in the type. */
static double exact_limit(enum type type)
{
    static const double limits[N_TYPES] = {
        [INT8] = 127,       [UINT8] = 255,      [INT32] = 1 << 30, [UINT32] = 1 << 30,
        [INT64] = 1 << 30,  [UINT64] = 1 << 30, [HALF] = 2048,     [FLOAT] = 1 << 24,
        [DOUBLE] = 1 << 30, [BFLOAT16] = 256,   [FP8_E4M3] = 16,   [FP8_E5M2] = 8,
    };
    return limits[type];
}

void encode(enum type type, bool fnuz, double value, void *to)
{
    switch (type) {
    case INT8:
        *(int8_t *)to = (int8_t)value;
        return;
    case UINT8:
        *(uint8_t *)to = (uint8_t)value;
        return;
    case INT32:
    case UINT32:
        *(int32_t *)to = (int32_t)value;
        return;
    case INT64:
    case UINT64:
        *(int64_t *)to = (int64_t)value;
        return;
    case FLOAT:
        *(float *)to = (float)value;
        return;
    case DOUBLE:
        *(double *)to = value;
        return;
    default:
        break;
    }
    struct format f = format_of(type, fnuz);
    unsigned bits = 0;
    if (value > 0) { /* all values here are */
        int exponent;
        double fraction = frexp(value, &exponent); /* 0.5 <= fraction < 1 */
        int biased = exponent - 1 + f.bias;
        double scale = ldexp(1, f.fraction_bits);
        if (biased > 0)
            bits =
                (unsigned)biased << f.fraction_bits | (unsigned)lrint((2 * fraction - 1) * scale);
        else /* below the smallest normal number */
            bits = (unsigned)lrint(ldexp(value, f.bias - 1) * scale);
    }
    if (type_bytes[type] == 2)
        *(uint16_t *)to = (uint16_t)bits;
    else
        *(uint8_t *)to = (uint8_t)bits;
}

double decode(enum type type, bool fnuz, const void *from)
{
    switch (type) {
    case INT8:
        return *(const int8_t *)from;
    case UINT8:
        return *(const uint8_t *)from;
    case INT32:
        return *(const int32_t *)from;
    case UINT32:
        return *(const uint32_t *)from;
    case INT64:
        return (double)*(const int64_t *)from;
    case UINT64:
        return (double)*(const uint64_t *)from;
    case FLOAT:
        return (double)*(const float *)from;
    case DOUBLE:
        return *(const double *)from;
    default:
        break;
    }
    struct format f = format_of(type, fnuz);
    bool wide = type_bytes[type] == 2;
    unsigned bits = wide ? *(const uint16_t *)from : *(const uint8_t *)from;
    int width = wide ? 16 : 8;
    unsigned sign = bits >> (width - 1), all = (1u << (width - 1)) - 1, rest = bits & all;
    unsigned top = (1u << f.exponent_bits) - 1, fraction = rest & ((1u << f.fraction_bits) - 1);
    unsigned biased = rest >> f.fraction_bits;
    bool fp8 = !wide;
    bool is_nan = fp8 && fnuz        ? sign == 1 && rest == 0
                  : type == FP8_E4M3 ? rest == all
                                     : biased == top;
    if (is_nan)
        return NAN; /* infinities too: neither is ever right here */
    double value = biased == 0
                       ? ldexp((double)fraction, 1 - f.bias - f.fraction_bits)
                       : ldexp(1 + ldexp((double)fraction, -f.fraction_bits), (int)biased - f.bias);
    return sign != 0 ? -value : value;
}

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    x *= 0x297a2d39u;
    return x ^ x >> 15;
}

static bool is_reduction(enum collective collective)
{
    return collective == ALL_REDUCE || collective == REDUCE_SCATTER || collective == REDUCE;
}

/* Where a rank stands in the window of those that send something but the neutral element, which
 * begins anywhere. */
static int place_of(int n_ranks, unsigned pattern, int rank, uint32_t i)
{
    return (int)(((uint32_t)rank + hash(pattern, i, 0xffffffffu)) % (uint32_t)n_ranks);
}

double value_of(const struct step *step, int n_ranks, unsigned pattern, int rank, size_t index)
{
    uint32_t i = (uint32_t)(index % PERIOD);
    uint32_t own = hash(pattern, i, (uint32_t)rank);
    double limit = exact_limit(step->type) / (step->op == MULSUM ? 2 : 1);
    double most = limit < MOST_VALUE ? limit : MOST_VALUE;
    if (is_reduction(step->collective) && step->op == PROD)
        return own % 2 == 0 && place_of(n_ranks, pattern, rank, i) < MOST_TWOS ? 2 : 1;
    if (!is_reduction(step->collective) || step->op == MAX || step->op == MIN)
        return (double)(own % ((uint32_t)most + 1));
    double each = floor(limit / n_ranks);
    if (each >= 1)
        return (double)(own % ((uint32_t)(each < most ? each : most) + 1));
    return place_of(n_ranks, pattern, rank, i) < (int)limit ? (double)(own % 2) : 0;
}

double result_of(const struct step *step, int n_ranks, unsigned pattern, size_t index)
{
    double result = value_of(step, n_ranks, pattern, 0, index);
    for (int rank = 1; rank < n_ranks; rank++) {
        double value = value_of(step, n_ranks, pattern, rank, index);
        switch (step->op) {
        case PROD:
            result *= value;
            break;
        case MAX:
            result = value > result ? value : result;
            break;
        case MIN:
            result = value < result ? value : result;
            break;
        default:
            result += value;
        }
    }
    if (step->op == MULSUM)
        result *= 2;
    if (step->op == AVG)
        result = is_integer(step->type) ? floor(result / n_ranks) : result / n_ranks;
    return result;
}

/* A mean over a number of ranks that is no power of two is rounded, in an order that nobody says.
 */
static double tolerance_of(const struct step *step, int n_ranks)
{
    bool rounds = is_reduction(step->collective) && step->op == AVG && !is_integer(step->type) &&
                  (n_ranks & (n_ranks - 1)) != 0;
    int bits = step->type == DOUBLE  ? 52
               : step->type == FLOAT ? 23
                                     : format_of(step->type, false).fraction_bits;
    return rounds ? n_ranks * ldexp(1, -bits) : 0;
}

/* A table of encoded elements that begins at `first` of the pattern and holds two periods, so that
 * PERIOD elements from any of its places are there. */
struct table {
    size_t width;
    unsigned char *bytes;
};

static struct table table_make(const struct step *step, unsigned pattern, int rank)
{
    struct table table = {.width = type_bytes[step->type]};
    table.bytes = malloc(2 * PERIOD * table.width);
    if (table.bytes == NULL)
        fail(EXIT_USAGE, "no memory for the values of a check");
    for (size_t i = 0; i < PERIOD; i++) {
        double value = rank >= 0 ? value_of(step, communicator.n_ranks, pattern, rank, i)
                                 : result_of(step, communicator.n_ranks, pattern, i);
        encode(step->type, runtime.has_fnuz, value, table.bytes + i * table.width);
    }
    memcpy(table.bytes + PERIOD * table.width, table.bytes, PERIOD * table.width);
    return table;
}

static void copy(void *to, const void *from, size_t bytes, int kind)
{
    check_runtime(runtime.copy(to, from, bytes, kind, communicator.stream), "MemcpyAsync");
}

static void wait(void)
{
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
}

void values_spread(char *to, const void *period, size_t period_bytes, size_t bytes)
{
    size_t there = bytes < period_bytes ? bytes : period_bytes;
    copy(to, period, there, COPY_TO_DEVICE);
    while (there < bytes) {
        size_t more = there < bytes - there ? there : bytes - there;
        copy(to + there, to, more, COPY_ON_DEVICE);
        there += more;
    }
    wait();
}

/* Elements first, first + 1, … of a table's pattern to the device. */
static void fill(char *to, const struct table *table, size_t first, size_t count)
{
    size_t width = table->width;
    values_spread(to, table->bytes + first % PERIOD * width, PERIOD * width, count * width);
}

/* Elements of `got` that are not those of the pattern from `first` on. */
static int64_t differing(const struct step *step, const unsigned char *got,
                         const struct table *table, size_t first, size_t count, double tolerance)
{
    size_t width = table->width;
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *wanted = table->bytes + (first + i) % PERIOD * width;
        size_t left = count - i < PERIOD ? count - i : PERIOD;
        if (i % PERIOD == 0 && memcmp(got + i * width, wanted, left * width) == 0) {
            i += left - 1; /* a whole period is right, as nearly all are */
            continue;
        }
        if (memcmp(got + i * width, wanted, width) == 0)
            continue;
        double value = decode(step->type, runtime.has_fnuz, got + i * width);
        double right = decode(step->type, runtime.has_fnuz, wanted);
        wrong += !(fabs(value - right) <= tolerance * fabs(right)); /* a NaN is wrong */
    }
    return wrong;
}

/* All of a block, or pieces spread over it whose bytes are `most_bytes` together. */
static void compare(const struct step *step, const char *from, const struct table *table,
                    size_t first, size_t count, size_t most_bytes, struct checked *checked)
{
    double tolerance = tolerance_of(step, communicator.n_ranks);
    size_t width = table->width, most = most_bytes / width;
    bool is_whole = count <= most;
    size_t pieces = is_whole ? 1 : most_bytes >= 2 * PIECE ? most_bytes / PIECE : 2;
    size_t piece = is_whole ? count : most / pieces;
    unsigned char *got = malloc(piece * width);
    if (got == NULL)
        fail(EXIT_USAGE, "no memory for the results of a check");
    for (size_t i = 0; i < pieces; i++) {
        size_t at = pieces > 1 ? i * ((count - piece) / (pieces - 1)) : 0;
        copy(got, from + at * width, piece * width, COPY_TO_HOST);
        wait();
        checked->compared += (int64_t)piece;
        checked->wrong += differing(step, got, table, first + at, piece, tolerance);
    }
    free(got);
}

void values_fill(const struct call *call, long number, unsigned pattern)
{
    const struct step *step = call->step;
    struct places places = places_of(call, number), *at = &places;
    size_t count = call->send_bytes / type_bytes[step->type];
    struct table table = table_make(step, pattern, communicator.rank);
    bool sends = step->collective != BROADCAST || communicator.rank == root_of(call, number);
    bool is_all_input = step->in_place && sends && call->recv_bytes <= call->send_bytes;
    if (!is_all_input)
        check_runtime(runtime.fill(at->receive, POISON, call->recv_bytes, communicator.stream),
                      "MemsetAsync");
    if (sends)
        fill(at->send, &table, 0, count);
    wait();
    free(table.bytes);
}

/* What other ranks sent, block by block, from element `first` of each one's input. */
static void compare_blocks(const struct call *call, const struct places *at, unsigned pattern,
                           size_t first, size_t most_bytes, struct checked *checked)
{
    for (int other = 0; other < communicator.n_ranks; other++) {
        struct table table = table_make(call->step, pattern, other);
        size_t block = call->count * type_bytes[call->step->type];
        compare(call->step, at->receive + block * (size_t)other, &table, first, call->count,
                most_bytes / (size_t)communicator.n_ranks, checked);
        free(table.bytes);
    }
}

static void compare_one(const struct call *call, const struct places *at, unsigned pattern,
                        int sender, size_t first, size_t most_bytes, struct checked *checked)
{
    struct table table = table_make(call->step, pattern, sender);
    compare(call->step, at->receive, &table, first, call->count, most_bytes, checked);
    free(table.bytes);
}

struct checked values_compare(const struct call *call, long number, unsigned pattern,
                              size_t most_bytes)
{
    struct places places = places_of(call, number), *at = &places;
    int rank = communicator.rank, n = communicator.n_ranks, root = root_of(call, number);
    struct checked checked = {0, 0};
    enum { THE_RESULT = -1 };
    switch (call->step->collective) {
    case ALL_GATHER:
        compare_blocks(call, at, pattern, 0, most_bytes, &checked);
        break;
    case ALLTOALL:
        compare_blocks(call, at, pattern, call->count * (size_t)rank, most_bytes, &checked);
        break;
    case SENDRECV:
        compare_one(call, at, pattern, (rank + n - 1) % n, 0, most_bytes, &checked);
        break;
    case BROADCAST:
        compare_one(call, at, pattern, root, 0, most_bytes, &checked);
        break;
    case REDUCE:
        if (rank == root)
            compare_one(call, at, pattern, THE_RESULT, 0, most_bytes, &checked);
        break;
    case REDUCE_SCATTER:
        compare_one(call, at, pattern, THE_RESULT, call->count * (size_t)rank, most_bytes,
                    &checked);
        break;
    case ALL_REDUCE:
        compare_one(call, at, pattern, THE_RESULT, 0, most_bytes, &checked);
        break;
    case N_COLLECTIVES:
        break;
    }
    return checked;
}

struct checked check_call(const struct call *call, unsigned pattern, bool can_compare)
{
    enum { WHOLE = 4 << 20 };
    if (can_compare) {
        move_data(true);
        values_fill(call, 0, pattern);
    }
    check_nccl(call_issue(call, 0), collective_names[call->step->collective]);
    wait();
    if (!can_compare)
        return (struct checked){-1, -1};
    move_data(false);
    return values_compare(call, 0, pattern, WHOLE);
}

#include "number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

/* A floating-point type of one or two bytes. */
struct format {
    int bits, mantissa, bias;
    bool fnuz;      /* no infinities, no -0, whose bits are the one NaN */
    bool has_inf;   /* the largest exponent is infinities and NaNs; else all ones alone is NaN */
    double largest; /* finite */
};
enum { HALF, BFLOAT, E4M3, E5M2, N_FORMATS };

static const struct format plain[N_FORMATS] = {
    {16, 10, 15, false, true, 65504},
    {16, 7, 127, false, true, 0x1.FEp127},
    {8, 3, 7, false, false, 448},
    {8, 2, 15, false, true, 57344},
};
static const struct format fnuz[2] = {{8, 3, 8, true, false, 240}, {8, 2, 16, true, false, 57344}};

static struct format formats[N_FORMATS];
static float *values[N_FORMATS]; /* by their bits */

static double decode(const struct format *f, unsigned bits)
{
    int exponent_bits = f->bits - 1 - f->mantissa;
    unsigned fraction = bits & ((1u << f->mantissa) - 1);
    int exponent = (int)(bits >> f->mantissa & ((1u << exponent_bits) - 1));
    bool negative = bits >> (f->bits - 1) != 0;
    int top = (1 << exponent_bits) - 1;
    double value;
    if (f->fnuz && bits == 1u << (f->bits - 1))
        return NAN;
    if (f->has_inf && exponent == top)
        value = fraction == 0 ? INFINITY : NAN;
    else if (!f->fnuz && !f->has_inf && exponent == top && fraction == (1u << f->mantissa) - 1)
        value = NAN;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - f->bias - f->mantissa);
    else
        value = ldexp(fraction + (1u << f->mantissa), exponent - f->bias - f->mantissa);
    return negative ? -value : value;
}

static unsigned not_a_number(const struct format *f)
{
    return f->fnuz ? 1u << (f->bits - 1) : (1u << (f->bits - 1)) - 1;
}

/* What is too large becomes infinity in two bytes, and the largest in one, as the converting
 * instructions do. */
static unsigned encode(const struct format *f, double value)
{
    unsigned sign = signbit(value) ? 1u << (f->bits - 1) : 0;
    double size = fabs(value);
    int exponent;
    if (isnan(value))
        return not_a_number(f);
    if (size == 0)
        return f->fnuz ? 0 : sign;
    frexp(size, &exponent); /* 0.5 <= size / 2^exponent < 1 */
    int least = 1 - f->bias, power = exponent - 1 < least ? least : exponent - 1;
    double steps = nearbyint(ldexp(size, f->mantissa - power)); /* ties to even */
    double rounded = ldexp(steps, power - f->mantissa);
    if (rounded > f->largest) {
        if (f->bits == 16)
            return sign | ((1u << (f->bits - 1 - f->mantissa)) - 1) << f->mantissa;
        rounded = f->largest;
        frexp(rounded, &exponent);
        power = exponent - 1;
        steps = ldexp(rounded, f->mantissa - power);
    }
    unsigned whole = (unsigned)steps, one = 1u << f->mantissa;
    /* A carry into the next power of two is one in the exponent. */
    unsigned bits =
        whole < one ? whole : ((unsigned)(power - least + 1) << f->mantissa) + whole - one;
    return bits == 0 && f->fnuz ? 0 : sign | bits;
}

void number_start(const char *arch)
{
    if (values[0] != NULL)
        return;
    memcpy(formats, plain, sizeof plain);
    if (strncmp(arch, "gfx94", 5) == 0)
        memcpy(&formats[E4M3], fnuz, sizeof fnuz);
    for (int i = N_FORMATS - 1; i >= 0; i--) {
        size_t n = (size_t)1 << formats[i].bits;
        values[i] = malloc(n * sizeof *values[i]);
        if (values[i] == NULL)
            sim_fail("no memory for the values of a type");
        for (size_t k = 0; k < n; k++)
            values[i][k] = (float)decode(&formats[i], (unsigned)k);
    }
}

enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, DOUBLE = 8 };

bool dtype_is_real(int dtype)
{
    return dtype > UINT64;
}

static int format_of(int dtype)
{
    return dtype == DTYPE_HALF       ? HALF
           : dtype == DTYPE_BFLOAT16 ? BFLOAT
                                     : E4M3 + dtype - DTYPE_FP8_E4M3;
}

#define EACH(type, to, from)                                                                       \
    do {                                                                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            type x;                                                                                \
            memcpy(&x, (const char *)in + i * sizeof x, sizeof x);                                 \
            to = from;                                                                             \
        }                                                                                          \
    } while (0)

void reals_read(int dtype, const void *in, size_t n, double *out)
{
    if (dtype == DTYPE_FLOAT)
        EACH(float, out[i], (double)x);
    else if (dtype == DOUBLE)
        EACH(double, out[i], x);
    else if (dtype_bytes[dtype] == 2)
        EACH(uint16_t, out[i], (double)values[format_of(dtype)][x]);
    else
        EACH(uint8_t, out[i], (double)values[format_of(dtype)][x]);
}

#define PUT(type, value)                                                                           \
    do {                                                                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            type x = (type)(value);                                                                \
            memcpy((char *)out + i * sizeof x, &x, sizeof x);                                      \
        }                                                                                          \
    } while (0)

void reals_write(int dtype, const double *in, size_t n, void *out)
{
    if (dtype == DTYPE_FLOAT)
        PUT(float, in[i]);
    else if (dtype == DOUBLE)
        memcpy(out, in, n * sizeof *in);
    else if (dtype_bytes[dtype] == 2)
        PUT(uint16_t, encode(&formats[format_of(dtype)], in[i]));
    else
        PUT(uint8_t, encode(&formats[format_of(dtype)], in[i]));
}

/* To the type and back.  A sum of two bfloat16 that a float has to round is far from the middle of
 * two of them, so that rounding twice is as rounding once. */
static double rounded(int dtype, double number)
{
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (dtype == DTYPE_FLOAT)
        return (double)single;
    if (dtype == DTYPE_BFLOAT16 && isfinite(single))
        return (double)values[BFLOAT][(bits + 0x7fffu + (bits >> 16 & 1u)) >> 16];
    return (double)values[format_of(dtype)][encode(&formats[format_of(dtype)], number)];
}

void reals_round(int dtype, double *numbers, size_t n)
{
    for (size_t i = 0; i < n && dtype != DOUBLE; i++)
        numbers[i] = rounded(dtype, numbers[i]);
}

#define COMBINE(expression)                                                                        \
    for (size_t i = 0; i < n; i++)                                                                 \
        sum[i] = expression;                                                                       \
    break

void reals_combine(int op, double *sum, const double *next, size_t n)
{
    switch (op) {
    case OP_PROD:
        COMBINE(sum[i] * next[i]);
    case OP_MAX:
        COMBINE(next[i] > sum[i] ? next[i] : sum[i]);
    case OP_MIN:
        COMBINE(next[i] < sum[i] ? next[i] : sum[i]);
    default:
        COMBINE(sum[i] + next[i]);
    }
}

void wholes_read(int dtype, const void *in, size_t n, uint64_t *out)
{
    switch (dtype) {
    case INT8:
        EACH(int8_t, out[i], (uint64_t)(int64_t)x);
        break;
    case UINT8:
        EACH(uint8_t, out[i], x);
        break;
    case INT32:
        EACH(int32_t, out[i], (uint64_t)(int64_t)x);
        break;
    case UINT32:
        EACH(uint32_t, out[i], x);
        break;
    default:
        memcpy(out, in, n * sizeof *out);
    }
}

void wholes_write(int dtype, const uint64_t *in, size_t n, void *out)
{
    if (dtype_bytes[dtype] == 1)
        PUT(uint8_t, in[i]);
    else if (dtype_bytes[dtype] == 4)
        PUT(uint32_t, in[i]);
    else
        memcpy(out, in, n * sizeof *in);
}

static bool is_signed(int dtype)
{
    return dtype == INT8 || dtype == INT32 || dtype == INT64;
}

void wholes_combine(int op, int dtype, uint64_t *sum, const uint64_t *next, size_t n)
{
    /* Turning the sign's bit round makes signed numbers compare as unsigned ones. */
    uint64_t turn = is_signed(dtype) ? (uint64_t)1 << 63 : 0;
    switch (op) {
    case OP_PROD:
        COMBINE(sum[i] * next[i]);
    case OP_MAX:
        COMBINE((next[i] ^ turn) > (sum[i] ^ turn) ? next[i] : sum[i]);
    case OP_MIN:
        COMBINE((next[i] ^ turn) < (sum[i] ^ turn) ? next[i] : sum[i]);
    default:
        COMBINE(sum[i] + next[i]);
    }
}

void wholes_divide(int dtype, uint64_t *sum, size_t n, int by)
{
    char wrapped[8];
    for (size_t i = 0; i < n; i++) {
        wholes_write(dtype, &sum[i], 1, wrapped);
        wholes_read(dtype, wrapped, 1, &sum[i]);
        sum[i] = is_signed(dtype) ? (uint64_t)((int64_t)sum[i] / by) : sum[i] / (uint64_t)by;
    }
}

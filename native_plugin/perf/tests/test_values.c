/* What is sent and what must come of it: encodings against published ones, and that no order of
 * reducing rounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "values.h"

/* Sources: OCP 8-bit Floating Point Specification 1.0, table 1; IEEE 754 half; bfloat16 as the
 * upper half of a float; FNUZ as LLVM's APFloat documents Float8E4M3FNUZ and Float8E5M2FNUZ. */
static const struct {
    enum type type;
    bool fnuz;
    uint16_t bits;
    double value;
} known[] = {
    {HALF, false, 0x3c00, 1},         {HALF, false, 0x6800, 2048},
    {HALF, false, 0x0001, 0x1p-24},   {BFLOAT16, false, 0x3f80, 1},
    {BFLOAT16, false, 0x4380, 256},   {FP8_E4M3, false, 0x38, 1},
    {FP8_E4M3, false, 0x58, 16},      {FP8_E4M3, false, 0x7e, 448},
    {FP8_E4M3, false, 0x08, 0x1p-6},  {FP8_E4M3, false, 0x01, 0x1p-9},
    {FP8_E5M2, false, 0x3c, 1},       {FP8_E5M2, false, 0x7b, 57344},
    {FP8_E5M2, false, 0x01, 0x1p-16}, {FP8_E4M3, true, 0x40, 1},
    {FP8_E4M3, true, 0x7f, 240},      {FP8_E4M3, true, 0x01, 0x1p-10},
    {FP8_E5M2, true, 0x40, 1},        {FP8_E5M2, true, 0x7f, 57344},
    {FP8_E5M2, true, 0x01, 0x1p-17},
};

static void check_known_encodings(void)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint16_t wide = 0;
        uint8_t narrow = 0;
        bool is_wide = type_bytes[known[i].type] == 2;
        void *at = is_wide ? (void *)&wide : (void *)&narrow;
        encode(known[i].type, known[i].fnuz, known[i].value, at);
        CHECK((is_wide ? wide : narrow) == known[i].bits);
        CHECK(decode(known[i].type, known[i].fnuz, at) == known[i].value);
    }
    const uint8_t nans[] = {0x7f, 0xff, 0x80};
    CHECK(isnan(decode(FP8_E4M3, false, &nans[0])) && isnan(decode(FP8_E4M3, false, &nans[1])));
    CHECK(isnan(decode(FP8_E4M3, true, &nans[2])) && isnan(decode(FP8_E5M2, true, &nans[2])));
    CHECK(decode(FP8_E4M3, false, &nans[2]) == 0); /* minus zero there */
    const uint8_t negative = 0xb8;
    CHECK(decode(FP8_E4M3, false, &negative) == -1);
}

/* Poisoned output is never a right result, whatever the type. */
static void check_poison(void)
{
    unsigned char poison[8];
    memset(poison, 0xff, sizeof poison);
    for (int type = 0; type < N_TYPES; type++) {
        struct step step = {.collective = ALL_REDUCE, .type = (enum type)type, .op = SUM};
        for (size_t i = 0; i < 1021; i++) {
            unsigned char right[8] = {0};
            encode(step.type, false, result_of(&step, 64, 1, i), right);
            CHECK(memcmp(right, poison, type_bytes[type]) != 0);
        }
    }
}

static bool is_exact(enum type type, bool fnuz, double value)
{
    unsigned char bytes[8] = {0};
    encode(type, fnuz, value, bytes);
    return decode(type, fnuz, bytes) == value;
}

static double combine(enum op op, double a, double b)
{
    switch (op) {
    case PROD:
        return a * b;
    case MAX:
        return a > b ? a : b;
    case MIN:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

/* Ranks in a random order, as rings and trees take them: each partial result has its place in the
 * type, and the end is what is expected. */
static void check_an_order(const struct step *step, bool fnuz, int n, size_t index)
{
    int order[64] = {0};
    double scale = step->op == MULSUM ? 2 : 1;
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = rand() % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    double partial = scale * value_of(step, n, 7, order[0], index);
    for (int i = 1; i < n; i++) {
        CHECK(is_exact(step->type, fnuz, partial));
        partial = combine(step->op, partial, scale * value_of(step, n, 7, order[i], index));
    }
    CHECK(is_exact(step->type, fnuz, partial));
    CHECK(partial == result_of(step, n, 7, index));
}

static void check_all_orders(void)
{
    static const int sizes[] = {2, 3, 8, 48, 64};
    static const enum op ops[] = {SUM, PROD, MAX, MIN, MULSUM};
    for (int type = 0; type < N_TYPES; type++) {
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                struct step step = {
                    .collective = ALL_REDUCE, .type = (enum type)type, .op = ops[o]};
                for (size_t i = 0; i < 200; i++)
                    check_an_order(&step, i % 2 == 0, sizes[s], i * 37);
            }
        }
    }
}

/* A rank that is left out, or taken twice, shows in some element of every 4 KiB. */
static void check_that_a_missing_rank_shows(void)
{
    static const int sizes[] = {2, 8, 64};
    for (int type = 0; type < N_TYPES; type++) {
        struct step step = {.collective = REDUCE_SCATTER, .type = (enum type)type, .op = SUM};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int rank = 0; rank < sizes[s]; rank++) {
                bool shows = false;
                for (size_t i = 0; i < 512; i++)
                    shows |= value_of(&step, sizes[s], 3, rank, i) != 0;
                CHECK(shows);
            }
        }
    }
}

/* Two checks, two ranks and two places do not send the same. */
static void check_that_patterns_differ(void)
{
    struct step step = {.collective = ALL_GATHER, .type = UINT8, .op = SUM};
    int same_rank = 0, same_pattern = 0, same_shift = 0;
    for (size_t i = 0; i < 1021; i++) {
        double value = value_of(&step, 64, 5, 3, i);
        same_rank += value == value_of(&step, 64, 5, 4, i);
        same_pattern += value == value_of(&step, 64, 6, 3, i);
        same_shift += value == value_of(&step, 64, 5, 3, i + 4096);
    }
    CHECK(same_rank < 100 && same_pattern < 100 && same_shift < 100);
    CHECK(value_of(&step, 64, 5, 3, 9) == value_of(&step, 64, 5, 3, 9 + 1021));
}

int main(void)
{
    check_known_encodings();
    check_poison();
    check_all_orders();
    check_that_a_missing_rank_shows();
    check_that_patterns_differ();
    return check_result();
}

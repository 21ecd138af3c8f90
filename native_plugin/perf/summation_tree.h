/*
 * The tree by which a collective adds the ranks' numbers, found from calls whose numbers cancel:
 * rank i sends +M, rank j -M and all others 1, of which M swallows what is added to it.  So the
 * result counts the ones that join after +M and -M met, and the ranks that are left are the leaves
 * below the place where i and j meet.  A chain takes n - 1 such calls.
 *
 * Source: FPRev, arXiv 2411.00442, section 4 (its pivot is always the first rank; here the last and
 * the first take turns, so that chains of either direction take n - 1 or few more).
 */
#ifndef RCCLTUNE_PERF_SUMMATION_TREE_H
#define RCCLTUNE_PERF_SUMMATION_TREE_H

#include "perf.h"

enum { MOST_LEAVES = 250, ONES_UNASKED = 255, ONES_NONE = 254, TREE_TEXT = 8 * MOST_LEAVES };

/* n - 1 additions in their order: the sum at `into` becomes that of `into` and `from`. */
struct tree {
    int n;
    unsigned char into[MOST_LEAVES], from[MOST_LEAVES];
};

enum tree_state { TREE_FOUND, TREE_ASKS, TREE_NONE };

/* Builds the tree of n ranks.  `ones[i * n + j]`, symmetric, is what the call of i and j counted,
 * ONES_UNASKED where it was not made.  TREE_ASKS: calls are missing, which `wanted` then has (what
 * it had stays).  TREE_NONE: what was counted fits no binary tree. */
enum tree_state tree_build(int n, const unsigned char *ones, unsigned char *wanted,
                           struct tree *tree);

/* (((2+3)+1)+0): the larger part first, of equal ones that with the lowest rank. */
void tree_write(const struct tree *tree, char text[TREE_TEXT]);

/* A number for what tree_write() writes. */
uint64_t tree_id(const struct tree *tree);

/* Sums in the tree's order, each rounded to the type (FLOAT or BFLOAT16): `values` has `count`
 * numbers of rank 0, then of rank 1, …, and is spoiled; `sums` gets their bits. */
void tree_sum(const struct tree *tree, enum type type, float *values, size_t count, uint32_t *sums);

/* Bits of a number in FLOAT or BFLOAT16, ties to even, and back. */
uint32_t bits_of(enum type type, float value);
float value_of_bits(enum type type, uint32_t bits);

/* FNV-1a over eight bytes more. */
enum { FNV_BYTES = 8 };
extern const uint64_t hash_start;
uint64_t hash_with(uint64_t hash, uint64_t value);

#endif

#include "summation_tree.h"

#include <stdio.h>
#include <string.h>

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/. */
const uint64_t hash_start = 14695981039346656037u;

uint64_t hash_with(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < FNV_BYTES; i++)
        hash = (hash ^ (value >> (8 * i) & 0xff)) * 1099511628211u;
    return hash;
}

struct builder {
    int n, n_made;
    const unsigned char *ones;
    unsigned char *wanted;
    struct tree *tree;
    bool asks, fits;
};

/* Leaves below the place where two ranks meet. */
static int leaves_of(const struct builder *b, int i, int j)
{
    return b->n - b->ones[i * b->n + j];
}

static bool ask_for(struct builder *b, const unsigned char *set, int size, int pivot)
{
    bool has_all = true;
    for (int k = 0; k < size; k++) {
        int at = pivot * b->n + set[k];
        if (set[k] == pivot || b->ones[at] != ONES_UNASKED)
            continue;
        b->wanted[at] = 1;
        has_all = false;
    }
    b->asks = b->asks || !has_all;
    return has_all;
}

/* Adds up the ranks of a subtree; the rank at which their sum stands then. */
static int build(struct builder *b, const unsigned char *set, int size, int depth)
{
    unsigned char part[MOST_LEAVES];
    int pivot = set[depth % 2 == 0 ? size - 1 : 0];
    if (size == 1 || !ask_for(b, set, size, pivot))
        return pivot;
    for (int joined = 1; joined < size && b->fits;) {
        int next = size + 1, n_part = 0;
        for (int k = 0; k < size; k++) {
            int leaves = set[k] == pivot ? 0 : leaves_of(b, pivot, set[k]);
            if (leaves > joined && leaves < next)
                next = leaves;
        }
        for (int k = 0; k < size; k++) {
            if (set[k] != pivot && leaves_of(b, pivot, set[k]) == next)
                part[n_part++] = set[k];
        }
        b->fits = n_part > 0 && next == joined + n_part;
        if (!b->fits)
            break;
        int other = build(b, part, n_part, depth + 1);
        if (b->n_made < b->n - 1) {
            b->tree->into[b->n_made] = (unsigned char)pivot;
            b->tree->from[b->n_made++] = (unsigned char)other;
        }
        joined = next;
    }
    return pivot;
}

/* Whether all calls that were made, also those that the tree did not need, counted what it says. */
static bool is_as_counted(const struct builder *b)
{
    int n = b->n, sum_of[MOST_LEAVES], size[MOST_LEAVES];
    for (int i = 0; i < n; i++) {
        sum_of[i] = i;
        size[i] = 1;
    }
    for (int k = 0; k < n - 1; k++) {
        int into = b->tree->into[k], from = b->tree->from[k];
        size[into] += size[from];
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n && sum_of[i] == into; j++) {
                int counted = b->ones[i * n + j];
                if (sum_of[j] == from && counted != ONES_UNASKED && n - counted != size[into])
                    return false;
            }
        }
        for (int i = 0; i < n; i++)
            sum_of[i] = sum_of[i] == from ? into : sum_of[i];
    }
    return true;
}

enum tree_state tree_build(int n, const unsigned char *ones, unsigned char *wanted,
                           struct tree *tree)
{
    unsigned char all[MOST_LEAVES];
    struct builder b = {n, 0, ones, wanted, tree, false, true};
    for (int i = 0; i < n; i++)
        all[i] = (unsigned char)i;
    tree->n = n;
    build(&b, all, n, 0);
    if (!b.fits)
        return TREE_NONE;
    if (b.asks)
        return TREE_ASKS;
    return b.n_made == n - 1 && is_as_counted(&b) ? TREE_FOUND : TREE_NONE;
}

void tree_write(const struct tree *tree, char text[TREE_TEXT])
{
    /* Parts as lists of ranks with their brackets, each at its sum's rank. */
    static char parts[MOST_LEAVES][TREE_TEXT];
    static char joined[TREE_TEXT];
    int size[MOST_LEAVES], lowest[MOST_LEAVES];
    for (int i = 0; i < tree->n; i++) {
        snprintf(parts[i], TREE_TEXT, "%d", i);
        size[i] = 1;
        lowest[i] = i;
    }
    int root = 0;
    for (int k = 0; k < tree->n - 1; k++) {
        int a = tree->into[k], b = tree->from[k];
        root = a;
        bool is_first = size[a] != size[b] ? size[a] > size[b] : lowest[a] < lowest[b];
        const char *larger = parts[is_first ? a : b], *other = parts[is_first ? b : a];
        size_t n_larger = strlen(larger), n_other = strlen(other);
        joined[0] = '(';
        memcpy(joined + 1, larger, n_larger);
        joined[1 + n_larger] = '+';
        memcpy(joined + 2 + n_larger, other, n_other);
        memcpy(joined + 2 + n_larger + n_other, ")", 2);
        memcpy(parts[a], joined, n_larger + n_other + 4);
        size[a] += size[b];
        lowest[a] = lowest[b] < lowest[a] ? lowest[b] : lowest[a];
    }
    memcpy(text, parts[root], TREE_TEXT);
}

uint64_t tree_id(const struct tree *tree)
{
    char text[TREE_TEXT];
    uint64_t hash = hash_start;
    tree_write(tree, text);
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

uint32_t bits_of(enum type type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return type == FLOAT ? bits : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

float value_of_bits(enum type type, uint32_t bits)
{
    float value;
    bits = type == FLOAT ? bits : bits << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void tree_sum(const struct tree *tree, enum type type, float *values, size_t count, uint32_t *sums)
{
    const float *sum = values;
    for (int k = 0; k < tree->n - 1; k++) {
        float *into = values + tree->into[k] * count;
        const float *from = values + tree->from[k] * count;
        for (size_t i = 0; i < count; i++) {
            float added = into[i] + from[i];
            into[i] = type == FLOAT ? added : value_of_bits(type, bits_of(type, added));
        }
        sum = into;
    }
    for (size_t i = 0; i < count; i++)
        sums[i] = bits_of(type, sum[i]);
}

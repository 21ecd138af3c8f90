/* Trees that are found again from what calls count, with few calls, and the sums that they predict.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "summation_tree.h"

/* A tree made by hand: who joins whom, in order. */
struct made {
    int n;
    int into[MOST_LEAVES], from[MOST_LEAVES];
};

/* Ones that join after +M of i and -M of j met: by adding numbers, as a library does. */
static int counted(const struct made *made, int i, int j)
{
    float sums[MOST_LEAVES] = {0};
    int last = 0;
    for (int k = 0; k < made->n; k++)
        sums[k] = k == i ? 0x1p60f : k == j ? -0x1p60f : 1;
    for (int k = 0; k < made->n - 1; k++) {
        last = made->into[k];
        sums[last] += sums[made->from[k]];
    }
    return (int)sums[last];
}

/* Asks what is wanted until the tree is there; how many calls that took. */
static int find(const struct made *made, struct tree *tree, enum tree_state *state)
{
    static unsigned char ones[MOST_LEAVES * MOST_LEAVES], wanted[MOST_LEAVES * MOST_LEAVES];
    int n = made->n, calls = 0;
    memset(ones, ONES_UNASKED, sizeof ones);
    memset(wanted, 0, sizeof wanted);
    while ((*state = tree_build(n, ones, wanted, tree)) == TREE_ASKS) {
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                if (wanted[i * n + j] == 0 || ones[i * n + j] != ONES_UNASKED)
                    continue;
                ones[i * n + j] = ones[j * n + i] = (unsigned char)counted(made, i, j);
                calls++;
            }
        }
    }
    return calls;
}

static void make_chain(struct made *made, int n, int step)
{
    made->n = n;
    for (int k = 1; k < n; k++) {
        made->into[k - 1] = step > 0 ? k : n - 1 - k;
        made->from[k - 1] = step > 0 ? k - 1 : n - k;
    }
}

static void check_text(const struct made *made, const char *wanted)
{
    struct tree tree;
    enum tree_state state;
    char text[TREE_TEXT];
    find(made, &tree, &state);
    CHECK(state == TREE_FOUND);
    tree_write(&tree, text);
    CHECK(strcmp(text, wanted) == 0);
}

/* As the prototype printed them of NCCL on one H200. */
static void check_known_trees(void)
{
    struct made made = {.n = 4};
    make_chain(&made, 4, -1);
    check_text(&made, "(((2+3)+1)+0)");
    make_chain(&made, 4, 1);
    check_text(&made, "(((0+1)+2)+3)");
    made = (struct made){4, {0, 2, 0}, {1, 3, 2}};
    check_text(&made, "((0+1)+(2+3))");
    made = (struct made){2, {1}, {0}};
    check_text(&made, "(0+1)");
}

/* A chain of either direction takes n - 1 calls and n - 2 more at most. */
static void check_calls(void)
{
    struct made made = {.n = 64};
    struct tree tree;
    enum tree_state state;
    make_chain(&made, 64, -1);
    CHECK(find(&made, &tree, &state) == 63 && state == TREE_FOUND);
    make_chain(&made, 64, 1);
    CHECK(find(&made, &tree, &state) == 63 + 62 && state == TREE_FOUND);
}

/* Whatever binary tree: what is found adds as the one that was made, bit by bit. */
static void check_any_tree(void)
{
    srand(7);
    for (int round = 0; round < 200; round++) {
        struct made made = {.n = 2 + rand() % 40};
        struct tree tree;
        enum tree_state state;
        int left[MOST_LEAVES], n_left = made.n;
        float values[MOST_LEAVES], sums[MOST_LEAVES], sum = 0;
        uint32_t bits;
        for (int i = 0; i < made.n; i++) {
            left[i] = i;
            sums[i] = values[i] = (float)rand() / 3e5f - 3000.0f;
        }
        for (int k = 0; n_left > 1; k++) {
            int a = rand() % n_left, b = rand() % (n_left - 1);
            b += b >= a;
            made.into[k] = left[a];
            made.from[k] = left[b];
            sums[left[a]] += sums[left[b]];
            sum = sums[left[a]];
            left[b] = left[--n_left];
        }
        find(&made, &tree, &state);
        CHECK(state == TREE_FOUND);
        tree_sum(&tree, FLOAT, values, 1, &bits);
        CHECK(value_of_bits(FLOAT, bits) == sum);
    }
}

/* Three numbers that are added at once are no binary tree; nor is a number that counts nothing. */
static void check_no_tree(void)
{
    unsigned char wanted[9] = {0}, ones[9];
    struct tree tree;
    memset(ones, 0, sizeof ones);
    CHECK(tree_build(3, ones, wanted, &tree) == TREE_NONE);
    memset(ones, ONES_NONE, sizeof ones);
    CHECK(tree_build(3, ones, wanted, &tree) == TREE_NONE);
}

/* Ties go to even (IEEE 754), in a float's upper half as well: 256 + 1 and 256 + 3 as bfloat16. */
static void check_rounding(void)
{
    struct made made = {3, {0, 0}, {1, 2}};
    struct tree tree;
    enum tree_state state;
    float values[3] = {256, 1, 1}, others[3] = {256, 3, 0};
    uint32_t bits;
    find(&made, &tree, &state);
    tree_sum(&tree, BFLOAT16, values, 1, &bits);
    CHECK(value_of_bits(BFLOAT16, bits) == 256);
    tree_sum(&tree, BFLOAT16, others, 1, &bits);
    CHECK(value_of_bits(BFLOAT16, bits) == 260);
}

int main(void)
{
    check_known_trees();
    check_calls();
    check_any_tree();
    check_no_tree();
    check_rounding();
    return check_result();
}

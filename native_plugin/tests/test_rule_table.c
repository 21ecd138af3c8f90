/* The table says what a plain scan of the file says, for every size that can make a difference. */
#include "check.h"
#include "names.h"
#include "rule_table.h"

static uint64_t random_state = 88172645463325252ULL;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13; /* xorshift64: the same numbers on every machine */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static int selectable(const int8_t algorithm, const int8_t protocol, unsigned mask)
{
    return algorithm == LEAVE_TO_HOST || (mask >> (algorithm * 3 + protocol) & 1) != 0;
}

/* The line of the rule that a plain scan finds, 0 for none. */
static uint32_t scan(const struct rule *rules, size_t n, const struct scale *scale, int collective,
                     uint64_t n_bytes, int pipes, int reg, unsigned mask)
{
    for (size_t i = 0; i < n; i++) {
        const struct rule *r = &rules[i];
        if (r->collective == collective && rule_is_for(r, scale) && r->min_bytes <= n_bytes &&
            n_bytes <= r->max_bytes && (r->n_pipe_ops < 0 || r->n_pipe_ops == pipes) &&
            (r->reg_buff < 0 || r->reg_buff == reg) &&
            selectable(r->algorithm, r->protocol, mask)) {
            return r->line;
        }
    }
    return 0;
}

static uint32_t look_up(const struct rule_table *table, int collective, uint64_t n_bytes, int pipes,
                        int reg, unsigned mask)
{
    uint32_t count = 0;
    const uint32_t *order = rule_table_find(table, (unsigned)collective, n_bytes, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *c = &table->candidates[order[i]];
        if ((c->n_pipe_ops < 0 || c->n_pipe_ops == pipes) &&
            (c->reg_buff < 0 || c->reg_buff == reg) &&
            selectable(c->algorithm, c->protocol, mask)) {
            return c->line;
        }
    }
    return 0;
}

static struct rule random_rule(uint32_t line)
{
    uint64_t a = random_below(40);
    uint64_t b = random_below(40);
    bool leave = random_below(12) == 0;
    bool last = random_below(20) == 0;
    return (struct rule){.min_bytes = a < b ? a : b,
                         .max_bytes = last    ? UINT64_MAX
                                      : a < b ? b
                                              : a,
                         .channels = (int32_t)random_below(5) - 1,
                         .n_nodes = random_below(6) == 0   ? 2
                                    : random_below(2) == 0 ? 1
                                                           : -1,
                         .n_ranks = random_below(6) == 0   ? 8
                                    : random_below(2) == 0 ? 64
                                                           : -1,
                         .n_pipe_ops = (int32_t)random_below(5) < 4 ? -1 : (int32_t)random_below(3),
                         .reg_buff = (int32_t)random_below(5) < 4 ? -1 : (int32_t)random_below(2),
                         .line = line,
                         .collective = (int8_t)(random_below(2) * 4),
                         .algorithm = leave ? -1 : (int8_t)random_below(3),
                         .protocol = leave ? -1 : (int8_t)random_below(3),
                         .only_mode = {random_below(8) == 0 ? COMPUTE_SPX : 0, 0}};
}

static void check_against_scan(void)
{
    struct rule rules[40];
    const struct scale scale = {1, 64, {COMPUTE_CPX, 4}};
    for (int round = 0; round < 400; round++) {
        struct rule_table *table = NULL;
        size_t n = random_below(40) + 1;
        for (size_t i = 0; i < n; i++) {
            rules[i] = random_rule((uint32_t)i + 1);
        }
        CHECK(rule_table_build(rules, n, &scale, &table) == RULE_TABLE_OK);
        for (uint64_t size = 0; table != NULL && size < 44; size++) {
            unsigned mask = (unsigned)random_below(512);
            uint64_t n_bytes = size == 43 ? UINT64_MAX : size;
            int pipes = (int)random_below(3);
            int reg = (int)random_below(3) - 1;
            for (int collective = 0; collective < 5; collective++) {
                CHECK(look_up(table, collective, n_bytes, pipes, reg, mask) ==
                      scan(rules, n, &scale, collective, n_bytes, pipes, reg, mask));
            }
        }
        rule_table_free(table);
    }
}

/* 100,000 rules over one another: fast, and exact at sampled sizes. */
static void check_many_overlapping(void)
{
    enum { N = 100000 };
    struct rule *rules = calloc(N, sizeof *rules);
    struct rule_table *table = NULL;
    const struct scale scale = {1, 8, {0, 0}};
    for (uint32_t i = 0; rules != NULL && i < N; i++) {
        rules[i] = random_rule(i + 1);
        rules[i].n_nodes = rules[i].n_ranks = rules[i].n_pipe_ops = rules[i].reg_buff = -1;
        rules[i].collective = 4;
        rules[i].only_mode.compute = COMPUTE_UNKNOWN;
        rules[i].min_bytes = random_below(1 << 30);
        rules[i].max_bytes = rules[i].min_bytes + random_below(1 << 20);
        rules[i].algorithm = (int8_t)random_below(7);
        rules[i].protocol = (int8_t)random_below(3);
    }
    CHECK(rule_table_build(rules, N, &scale, &table) == RULE_TABLE_OK);
    for (int i = 0; table != NULL && i < 200; i++) {
        uint64_t n_bytes = rules[random_below(N)].max_bytes + random_below(2);
        CHECK(look_up(table, 4, n_bytes, 1, 0, 0x155) ==
              scan(rules, N, &scale, 4, n_bytes, 1, 0, 0x155));
    }
    rule_table_free(table);
    free(rules);
}

static void check_limits(void)
{
    enum { N = 70000 };
    struct rule *rules = calloc(N, sizeof *rules);
    struct rule_table *table = NULL;
    const struct scale scale = {1, 8, {0, 0}};
    for (uint32_t i = 0; rules != NULL && i < N; i++) {
        rules[i] = (struct rule){.min_bytes = i,
                                 .max_bytes = i + 70000,
                                 .n_nodes = -1,
                                 .n_ranks = -1,
                                 .n_pipe_ops = (int32_t)(i % TABLE_MAX_KINDS),
                                 .reg_buff = -1,
                                 .algorithm = 1,
                                 .line = i + 1};
    }
    CHECK(rule_table_build(rules, N, &scale, &table) == RULE_TABLE_TOO_MANY_CANDIDATES &&
          table == NULL);
    for (uint32_t i = 0; rules != NULL && i <= TABLE_MAX_KINDS; i++) {
        rules[i].n_pipe_ops = (int32_t)i;
    }
    CHECK(rule_table_build(rules, TABLE_MAX_KINDS + 1, &scale, &table) ==
          RULE_TABLE_TOO_MANY_KINDS);
    CHECK(rule_table_build(rules, TABLE_MAX_KINDS, &scale, &table) == RULE_TABLE_OK);
    CHECK(table != NULL && table->of[0].count > 0 && table->of[1].count == 0);
    rule_table_free(table);
    CHECK(rule_table_build(NULL, 0, &scale, &table) == RULE_TABLE_OK && table->n_candidates == 0);
    rule_table_free(table);
    rule_table_free(NULL);
    free(rules);
}

int main(void)
{
    check_against_scan();
    check_many_overlapping();
    check_limits();
    return check_result();
}

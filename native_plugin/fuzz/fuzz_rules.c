/*
 * Any bytes as a rule file.  Beyond not crashing, the table must say what a plain scan of the rules
 * says, at every edge of a rule and beside it.
 */
#include "names.h"
#include "rule_table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_CHECKED_RULES = 64 };

/* Stands in for a cost table: which cells are selectable depends on the file, so that both kinds
 * occur. */
static bool is_selectable(int algorithm, int protocol, unsigned mask)
{
    return algorithm == LEAVE_TO_HOST ||
           (mask >> (algorithm * N_KNOWN_PROTOCOLS + protocol) & 1) != 0;
}

static uint32_t scan(const struct rule_file *file, const struct scale *scale, int collective,
                     uint64_t n_bytes, unsigned mask)
{
    for (size_t i = 0; i < file->n_rules; i++) {
        const struct rule *rule = &file->rules[i];
        if (rule->collective == collective && rule_is_for(rule, scale) &&
            rule->min_bytes <= n_bytes && n_bytes <= rule->max_bytes &&
            (rule->n_pipe_ops < 0 || rule->n_pipe_ops == 1) &&
            (rule->reg_buff < 0 || rule->reg_buff == 0) &&
            is_selectable(rule->algorithm, rule->protocol, mask)) {
            return rule->line;
        }
    }
    return 0;
}

static uint32_t look_up(const struct rule_table *table, int collective, uint64_t n_bytes,
                        unsigned mask)
{
    uint32_t count = 0;
    const uint32_t *order = rule_table_find(table, (unsigned)collective, n_bytes, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *rule = &table->candidates[order[i]];
        if ((rule->n_pipe_ops < 0 || rule->n_pipe_ops == 1) &&
            (rule->reg_buff < 0 || rule->reg_buff == 0) &&
            is_selectable(rule->algorithm, rule->protocol, mask)) {
            return rule->line;
        }
    }
    return 0;
}

static void check_table(const struct rule_file *file, unsigned mask)
{
    const struct scale scale = {1, 64, {COMPUTE_CPX, 4}};
    struct rule_table *table = NULL;
    if (rule_table_build(file->rules, file->n_rules, &scale, &table) != RULE_TABLE_OK) {
        return;
    }
    for (size_t i = 0; i < file->n_rules && i < MAX_CHECKED_RULES; i++) {
        for (uint64_t step = 0; step < 3; step++) {
            const uint64_t edges[] = {file->rules[i].min_bytes + step - 1,
                                      file->rules[i].max_bytes + step - 1};
            for (size_t e = 0; e < 2; e++) {
                int collective = file->rules[i].collective;
                if (look_up(table, collective, edges[e], mask) !=
                    scan(file, &scale, collective, edges[e], mask)) {
                    abort();
                }
            }
        }
    }
    rule_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rule_file file;
    unsigned mask = 0x1d5ab3 ^ (unsigned)size;
    if (rule_file_parse((struct text){(const char *)data, size}, &file)) {
        check_table(&file, mask);
    }
    rule_file_free(&file);
    return 0;
}

/* Inside of the node reader: one line being taken apart, and the state between lines. */
#ifndef RCCLTUNE_SIM_NODE_LINES_H
#define RCCLTUNE_SIM_NODE_LINES_H

#include "node.h"
#include "text.h"

struct reader {
    struct node *node;
    struct text words; /* what is left of the line */
    const char *mistake;
    struct points *open_points; /* where `point` lines go; NULL where none may follow */
    bool factors;               /* the open points are factors, not times */
    struct effect *open_scaling;
    struct variant *open_variant;
};

/* Each takes the next word; false (with `mistake` set) where it is missing or wrong. */
bool take_word(struct reader *reader, struct text *word);
bool take_string(struct reader *reader, char *out, size_t size);
bool take_int(struct reader *reader, int64_t min, int64_t max, int64_t *value);
bool take_small(struct reader *reader, int min, int max, int *value);
bool take_flag(struct reader *reader, bool *value);
bool take_double(struct reader *reader, double min, double max, double *value);
bool take_name(struct reader *reader, const char *const *names, int n, bool any, int *value);
bool take_setting(struct reader *reader, bool any, int *path, int *algorithm, int *protocol);
bool take_selector(struct reader *reader, struct selector *where, bool with_range);
bool say(struct reader *reader, const char *mistake); /* always false */

/* Room for one more element at the end of an array; the new element is zeroed. */
void *grow(void *array, int *n, size_t element);

bool read_record(struct reader *reader, struct text keyword); /* node_records.c */

#endif

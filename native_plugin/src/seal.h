/*
 * What a rule file says of its own length: `#@ rules N`, the first line of what rccltune writes,
 * and `#@ end N`, its last.  N is the number of rows, whether they are taken or not.  A file that
 * was cut, or is being written, has not both; one that has neither is held to nothing.
 */
#ifndef RCCLTUNE_SEAL_H
#define RCCLTUNE_SEAL_H

#include "text.h"

/* What was said and counted so far; all zero at the beginning. */
struct seal {
    unsigned n_heads;
    unsigned n_ends;
    struct text head; /* what follows the last `#@ rules` */
    struct text end;  /* what follows the last `#@ end` */
    uint64_t n_rows;
    uint64_t n_rows_at_end;
    uint32_t line; /* of the last of the two */
};

/* Takes note of a `#@` line's first word and its rest; false where it is none of the two. */
bool seal_read(struct seal *seal, struct text word, struct text rest, uint32_t line);

/* Whether the file has all that it says, and nothing more. */
bool seal_holds(const struct seal *seal);

/* Why it does not hold, both counts named. */
void seal_explain(const struct seal *seal, char *buffer, size_t size);

/* Whether `content` ends inside the first word of a sealed file, or before it. */
bool seal_is_stump(struct text content);

#endif

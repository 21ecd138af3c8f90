/* rank-<r>.csv: the rows of this rank, a line a step, written at once. */
#ifndef RCCLTUNE_PERF_ROWS_H
#define RCCLTUNE_PERF_ROWS_H

#include <stdint.h>

#include "perf.h"

/* A step's result.  What is negative (or empty, of texts) is not known and is left empty. */
struct row {
    int communicator;
    const char *step;
    size_t n_bytes; /* really used */
    long calls;     /* timed */
    double time_us; /* of a call */
    long made;      /* collective calls made for it, barriers apart; captured ones count once */
    /* What the plugin was asked; `asked` negative where there is no plugin. */
    long asked;
    int64_t told_bytes;
    char library[40], answer[40];
    int registered;
    uint64_t selectable;
    char ran[48];
    int64_t checked, wrong;
    /* Of an order of adding: how many trees an element of it has by its place (or by its place in
     * its owner's part), and numbers for the trees, for where which of them stands, and for the
     * bits that random numbers gave. */
    int trees;
    uint64_t tree, signature, bits;
    const char *note;
};

struct row row_of(int communicator, const char *step);

/* Opens FOLDER/rank-<rank>.csv; an older one of that name is not touched, the program ends. */
void rows_open(const char *folder, int rank);

/* A remark: `# ...`. */
void rows_remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The header of the table; remarks may still follow. */
void rows_head(void);

void rows_write(const struct row *row);

/* From here on lines are kept as well as written, until rows_kept() takes them. */
void rows_keep(void);

/* All that was written since rows_keep() or the last rows_kept(); good until the next row. */
const char *rows_kept(size_t *length);

/* From fail(): a remark that never fails itself. */
void rows_last_word(int line, const char *words);

#endif

/*
 * What the benchmark prints: stdout's table in each family's format.  Every form says SIMULATED.
 * Source: rccl-tests src/common.cu, nccl-tests 2.19.6 src/.
 */
#ifndef RCCLTUNE_SIM_OUTPUT_H
#define RCCLTUNE_SIM_OUTPUT_H

#include "node.h"
#include "options.h"

struct device_line {
    int rank, group, pid, device;
    char host[48];
};

struct half { /* one half of a row */
    double time_us, algbw, busbw;
    int64_t wrong; /* -1: not checked */
};

struct row {
    size_t size, count;
    const char *type, *op;
    int root;
};

/* All of them print on process 0 only; the others have main_process false. */
void out_start(const struct options *options, bool main_process, int nccl_version);
void out_version(const struct node *node, int collective, const char *program);
void out_device(const struct node *node, const struct device_line *line);
void out_header(void);
void out_row_start(const struct row *row);
void out_half(const struct half *half);
void out_setting(const char *algorithm, const char *protocol, int channels); /* -A */
void out_row_end(void);
void out_footer(int errors, double average_busbw, double least_busbw, const char *program);

#endif

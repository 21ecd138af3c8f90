/*
 * What the benchmark prints: stdout's table in each family's format, and the files of -J and -Z.
 * Every form says SIMULATED.  Source: rccl-tests src/common.cu, nccl-tests 2.19.6 src/.
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
    int root, cycle;
};

/* All of them print on process 0 only; the others have main_process false. */
void out_start(const struct options *options, bool main_process, int nccl_version);
void out_json_open(const struct options *options, int argc, char **argv);
void out_version(const struct node *node, int collective, const char *program);
void out_device(const struct node *node, const struct device_line *line);
void out_devices_end(void);
void out_header(void);
void out_row_start(const struct row *row);
void out_half(const struct half *half, bool in_place);
void out_setting(const char *algorithm, const char *protocol, int channels); /* -A */
void out_row_end(void);
void out_footer(int errors, double average_busbw, double least_busbw, const char *program);
void out_last(const char *error);

/* report.c: -Z/-X and the JSON of -J. */
void report_open(const char *path, const char *format, int n_ranks, int n_nodes, int gpus_per_rank,
                 const char *collective);
void report_add(const struct row *row, const struct half *half, bool in_place);
void report_write(void);

void json_open(const char *path, const struct options *options, int argc, char **argv, int version,
               bool rccl);
void json_config(const struct options *options);
void json_device(const struct device_line *line, const char *bus, const char *product);
void json_results(void);
void json_row(const struct row *row);
void json_half(const struct half *half, bool in_place, bool cpu_time);
void json_row_end(int iterations, bool out_of_place);
void json_close(int errors, double busbw, double least, const char *error);

#endif

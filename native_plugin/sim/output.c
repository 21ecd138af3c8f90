#include "bench.h"

#include <stdio.h>
#include <string.h>

static const struct bench *bench; /* whose output this is */

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (bench->first_rank == 0)                                                                \
            printf(__VA_ARGS__);                                                                   \
    } while (0)

static void parameters(void)
{
    const struct options *o = &bench->options;
    bool factor = o->step_factor > 1;
    SAY("# nThread %d nGpus %d minBytes %ld maxBytes %ld step: %ld(%s) warmup iters: %d iters: %d "
        "agg iters: %d validation: %d graph: %d%s\n",
        o->n_threads, o->n_gpus, (long)o->min_bytes, (long)o->max_bytes,
        factor ? o->step_factor : (long)o->step_bytes, factor ? "factor" : "bytes", o->warmup,
        o->iters, o->agg_iters, o->check, o->graph, o->family == BENCH_NT ? " unalign: 0" : "");
    SAY("#\n");
}

/* Which curves were measured by somebody, and that all else was computed. */
static void sources(void)
{
    const struct node *node = &bench->node;
    int collective = bench->collective;
    SAY("# SIMULATED node %s: no hardware was measured\n", node->name);
    for (int i = 0; i < node->n_curves; i++) {
        const struct curve *c = &node->curves[i];
        if (!c->measured || c->where.collective != collective)
            continue;
        const char *variant = c->where.variant < 0 ? "" : node->variants[c->where.variant].name;
        const char *half = c->where.in_place < 0 ? ""
                           : c->where.in_place   ? " in-place"
                                                 : " out-of-place";
        SAY("# SIMULATED measured %s: %s%s%s%s %lld..%lld B, %s\n", collective_names[collective],
            setting_name(node, c->where.path, c->where.algorithm, c->where.protocol),
            *variant != '\0' ? " " : "", variant, half, (long long)c->measured_min,
            (long long)c->measured_max, c->source);
    }
    SAY("# SIMULATED modelled %s: every other setting and size\n", collective_names[collective]);
}

void out_start(const struct bench *started)
{
    int family = started->options.family, v = started->library.version;
    bench = started;
    /* As the benchmark does, so that a killed run keeps its complete lines. */
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    /* The missing end of line is rccl-tests' own. */
    if (family == BENCH_RTNEW && strncmp(bench->node.arch, "gfx942", 6) == 0)
        SAY("On gfx942 architecture, using FNUZ FP8 types");
    if (family == BENCH_RTNEW)
        SAY("# rccl-tests version 2.17.9-simulated rccl-headers=%d rccl-library=%d # SIMULATED\n",
            v, v);
    else if (family == BENCH_NT)
        SAY("# nccl-tests version 2.19.6 nccl-headers=%d nccl-library=%d # SIMULATED\n", v, v);
    if (has_groups(family))
        SAY("# Collective test starting: %s\n", bench->program);
    parameters();
    if (!is_new(family))
        SAY("rccl-tests: Version simulated # SIMULATED\n");
    sources();
    SAY("# Using devices\n");
}

void out_device(int rank, int pid)
{
    const struct node *node = &bench->node;
    char column[24] = "", bus[32], host[48];
    bool grouped = has_groups(bench->options.family);
    int device = device_of(bench, rank), oam = device / node->devices_per_oam;
    int number = 0x05 + 0x20 * (oam % 8); /* the buses of a real MI300X host */
    int n = snprintf(bus, sizeof bus, "%04x:%02x:%02x", oam / 8, number & 0xff, 0);
    if (grouped)
        snprintf(column, sizeof column, " Group %2d", bench->group[rank]);
    else
        snprintf(bus + n, sizeof bus - (size_t)n, ".%x", device % node->devices_per_oam & 7);
    SAY("#%s  Rank %2d%s Pid %6d on %10s device %2d [%s] %s\n", grouped ? "" : " ", rank, column,
        pid, host_of(bench, rank, host, sizeof host), device, bus, node->product);
}

void out_header(void)
{
    const struct options *o = &bench->options;
    const char *halves = !o->out_of_place ? "in-place"
                         : !o->in_place   ? "out-of-place"
                                          : "out-of-place                       in-place";
    const char *gap = is_new(o->family) ? " " : "", *setting = "";
    int n_halves = o->out_of_place + o->in_place, width = 0; /* of what stands behind the halves */
    if (o->family == BENCH_NT)
        width = 1;
    if (o->family == BENCH_RTNEW)
        width = o->show_setting ? 30 : 2;
    if (o->family == BENCH_RT25)
        width = 31;
    if (o->show_setting)
        setting = o->family == BENCH_RT25 ? "     algo     proto   nchannels"
                                          : " algo      proto      nchannels ";
    SAY("#\n# %61s%s          \n", "", halves);
    SAY("#       size         count      type   redop    root");
    for (int i = 0; i < n_halves; i++)
        SAY("     time   algbw   busbw %s#wrong", gap);
    SAY("%*s\n", width, setting);
    SAY("#        (B)    (elements)                          ");
    for (int i = 0; i < n_halves; i++)
        SAY("     (us)  (GB/s)  (GB/s) %s      ", gap);
    SAY("%*s\n", width, "");
}

void out_cycle(long cycle)
{
    int family = bench->options.family;
    if (family != BENCH_NT && (has_groups(family) ? bench->options.cycles > 1 : cycle > 0))
        SAY("# Testing %ld cycle.\n", cycle + 1);
}

void out_row_start(size_t bytes, size_t count, const char *op, int root)
{
    SAY("%12zu  %12zu  %8s  %6s  %6i", bytes, count, dtype_names[bench->options.dtype], op, root);
}

/* Two decimals while they fit, then fewer, then an exponent (getFloatStr of RTnew's util.cu). */
static void fine_number(double value, int width, char text[16])
{
    int digits = 0;
    for (double power = 1; value >= power; power *= 10)
        digits++;
    if (digits < width - 2)
        snprintf(text, 16, "%*.2f", width, value);
    else if (digits < width - 1)
        snprintf(text, 16, "%*.1f", width, value);
    else if (digits < width + 1)
        snprintf(text, 16, "%*.0f", width, value);
    else
        snprintf(text, 16, width >= 7 ? "%*.1e" : "%*.0e", width, value);
}

void out_half(const struct half *half)
{
    char time[16], algbw[16], busbw[16], wrong[16] = "N/A";
    bool newer = is_new(bench->options.family);
    if (newer) {
        fine_number(half->time_us, 7, time);
        fine_number(half->algbw, 6, algbw);
        fine_number(half->busbw, 6, busbw);
    } else {
        int decimals = half->time_us >= 10000 ? 0 : half->time_us >= 100 ? 1 : 2;
        snprintf(time, sizeof time, "%.*f", decimals, half->time_us);
        snprintf(algbw, sizeof algbw, "%.2f", half->algbw);
        snprintf(busbw, sizeof busbw, "%.2f", half->busbw);
    }
    if (half->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%g", (double)half->wrong);
    SAY("  %7s  %6s  %6s  %*s", time, algbw, busbw, newer && half->wrong >= 0 ? 6 : 5, wrong);
}

void out_setting(const char *algorithm, const char *protocol, int channels)
{
    if (channels > 0)
        SAY("%8.7s  %8s  %10d", algorithm, protocol, channels);
    else
        SAY("%8s  %8s  %10s", algorithm, protocol, "N/A");
}

void out_row_end(void)
{
    SAY("\n");
}

void out_footer(void)
{
    double average = bench->n_busbw > 0 ? bench->busbw_sum / bench->n_busbw : 0;
    int errors = bench->errors;
    if (!is_new(bench->options.family) && bench->options.check)
        SAY("# Errors with asterisks indicate errors that have exceeded the maximum threshold.\n");
    SAY("# %-20s : %d %s\n", "Out of bounds values", errors, errors ? "FAILED" : "OK");
    SAY("# %-20s : %g \n", "Avg bus bandwidth", average);
    SAY("#\n");
    if (has_groups(bench->options.family))
        SAY("# Collective test concluded: %s\n", bench->program);
    SAY(is_new(bench->options.family) ? "#\n\n" : "\n");
}

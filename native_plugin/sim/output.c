#include "bench.h"

#include <stdio.h>
#include <string.h>

static struct {
    const struct options *options;
    bool main;
    int nccl_version;
} out;

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (out.main)                                                                              \
            printf(__VA_ARGS__);                                                                   \
    } while (0)

void out_start(const struct options *options, bool main_process, int nccl_version)
{
    out.options = options;
    out.main = main_process;
    out.nccl_version = nccl_version;
    /* As the benchmark does, so that a killed run keeps its complete lines. */
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
}

static void parameters(void)
{
    const struct options *o = out.options;
    bool factor = o->step_factor > 1;
    SAY("# nThread %d nGpus %d minBytes %ld maxBytes %ld step: %ld(%s) warmup iters: %d iters: %d "
        "agg iters: %d validation: %d graph: %d%s\n",
        o->n_threads, o->n_gpus, (long)o->min_bytes, (long)o->max_bytes,
        factor ? o->step_factor : (long)o->step_bytes, factor ? "factor" : "bytes", o->warmup,
        o->iters, o->agg_iters, o->check, o->graph, o->family == BENCH_NT ? " unalign: 0" : "");
    if (o->blocking)
        SAY("# Blocking Enabled: wait for completion and barrier after each collective \n");
    if (o->parallel_init)
        SAY("# Parallel Init Enabled: threads call into NcclInitRank concurrently \n");
    SAY("#\n");
}

/* Which curves were measured by somebody, and that all else was computed. */
static void sources(const struct node *node, int collective)
{
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

void out_version(const struct node *node, int collective, const char *program)
{
    int family = out.options->family, v = out.nccl_version;
    /* The missing end of line is rccl-tests' own. */
    if (family == BENCH_RTNEW && strncmp(node->arch, "gfx942", 6) == 0)
        SAY("On gfx942 architecture, using FNUZ FP8 types");
    if (family == BENCH_RTNEW)
        SAY("# rccl-tests version 2.17.9-simulated rccl-headers=%d rccl-library=%d # SIMULATED\n",
            v, v);
    else if (family == BENCH_NT)
        SAY("# nccl-tests version 2.19.6 nccl-headers=%d nccl-library=%d # SIMULATED\n", v, v);
    if (has_groups(out.options->family))
        SAY("# Collective test starting: %s\n", program);
    parameters();
    if (!is_new(family))
        SAY("rccl-tests: Version simulated # SIMULATED\n");
    sources(node, collective);
    SAY("# Using devices\n");
}

void out_device(const struct node *node, int rank, int group, int pid, const char *host, int device)
{
    char column[24] = "", bus[32];
    bool grouped = has_groups(out.options->family);
    int oam = device / node->devices_per_oam;
    int number = 0x05 + 0x20 * (oam % 8); /* the buses of a real MI300X host */
    int n = snprintf(bus, sizeof bus, "%04x:%02x:%02x", oam / 8, number & 0xff, 0);
    if (grouped)
        snprintf(column, sizeof column, " Group %2d", group);
    else
        snprintf(bus + n, sizeof bus - (size_t)n, ".%x", device % node->devices_per_oam & 7);
    SAY("#%s  Rank %2d%s Pid %6d on %10s device %2d [%s] %s\n", grouped ? "" : " ", rank, column,
        pid, host, device, bus, node->product);
}

/* The same before each half's columns; behind them what else has a column, blank where it is not
 * told. */
static void header_line(const char *left, const char *half, const char *right, int width)
{
    const struct options *o = out.options;
    SAY("%s", left);
    for (int halves = o->out_of_place + o->in_place; halves > 0; halves--)
        SAY("%s", half);
    SAY("%*s\n", width, right);
}

void out_header(void)
{
    const struct options *o = out.options;
    const char *halves = !o->out_of_place ? "in-place"
                         : !o->in_place   ? "out-of-place"
                                          : "out-of-place                       in-place";
    const char *names = "#       size         count      type   redop    root";
    const char *units = "#        (B)    (elements)                          ";
    const char *right = "";
    int width = 0;
    SAY("#\n# %61s%s          \n", "", halves);
    if (!is_new(o->family)) {
        if (o->family == BENCH_RT25) { /* room for algo, proto, nchannels, filled under -M 1 */
            right = o->show_setting ? "     algo     proto   nchannels" : "";
            width = 31;
        }
        header_line(names, "     time   algbw   busbw #wrong", right, width);
        header_line(units, "     (us)  (GB/s)  (GB/s)       ", "", width);
        return;
    }
    width = 1;
    if (o->family == BENCH_RTNEW) { /* room for -A's, and a blank each for the time of day */
        right = o->show_setting ? " algo      proto      nchannels " : "";
        width = o->show_setting ? 30 : 2;
    }
    header_line(names, "     time   algbw   busbw  #wrong", right, width);
    header_line(units, "     (us)  (GB/s)  (GB/s)        ", "", width);
}

void out_cycle(long cycle)
{
    int family = out.options->family;
    bool old = family == BENCH_RT24 || family == BENCH_RTMID;
    if (family != BENCH_NT && (old ? cycle > 0 : out.options->cycles > 1))
        SAY("# Testing %ld cycle.\n", cycle + 1);
}

void out_row_start(size_t bytes, size_t count, const char *op, int root)
{
    SAY("%12zu  %12zu  %8s  %6s  %6i", bytes, count, dtype_names[out.options->dtype], op, root);
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
    bool newer = is_new(out.options->family);
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

void out_footer(int errors, double average, const char *program)
{
    if (!is_new(out.options->family) && out.options->check)
        SAY("# Errors with asterisks indicate errors that have exceeded the maximum threshold.\n");
    SAY("# %-20s : %d %s\n", "Out of bounds values", errors, errors ? "FAILED" : "OK");
    SAY("# %-20s : %g \n", "Avg bus bandwidth", average);
    SAY("#\n");
    if (has_groups(out.options->family))
        SAY("# Collective test concluded: %s\n", program);
    SAY(is_new(out.options->family) ? "#\n\n" : "\n");
}

#include "output.h"

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
        (long)(factor ? o->step_factor : o->step_bytes), factor ? "factor" : "bytes", o->warmup,
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
        bool tuned = c->where.path == PATH_TUNED;
        SAY("# SIMULATED measured %s: %s%s%s%s%s%s %lld..%lld B, %s\n",
            collective_names[collective],
            tuned ? algorithm_names[c->where.algorithm] : node->path_names[c->where.path],
            tuned ? "/" : "", tuned ? protocol_names[c->where.protocol] : "",
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

void out_device(const struct node *node, const struct device_line *line)
{
    char bus[32];
    int oam = line->device / node->devices_per_oam,
        partition = line->device % node->devices_per_oam;
    int number = 0x05 + 0x20 * (oam % 8); /* the buses of a real MI300X host */
    if (has_groups(out.options->family)) {
        snprintf(bus, sizeof bus, "%04x:%02x:%02x", oam / 8, number & 0xff, 0);
        SAY("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", line->rank, line->group,
            line->pid, line->host, line->device, bus, node->product);
    } else {
        snprintf(bus, sizeof bus, "%04x:%02x:%02x.%x", oam / 8, number & 0xff, 0, partition & 7);
        SAY("#   Rank %2d Pid %6d on %10s device %2d [%s] %s\n", line->rank, line->pid, line->host,
            line->device, bus, node->product);
    }
}

/* "%10s %12s %8s %6s %6s" before the halves, then each half's four columns. */
static void header_line(const char *const names[5], const char *const halves[3], const char *wrong,
                        const char *end)
{
    const struct options *o = out.options;
    SAY("# %10s  %12s  %8s  %6s  %6s", names[0], names[1], names[2], names[3], names[4]);
    for (int half = 0; half < (o->out_of_place && o->in_place ? 2 : 1); half++)
        SAY("  %7s  %6s  %6s%s", halves[0], halves[1], halves[2], wrong);
    SAY("%s\n", end);
}

void out_header(void)
{
    const struct options *o = out.options;
    static const char *const none[5] = {"", "", "", "", ""};
    static const char *const names[5] = {"size", "count", "type", "redop", "root"};
    static const char *const units[5] = {"(B)", "(elements)", "", "", ""};
    static const char *const columns[3] = {"time", "algbw", "busbw"};
    static const char *const column_units[3] = {"(us)", "(GB/s)", "(GB/s)"};
    bool both = o->out_of_place && o->in_place;
    char end[96] = "", unit_end[96] = "";
    SAY("#\n# %10s  %12s  %8s  %6s  %6s           %s          \n", none[0], none[1], none[2],
        none[3], none[4],
        both              ? "out-of-place                       in-place"
        : o->out_of_place ? "out-of-place"
                          : "in-place");
    if (is_new(out.options->family)) {
        /* Room for -A's three columns, and a blank each for the time of day. */
        int room = o->family == BENCH_RTNEW && o->show_setting ? 28 : 0;
        if (o->family == BENCH_RTNEW) {
            snprintf(end, sizeof end, " %*s ", room,
                     room > 0 ? "algo      proto      nchannels" : "");
            snprintf(unit_end, sizeof unit_end, " %*s ", room, "");
        } else {
            strcpy(end, " ");
            strcpy(unit_end, " ");
        }
        header_line(names, columns, "  #wrong", end);
        header_line(units, column_units, "        ", unit_end);
        return;
    }
    if (o->family == BENCH_RT25) { /* room for algo, proto, nchannels, filled under -M 1 */
        snprintf(end, sizeof end, " %8s  %8s  %10s", o->show_setting ? "algo" : "",
                 o->show_setting ? "proto" : "", o->show_setting ? "nchannels" : "");
        snprintf(unit_end, sizeof unit_end, "%31s", "");
    }
    header_line(names, columns, " #wrong", end);
    header_line(units, column_units, "       ", unit_end);
}

void out_row_start(const struct row *row)
{
    SAY("%12li  %12li  %8s  %6s  %6i", (long)row->size, (long)row->count, row->type, row->op,
        row->root);
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

static void fine_half(const struct half *half)
{
    char time[16], algbw[16], busbw[16];
    fine_number(half->time_us, 7, time);
    fine_number(half->algbw, 6, algbw);
    fine_number(half->busbw, 6, busbw);
    if (half->wrong >= 0)
        SAY("  %7s  %6s  %6s  %6g", time, algbw, busbw, (double)half->wrong);
    else
        SAY("  %7s  %6s  %6s    N/A", time, algbw, busbw);
}

void out_half(const struct half *half)
{
    if (is_new(out.options->family)) {
        fine_half(half);
    } else {
        int decimals = half->time_us >= 10000 ? 0 : half->time_us >= 100 ? 1 : 2;
        SAY("  %7.*f  %6.2f  %6.2f", decimals, half->time_us, half->algbw, half->busbw);
        if (half->wrong >= 0)
            SAY("  %5g", (double)half->wrong);
        else
            SAY("  %5s", "N/A");
    }
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

void out_footer(int errors, double average, double least, const char *program)
{
    const char *verdict = least == -1 ? "" : average < least * 0.9 ? "FAILED" : "OK";
    if (!is_new(out.options->family) && out.options->check)
        SAY("# Errors with asterisks indicate errors that have exceeded the maximum threshold.\n");
    SAY("# %-20s : %d %s\n", "Out of bounds values", errors, errors ? "FAILED" : "OK");
    SAY("# %-20s : %g %s\n", "Avg bus bandwidth", average, verdict);
    SAY("#\n");
    if (has_groups(out.options->family))
        SAY("# Collective test concluded: %s\n", program);
    SAY(is_new(out.options->family) ? "#\n\n" : "\n");
}

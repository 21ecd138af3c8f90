#include "output.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct {
    const struct options *options;
    const struct benchmark_family *family;
    bool main;
    int nccl_version;
    const struct row *row;
} out;

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (out.main)                                                                              \
            printf(__VA_ARGS__);                                                                   \
    } while (0)

void out_start(const struct options *options, bool main_process, int nccl_version)
{
    out.options = options;
    out.family = benchmark_family(options->family);
    out.main = main_process;
    out.nccl_version = nccl_version;
    /* As the benchmark does, so that a killed run keeps its complete lines. */
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
}

void out_json_open(const struct options *options, int argc, char **argv)
{
    bool has = options->family == BENCH_RTNEW || options->family == BENCH_NT;
    size_t n = options->json_path != NULL ? strlen(options->json_path) : 0;
    if (out.main && has && n > 5 && strcmp(options->json_path + n - 5, ".json") == 0)
        json_open(options->json_path, options, argc, argv, out.nccl_version,
                  options->family != BENCH_NT);
}

static void parameters(void)
{
    const struct options *o = out.options;
    bool factor = o->step_factor > 1;
    SAY("# nThread %d nGpus %d minBytes %ld maxBytes %ld step: %ld(%s) warmup iters: %d iters: %d "
        "agg iters: %d validation: %d graph: %d%s\n",
        o->n_threads, o->n_gpus, (long)o->min_bytes, (long)o->max_bytes,
        (long)(factor ? o->step_factor : o->step_bytes), factor ? "factor" : "bytes", o->warmup,
        o->iters, o->agg_iters, o->check, o->graph, out.family->unalign ? " unalign: 0" : "");
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
    if (out.family->starting_line)
        SAY("# Collective test starting: %s\n", program);
    parameters();
    if (!out.family->version_after_hash)
        SAY("rccl-tests: Version simulated # SIMULATED\n");
    sources(node, collective);
    if (out.main)
        json_config(out.options);
    SAY("# Using devices\n");
}

void out_device(const struct node *node, const struct device_line *line)
{
    char bus[32];
    int oam = line->device / node->devices_per_oam,
        partition = line->device % node->devices_per_oam;
    int number = 0x05 + 0x20 * (oam % 8); /* the buses of a real MI300X host */
    if (out.family->group_column) {
        snprintf(bus, sizeof bus, "%04x:%02x:%02x", oam / 8, number & 0xff, 0);
        SAY("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", line->rank, line->group,
            line->pid, line->host, line->device, bus, node->product);
    } else {
        snprintf(bus, sizeof bus, "%04x:%02x:%02x.%x", oam / 8, number & 0xff, 0, partition & 7);
        SAY("#   Rank %2d Pid %6d on %10s device %2d [%s] %s\n", line->rank, line->pid, line->host,
            line->device, bus, node->product);
    }
    if (out.main)
        json_device(line, bus, node->product);
}

void out_devices_end(void)
{
    if (out.main)
        json_results();
}

/* "%10s %12s %8s %6s %6s" before the halves, then each half's four columns. */
static void header_line(const char *const names[5], const char *const halves[4], const char *wrong,
                        const char *end)
{
    const struct options *o = out.options;
    SAY("# %10s  %12s  %8s  %6s  %6s", names[0], names[1], names[2], names[3], names[4]);
    for (int half = 0; half < (o->out_of_place && o->in_place ? 2 : 1); half++) {
        SAY("  %7s  %6s  %6s%s", halves[0], halves[1], halves[2], wrong);
        if (o->per_iteration && o->family == BENCH_NT)
            SAY("  %7s  %7s  %7s  %7s", *halves[3] != '\0' ? "i_min" : "(us)",
                *halves[3] != '\0' ? "i_max" : "(us)", *halves[3] != '\0' ? "i_p99" : "(us)",
                *halves[3] != '\0' ? "i_cv%" : "(%)");
    }
    SAY("%s\n", end);
}

void out_header(void)
{
    const struct options *o = out.options;
    static const char *const none[5] = {"", "", "", "", ""};
    static const char *const names[5] = {"size", "count", "type", "redop", "root"};
    static const char *const units[5] = {"(B)", "(elements)", "", "", ""};
    const char *const columns[4] = {o->cpu_time ? "cputime" : "time", "algbw", "busbw", "i"};
    static const char *const column_units[4] = {"(us)", "(GB/s)", "(GB/s)", ""};
    bool both = o->out_of_place && o->in_place;
    char end[96] = "", unit_end[96] = "";
    SAY("#\n# %10s  %12s  %8s  %6s  %6s           %s          \n", none[0], none[1], none[2],
        none[3], none[4],
        both              ? "out-of-place                       in-place"
        : o->out_of_place ? "out-of-place"
                          : "in-place");
    if (out.family->fine_numbers) {
        int pad = o->timestamps ? 19 : 0;
        const char *label = o->timestamps ? "timestamp" : "";
        const char *form = o->timestamps ? "%Y-%m-%d %H:%M:%S" : "";
        if (o->family == BENCH_RTNEW) {
            int room = o->show_setting ? 28 : 0;
            snprintf(end, sizeof end, " %*s %*s", room,
                     o->show_setting ? "algo      proto      nchannels" : "", pad, label);
            snprintf(unit_end, sizeof unit_end, " %*s %*s", room, "", pad, form);
        } else {
            snprintf(end, sizeof end, " %*s", pad, label);
            snprintf(unit_end, sizeof unit_end, " %*s", pad, form);
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
    out.row = row;
    SAY("%12li  %12li  %8s  %6s  %6i", (long)row->size, (long)row->count, row->type, row->op,
        row->root);
    if (out.main)
        json_row(row);
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
    if (out.options->per_iteration && out.options->family == BENCH_NT) {
        static const double parts[3] = {0.97, 1.06, 1.04};
        for (int i = 0; i < 3; i++) {
            fine_number(half->time_us * parts[i], 7, time);
            SAY("  %7s", time);
        }
        SAY("  %7s", "   1.50");
    }
}

void out_half(const struct half *half, bool in_place)
{
    const struct options *o = out.options;
    if (out.family->fine_numbers) {
        fine_half(half);
    } else {
        int decimals = half->time_us >= 10000 ? 0 : half->time_us >= 100 ? 1 : 2;
        SAY("  %7.*f  %6.2f  %6.2f", decimals, half->time_us, half->algbw, half->busbw);
        if (half->wrong >= 0)
            SAY("  %5g", (double)half->wrong);
        else
            SAY("  %5s", "N/A");
    }
    if (o->timestamps && in_place && out.main) {
        char text[32];
        time_t seconds = time(NULL);
        struct tm local;
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &local));
        printf("%21s", text);
    }
    if (out.main) {
        json_half(half, in_place, o->cpu_time != 0);
        report_add(out.row, half, in_place);
    }
}

void out_setting(const char *algorithm, const char *protocol, int channels)
{
    if (channels > 0)
        SAY("%8s  %8s  %10d", algorithm, protocol, channels);
    else
        SAY("%8s  %8s  %10s", algorithm, protocol, "N/A");
}

void out_row_end(void)
{
    SAY("\n");
    if (out.main)
        json_row_end(out.options->iters, out.options->out_of_place);
}

void out_footer(int errors, double average, double least, const char *program)
{
    const char *verdict = least == -1 ? "" : average < least * 0.9 ? "FAILED" : "OK";
    if (out.family->errors_line && out.options->check)
        SAY("# Errors with asterisks indicate errors that have exceeded the maximum threshold.\n");
    SAY("# %-20s : %d %s\n", "Out of bounds values", errors, errors ? "FAILED" : "OK");
    SAY("# %-20s : %g %s\n", "Avg bus bandwidth", average, verdict);
    SAY("#\n");
    if (out.family->starting_line)
        SAY("# Collective test concluded: %s\n", program);
    if (out.options->memory_report && out.family->fine_numbers)
        SAY("# %-20s : Initialization 0 B | User-Allocated 0 B | Collective 0 B | Total  0 B\n",
            "GPU memory usage");
    if (out.family->fine_numbers)
        SAY("#\n");
}

void out_last(const char *error)
{
    if (out.family->fine_numbers && *error != '\0')
        SAY("# error: %s\n", error);
    else
        SAY("%s\n", error);
}

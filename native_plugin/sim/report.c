/* Files beside the table: -J (NCCL's JSON) and -Z with -X or -x (rccl-tests' Reporter). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "output.h"

extern char **environ;

static struct {
    FILE *file;
    bool some; /* the list at hand has an element */
} json;

static void json_text(const char *text)
{
    fputc('"', json.file);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\' || *text == '/')
            fprintf(json.file, "\\%c", *text);
        else if (*text == '\n' || *text == '\t')
            fputs(*text == '\n' ? "\\n" : "\\t", json.file);
        else if (*text < 0x20 || *text == 0x7f)
            break; /* what is not plain is cut off, as there */
        else
            fputc(*text, json.file);
    }
    fputc('"', json.file);
}

static void json_time(const char *key)
{
    char text[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
    fprintf(json.file, "\"%s\":\"%s\"", key, text);
}

static void json_texts(const char *key, char **texts)
{
    fprintf(json.file, "\"%s\":[", key);
    for (char **t = texts; *t != NULL; t++) {
        if (t != texts)
            fputc(',', json.file);
        json_text(*t);
    }
    fputs("],", json.file);
}

/* An existing file is never overwritten: FILE.0, FILE.1 … are tried (opened with "wx"). */
void json_open(const char *path, const struct options *options, int argc, char **argv, int version,
               bool rccl)
{
    char tried[4096];
    (void)options;
    (void)argc;
    snprintf(tried, sizeof tried, "%s", path);
    for (int i = 0; (json.file = fopen(tried, "wx")) == NULL; i++) {
        if (errno != EEXIST) {
            printf("# skipping json output; %s not accessible\n", tried);
            return;
        }
        snprintf(tried, sizeof tried, "%s.%d", path, i);
    }
    printf("# Writing JSON output to %s\n", tried);
    fprintf(json.file, "{\"version\":%d,\"simulated\":\"true\",", rccl ? 1 : 3);
    json_time("start_time");
    fputc(',', json.file);
    json_texts("args", argv);
    json_texts("env", environ);
    fprintf(json.file, "\"%s\":%d", rccl ? "rccl_version" : "nccl_version", version);
}

void json_config(const struct options *o)
{
    if (json.file == NULL)
        return;
    fprintf(
        json.file,
        ",\"config\":{\"nthreads\":%d,\"ngpus\":%d,\"minimum_bytes\":%zu,\"maximum_bytes\":%zu,"
        "\"step_%s\":%zu,\"warmup_iters\":%d,\"iterations\":%d,\"aggregated_iterations\":%d,"
        "\"validation\":%d,\"graph\":%d,\"blocking_collectives\":\"%s\",\"parallel_init\":\"%s\","
        "\"devices\":[",
        o->n_threads, o->n_gpus, o->min_bytes, o->max_bytes,
        o->step_factor > 1 ? "factor" : "bytes",
        o->step_factor > 1 ? o->step_factor : o->step_bytes, o->warmup, o->iters, o->agg_iters,
        o->check, o->graph, o->blocking ? "true" : "false", o->parallel_init ? "true" : "false");
    json.some = false;
}

void json_device(const struct device_line *line, const char *bus, const char *product)
{
    if (json.file == NULL)
        return;
    fprintf(json.file, "%s{\"rank\":%d,\"group\":%d,\"pid\":%d,\"hostname\":", json.some ? "," : "",
            line->rank, line->group, line->pid);
    json_text(line->host);
    fprintf(json.file, ",\"device\":%d,\"device_hex\":\"%s\",\"device_info\":", line->device, bus);
    json_text(product);
    fputc('}', json.file);
    json.some = true;
}

void json_results(void)
{
    if (json.file != NULL)
        fputs("]},\"results\":[", json.file);
    json.some = false;
}

void json_row(const struct row *row)
{
    if (json.file == NULL)
        return;
    fprintf(json.file,
            "%s{\"size\":%zu,\"count\":%zu,\"type\":\"%s\",\"redop\":\"%s\",\"root\":\"%6i\"",
            json.some ? "," : "", row->size, row->count, row->type, row->op, row->root);
    json.some = true;
}

void json_half(const struct half *half, bool in_place, bool cpu_time)
{
    if (json.file == NULL)
        return;
    fprintf(json.file, ",\"%s\":{\"%s\":%lf,\"alg_bw\":%lf,\"bus_bw\":%lf,\"nwrong\":",
            in_place ? "in_place" : "out_of_place", cpu_time ? "cpu_time" : "time", half->time_us,
            half->algbw, half->busbw);
    if (half->wrong >= 0)
        fprintf(json.file, "%lf}", (double)half->wrong);
    else
        fputs("null}", json.file);
}

void json_row_end(int iterations, bool out_of_place)
{
    (void)out_of_place;
    if (json.file != NULL)
        fprintf(json.file, ",\"actual_iterations\":%d,\"experiment_name\":\"\"}", iterations);
}

void json_close(int errors, double busbw, double least, const char *error)
{
    if (json.file == NULL)
        return;
    fprintf(json.file,
            "],\"out_of_bounds\":{\"count\":%d,\"okay\":\"%s\"},"
            "\"average_bus_bandwidth\":{\"bandwidth\":%lf,\"okay\":\"%s\"},\"errors\":[",
            errors, errors == 0 ? "true" : "false", busbw,
            least == -1            ? "unchecked"
            : busbw >= least * 0.9 ? "true"
                                   : "false");
    json_text(error);
    fputs("],", json.file);
    json_time("end_time");
    fputs("}", json.file);
    fclose(json.file);
    json.file = NULL;
}

/* The Reporter keeps everything and writes at the end, so a crashed run leaves an empty file. */
struct entry {
    struct row row;
    struct half half;
    bool in_place;
};

static struct {
    FILE *file;
    bool csv;
    int ranks, nodes, gpus_per_rank;
    const char *collective;
    struct entry *entries;
    int n;
} report;

void report_open(const char *path, const char *format, int n_ranks, int n_nodes, int gpus_per_rank,
                 const char *collective)
{
    if (path == NULL)
        return;
    report.file = fopen(path, "w");
    report.csv = format != NULL && strcmp(format, "csv") == 0;
    report.ranks = n_ranks;
    report.nodes = n_nodes;
    report.gpus_per_rank = gpus_per_rank;
    report.collective = collective;
}

void report_add(const struct row *row, const struct half *half, bool in_place)
{
    if (report.file == NULL)
        return;
    struct entry *larger = realloc(report.entries, (size_t)(report.n + 1) * sizeof *larger);
    if (larger == NULL)
        sim_fail("no memory for the report");
    report.entries = larger;
    report.entries[report.n++] = (struct entry){*row, *half, in_place};
}

static void report_entry(const struct entry *e, const char *end)
{
    char wrong[32] = "N/A";
    if (e->half.wrong >= 0)
        snprintf(wrong, sizeof wrong, "%lld", (long long)e->half.wrong);
    /* In MPI builds a row has one field more (nodes) than the header: rccl-tests' own slip. */
    fprintf(report.file,
            report.csv
                ? "%d,\"%s\",%d,%d,%d,%d,%zu,\"%s\",\"%s\",%d,%f,%f,%f,\"%s\"%s"
                : "{\"numCycle\":%d, \"name\":\"%s\", \"nodes\":%d, \"ranks\":%d, "
                  "\"ranksPerNode\":%d, \"gpusPerRank\":%d, \"size\":%zu, \"type\":\"%s\", "
                  "\"redop\":\"%s\", \"inPlace\":%d, \"time\":%f, \"algBw\":%f, \"busBw\":%f, "
                  "\"wrong\":\"%s\", \"simulated\":1}%s",
            e->row.cycle, report.collective, report.nodes, report.ranks,
            report.ranks / report.nodes, report.gpus_per_rank, e->row.size, e->row.type, e->row.op,
            e->in_place, e->half.time_us, e->half.algbw, e->half.busbw, wrong, end);
}

void report_write(void)
{
    if (report.file == NULL)
        return;
    fputs(report.csv ? "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,"
                       "time,algbw,busbw,#wrong\n"
                     : "[\n",
          report.file);
    for (int i = 0; i < report.n; i++)
        report_entry(&report.entries[i], report.csv || i + 1 == report.n ? "\n" : ",\n");
    fputs(report.csv ? "# SIMULATED\n" : "]\n", report.file);
    fclose(report.file);
    free(report.entries);
    memset(&report, 0, sizeof report);
}

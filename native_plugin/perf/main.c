/* rccltune-perf: reads its command line, and goes through the plan step by step. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective.h"
#include "host.h"
#include "library.h"
#include "measure.h"
#include "order.h"
#include "plan.h"
#include "rank_device.h"
#include "rendezvous.h"
#include "rows.h"
#include "start.h"
#include "steps.h"
#include "tuning_log.h"
#include "values.h"

struct options {
    const char *folder, *plan, *library, *runtime, *plugin, *devices;
    int start, per_host;
    struct ranks ranks;
    bool binds;
};

static int number(const char *name, const char *text, int least)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > 65536)
        fail(EXIT_USAGE, "--%s %s is no number from %d to 65536", name, text, least);
    return (int)value;
}

static const char usage[] =
    "rccltune-perf --folder DIR [--plan FILE] --library FILE [--runtime FILE]\n"
    "    [--plugin FILE] [--devices 0,8,16] [--bind none]\n"
    "    [--start N [--per-host M] | --rank R --ranks N --local-rank L]\n"
    "\n"
    "Measures collectives, one process a GPU. 'rccltune sweep' starts it, and sends\n"
    "one step after the other to rank 0; --plan makes those of a file again. Ranks\n"
    "know each other and rccltune by RCCLTUNE_PERF_TOKEN.\n"
    "docs/measuring.md has the exit codes, and says where the plan's steps and the\n"
    "columns of DIR/rank-<r>.csv are described.\n";

static void options_read(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"folder", 1, NULL, 'f'},     {"plan", 1, NULL, 'p'},   {"library", 1, NULL, 'l'},
        {"runtime", 1, NULL, 'r'},    {"plugin", 1, NULL, 't'}, {"devices", 1, NULL, 'd'},
        {"start", 1, NULL, 's'},      {"rank", 1, NULL, 'R'},   {"ranks", 1, NULL, 'N'},
        {"local-rank", 1, NULL, 'L'}, {"bind", 1, NULL, 'b'},   {"per-host", 1, NULL, 'h'},
        {"help", 0, NULL, 'H'},       {NULL, 0, NULL, 0}};
    int letter;
    *o = (struct options){.ranks = {-1, 0, -1}, .binds = true};
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (letter) {
        case 'f':
            o->folder = optarg;
            break;
        case 'p':
            o->plan = optarg;
            break;
        case 'l':
            o->library = optarg;
            break;
        case 'r':
            o->runtime = optarg;
            break;
        case 't':
            o->plugin = optarg;
            break;
        case 'd':
            o->devices = optarg;
            break;
        case 's':
            o->start = number("start", optarg, 1);
            break;
        case 'h':
            o->per_host = number("per-host", optarg, 1);
            break;
        case 'R':
            o->ranks.rank = number("rank", optarg, 0);
            break;
        case 'N':
            o->ranks.n_ranks = number("ranks", optarg, 1);
            break;
        case 'L':
            o->ranks.local_rank = number("local-rank", optarg, 0);
            break;
        case 'b':
            o->binds = strcmp(optarg, "none") != 0;
            break;
        case 'H':
            fputs(usage, stdout);
            exit(EXIT_DONE);
        default:
            fail(EXIT_USAGE, "it takes the options that rccltune-perf --help shows");
        }
    }
    if (o->folder == NULL || o->library == NULL || optind < argc)
        fail(EXIT_USAGE, "--folder and --library are needed, and nothing without a name");
    if (getenv("RCCLTUNE_PERF_TOKEN") == NULL)
        fail(EXIT_USAGE, "RCCLTUNE_PERF_TOKEN is not set: ranks know each other by it");
}

static void find_ranks(struct options *o)
{
    if (o->start > 0) {
        int per_host = o->per_host > 0 ? o->per_host : o->start;
        int rank = start_ranks(o->start);
        o->ranks = (struct ranks){rank, o->start, rank % per_host};
        if (o->per_host > 0) { /* several hosts are played on one */
            char host[32];
            snprintf(host, sizeof host, "host%d", rank / per_host);
            setenv("NCCL_HOSTID", host, 1);
        }
    }
    if (o->ranks.rank < 0) {
        o->ranks = ranks_of_launcher();
        (void)gethostname(context.host, sizeof context.host - 1);
    }
    if (o->ranks.local_rank < 0)
        o->ranks.local_rank = o->ranks.rank;
    if (o->ranks.rank >= o->ranks.n_ranks)
        fail(EXIT_USAGE, "--rank %d is none of %d ranks", o->ranks.rank, o->ranks.n_ranks);
    context.rank = o->ranks.rank;
}

/* What this process was started with decides; a fixed port of somebody else's would join two
 * sessions. */
static void set_variables(const struct options *o)
{
    unsetenv("NCCL_COMM_ID");
    if (o->plugin != NULL)
        setenv("NCCL_TUNER_PLUGIN", o->plugin, 1);
    tell_variables();
    tuning_log_start(o->folder, o->ranks.rank);
}

/* NCCL from 2.30 on lets ranks share a device where it is told to (2.30.7 src/init.cc:1057): enough
 * to see what is asked and what runs, and no time would be worth anything. */
static bool may_share(void)
{
    const char *value = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return value != NULL && atoi(value) > 0;
}

static void make_communicator(size_t largest)
{
    double us = communicator_make(room_for(largest));
    struct row row = row_of(communicator.number, "communicator");
    if (communicator.number == 0)
        tell_variables(); /* a file of the library's own may have set what the environment lacked */
    row.time_us = us;
    rows_write(&row);
}

static void call_once(const struct step *step)
{
    struct call call = call_begin(step);
    struct row row = row_of(communicator.number, step->kind == STEP_CHECK ? "check" : "call");
    tuning_log_resume(nccl.reset_log);
    tuning_log_skip();
    struct checked checked =
        check_call(&call, (unsigned)step->line, step->kind == STEP_CHECK && kernels_run());
    row.n_bytes = call.n_bytes;
    row.made = 1;
    row.checked = checked.compared;
    row.wrong = checked.wrong;
    asked_into(&row);
    tuning_log_read(row.ran, sizeof row.ran);
    call_end(&call);
    rows_write(&row);
}

/* Before anything is timed. */
static void end_log(void)
{
    static bool is_told;
    if (!tuning_log_stop(nccl.reset_log) && !is_told)
        rows_remark("log stays on: this library has no ncclResetDebugInit");
    is_told = true;
}

static bool shares_device;

static void measure(const struct step *step)
{
    if (shares_device)
        fail(EXIT_DEVICES, "ranks share a device, so that no time would be worth anything");
    end_log();
    struct call call = call_begin(step);
    struct row row = row_of(communicator.number, "measure");
    row.n_bytes = call.n_bytes;
    (step->graph ? measure_graph : measure_loop)(&call, &row);
    call_end(&call);
    rows_write(&row);
}

static void order(const struct step *step)
{
    const char *refused = order_refused(step, communicator.n_ranks);
    if (refused != NULL)
        fail(EXIT_USAGE, "order: %s", refused);
    if (!kernels_run())
        fail(EXIT_USAGE, "order: no kernel runs here, so that nothing is added");
    struct call call = call_begin(step);
    struct row row = row_of(communicator.number, "order");
    tuning_log_resume(nccl.reset_log);
    tuning_log_skip();
    row.n_bytes = call.n_bytes;
    order_probe(&call, &row);
    asked_into(&row);
    tuning_log_read(row.ran, sizeof row.ran);
    call_end(&call);
    rows_write(&row);
}

/* The first step says the largest one, before the first communicator's buffers are made. */
static size_t begin(void)
{
    struct step step;
    if (!steps_next(&step))
        fail(EXIT_USAGE, "there is no step");
    context.line = 0; /* what does not fit is this machine's matter, no step's */
    memory_check(room_for(step.n_bytes));
    rows_head();
    steps_done();
    return step.n_bytes;
}

static void walk(size_t largest)
{
    for (struct step step; steps_next(&step);) {
        switch (step.kind) {
        case STEP_ANSWER:
            if (plugin.answer == NULL)
                fail(EXIT_USAGE, "there is no --plugin that would give an answer");
            answer_set(&step);
            continue;
        case STEP_COMMUNICATOR:
            make_communicator(largest);
            break;
        case STEP_MEASURE:
            measure(&step);
            break;
        case STEP_ORDER:
            order(&step);
            break;
        default:
            call_once(&step);
        }
        steps_done();
    }
}

int main(int argc, char **argv)
{
    static struct options options;
    options_read(argc, argv, &options);
    find_ranks(&options);
    if (options.plan == NULL)
        check_folder(options.folder, getenv("RCCLTUNE_PERF_TOKEN"));
    rows_open(options.folder, options.ranks.rank);
    steps_open(options.plan, options.ranks.rank);
    tell_host(*context.host != '\0' && options.ranks.local_rank == 0);
    set_variables(&options);
    /* Before the library is opened: where one host lacks it, all hear of it at once. */
    rendezvous_start(options.folder, options.ranks.rank, options.ranks.n_ranks,
                     getenv("RCCLTUNE_PERF_TOKEN"), options.plan == NULL);
    library_open(options.library, options.runtime);
    plugin_open(options.plugin);
    shares_device = take_device(&options.ranks, options.devices, options.binds, may_share());
    communicator.rank = options.ranks.rank;
    communicator.n_ranks = options.ranks.n_ranks;
    size_t largest = begin();
    answer_apply(); /* communicators belong to us from the first one on */
    walk(largest);
    communicator_leave();
    rendezvous_end();
    tell_questions();
    rows_remark("done");
    /* The last communicator ends with the process, which is quicker than to destroy it. */
    fflush(NULL);
    _exit(EXIT_DONE);
}

/* Before the first call: which rank is where, what is printed, how communicators come about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "bench.h"
#include "debug.h"
#include "placement.h"
#include "real.h"
#include "visible.h"

/* all_reduce_perf, and whatever a build appended to the name (NAME_SUFFIX). */
static int collective_of(const char *program)
{
    const char *end = strstr(program, "_perf");
    struct text name = {program, end != NULL ? end : program};
    int found = find_name(name, collective_names, N_COLLECTIVES, false);
    if (found < 0)
        sim_fail("%s is no benchmark's name: all_reduce_perf and the like choose what is measured",
                 program);
    return found;
}

/* NCCL_TESTS_SPLIT_MASK=7, or NCCL_TESTS_SPLIT="MOD 8" or "DIV8": what rccltune parts ranks by. */
static int colour(int proc)
{
    const char *mask = getenv("NCCL_TESTS_SPLIT_MASK"), *split = getenv("NCCL_TESTS_SPLIT");
    bool modulo = split != NULL && strncasecmp(split, "MOD", 3) == 0;
    if (mask != NULL)
        return proc & (int)strtoul(mask, NULL, 16);
    if (split != NULL && !modulo && strncasecmp(split, "DIV", 3) != 0)
        sim_fail("of NCCL_TESTS_SPLIT the simulated benchmark plays MOD and DIV alone");
    int n = split != NULL ? (int)strtoul(split + 3, NULL, 0) : 0;
    return n <= 0 ? 0 : modulo ? proc % n : proc / n;
}

int device_of(const struct bench *bench, int rank)
{
    int per_host = bench->n_ranks / bench->n_nodes;
    int index = (int)env_number("NCCL_TESTS_DEVICE", 0) + rank % per_host;
    return bench->visible[index % bench->n_visible];
}

static int hosts_of(const struct bench *bench, const int *ranks, int n)
{
    int per_host = bench->n_ranks / bench->n_nodes, hosts = 1;
    for (int i = 1; i < n; i++)
        hosts += ranks[i] / per_host != ranks[i - 1] / per_host;
    return hosts;
}

/* The communicators in which this process has a rank: one, or one per colour of a split. */
static void make_groups(struct bench *bench)
{
    int at = 0;
    for (int r = 0; r < bench->n_ranks; r++)
        bench->group[r] = colour(r / bench->ranks_per_proc);
    for (int r = 0; r < bench->n_local; r++) {
        int mine = bench->group[bench->first_rank + r], c = 0;
        while (c < bench->n_comms && bench->group[bench->members[c][0]] != mine)
            c++;
        if (c < bench->n_comms)
            continue;
        if (c == MAX_GROUPS)
            sim_fail("more than %d groups in one process", MAX_GROUPS);
        struct comm *comm = &bench->comms[bench->n_comms++];
        comm->ranks = &bench->local_ranks[at];
        comm->world_ranks = &bench->local_world_ranks[at];
        for (int w = 0; w < bench->n_ranks; w++) {
            if (bench->group[w] != mine)
                continue;
            if (w >= bench->first_rank && w < bench->first_rank + bench->n_local) {
                bench->local_ranks[at] = comm->n_ranks;
                bench->local_world_ranks[at++] = w;
                comm->n_local++;
            }
            bench->members[c][comm->n_ranks++] = w;
        }
        comm->n_nodes = hosts_of(bench, bench->members[c], comm->n_ranks);
        int devices[MAX_RANKS];
        for (int i = 0; i < comm->n_ranks; i++)
            devices[i] = device_of(bench, bench->members[c][i]);
        comm->placement = placement_of(&bench->node, devices, comm->n_ranks);
        comm->id = keys_with(keys_with_text(keys_of(bench->noise.seed), bench->noise.launch),
                             (uint64_t)mine);
    }
}

static void check_devices(const struct bench *bench)
{
    char host[48];
    int per_host = bench->n_ranks / bench->n_nodes;
    if (per_host <= bench->n_visible)
        return;
    host_of(bench, bench->first_rank, host, sizeof host);
    fprintf(stderr,
            "[ERROR] The number of requested GPUs (%d) is greater than the number of GPUs "
            "available (%d) on node (%s)\n",
            per_host, bench->n_visible, host);
    exit(TEST_NCCL_ERROR);
}

void bench_setup(struct bench *bench, int argc, char **argv)
{
    struct node *node = &bench->node;
    const char *benchmark = env_text("RCCLTUNE_SIM_BENCHMARK");
    const char *slash = strrchr(argv[0], '/');
    bench->program = slash != NULL ? slash + 1 : argv[0];
    bench->collective = collective_of(bench->program);
    node_load(getenv("RCCLTUNE_SIM_NODE"), node);
    int version = node_release(node);
    int family = node->benchmark;
    if (benchmark != NULL)
        family = find_name(text_of(benchmark), benchmark_names, N_BENCHES, false);
    if (family < 0)
        sim_fail("'%s' is no benchmark release: rt24, rtmid, rt25, rtnew or nt", benchmark);
    options_read(&bench->options, family, bench->program, argc, argv);
    struct options *o = &bench->options;
    bench->n_nodes = 1;
    bench->n_visible = node->ranks / node->nodes;
    bench->ranks_per_proc = o->n_threads * o->n_gpus;
    if (o->n_threads < 1 || o->n_gpus < 1)
        sim_fail("-t %d -g %d leave a process without a rank", o->n_threads, o->n_gpus);
    launch_find(&bench->launch, node->ranks / bench->ranks_per_proc);
    bench->n_ranks = bench->launch.n_procs * bench->ranks_per_proc;
    if (bench->n_ranks > MAX_RANKS)
        sim_fail("%d ranks are more than %d", bench->n_ranks, MAX_RANKS);
    bench->n_nodes = bench->n_ranks == node->ranks ? node->nodes : 1;
    bench->first_rank = bench->launch.launched ? bench->launch.proc * bench->ranks_per_proc : 0;
    bench->n_local = bench->launch.launched ? bench->ranks_per_proc : bench->n_ranks;
    bench->n_visible = visible_devices(bench->n_visible, bench->visible);
    check_devices(bench);
    const char *launch = getenv("RCCLTUNE_SIM_LAUNCH");
    bench->noise.seed = (uint64_t)env_double("RCCLTUNE_SIM_SEED", 0);
    bench->noise.launch = launch != NULL ? launch : "";
    settle_faults(node, &bench->noise);
    settle_variants(node, &(struct manner){.graph = o->graph,
                                           .registered = o->registered > 0,
                                           .threads = o->n_threads,
                                           .gpus = o->n_gpus});
    make_groups(bench);
    bench->library.version = real_is_wanted() ? real_open(bench) : version;
}

/* maxBytes is what three buffers (two without checking) leave room for. */
static void limit_memory(struct bench *bench)
{
    struct options *o = &bench->options;
    const int64_t gib = 1 << 30;
    int64_t memory = bench->node.memory_mib << 20, share = (memory + 16 * gib - 1) / (16 * gib);
    int64_t reserve = gib;
    if (is_new(o->family))
        reserve += (share < 4 ? share : 4) * gib;
    int64_t largest = (memory - reserve) / (o->check ? 3 : 2);
    if (largest < 0)
        largest = 0;
    if (o->max_bytes <= (size_t)largest)
        return;
    o->max_bytes = (size_t)largest;
    if (is_new(o->family) && o->min_bytes > o->max_bytes)
        o->min_bytes = o->max_bytes;
    if (bench->first_rank == 0)
        printf("#\n# Reducing maxBytes to %ld due to memory limitation\n", (long)o->max_bytes);
}

void bench_print_start(struct bench *bench)
{
    for (int r = 0; r < bench->n_local; r++)
        launch_slot(bench->first_rank + r)->digest = (uint64_t)getpid();
    meet(0);
    out_start(bench);
    for (int r = 0; r < bench->n_ranks; r++)
        out_device(r, (int)launch_slot(r)->digest);
    launch_barrier();
    limit_memory(bench);
}

static void init_tuners(struct bench *bench)
{
    tuner_open(&bench->library.tuner, bench->library.family, bench->library.version);
    for (int c = 0; c < bench->n_comms; c++) {
        int result = comm_init_tuner(&bench->comms[c]);
        if (result != NCCL_SUCCESS)
            test_failure(bench, result, debug_last_error());
    }
}

/* A library of ours, or the real one that is named. */
static void start_library(struct bench *bench, bool is_real)
{
    static char host[48];
    bool first = bench->first_rank == 0;
    struct library *library = &bench->library;
    host_of(bench, bench->first_rank, host, sizeof host);
    if (is_real) {
        library->node = &bench->node;
        library->family = rccl_family(library->version);
        if (first)
            real_print_version(bench, host);
        return;
    }
    debug_start(host, device_of(bench, bench->first_rank), library->version >= ROCM_7_11 ? 4 : 3);
    int result = library_start(library, &bench->node, library->version);
    if (first)
        library_print_version(library);
    if (result != NCCL_SUCCESS)
        test_failure(bench, result, debug_last_error());
}

void bench_init_library(struct bench *bench)
{
    bool is_real = real_is_wanted();
    start_library(bench, is_real);
    /* Since 2.28.3 the tuner comes first, so that a rank whose plugin fails leaves the others
     * waiting in the transports; before, they had passed them and wait in the first collective. */
    bool tuner_first = bench->library.family->since >= ROCM_7_11;
    fault_at_init(bench);
    sleep_for(env_double("RCCLTUNE_SIM_STARTUP_S", bench->node.startup_s));
    if (is_real)
        real_init(bench);
    for (int c = 0; c < bench->n_comms && !is_real; c++)
        comm_build(&bench->comms[c], &bench->library);
    if (!is_real && tuner_first)
        init_tuners(bench);
    if (!meet(bench->options.timeout))
        timed_out(bench);
    launch_barrier();
    if (!is_real && !tuner_first)
        init_tuners(bench);
    for (int c = 0; c < bench->n_comms && !is_real; c++)
        comm_log_init(&bench->comms[c]);
}

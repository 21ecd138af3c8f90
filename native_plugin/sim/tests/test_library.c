/*
 * The stand-in library over the simulated machine, as a rank program sees both: several processes,
 * the clock against the node file, graphs, a tuner, what goes wrong.  test_data.c has the data.
 */
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "made_node.h"
#include "world.h"

enum { N = 4, FLOAT = 7, SUM = 0, SOME = 20 };

static void *memory(struct world *w, size_t bytes)
{
    void *pointer = NULL;
    CHECK(w->hipMalloc(&pointer, bytes) == 0);
    return pointer;
}

/* Microseconds of one of several all-reduces of so many bytes, in a loop. */
static double loop_us(struct world *w, size_t bytes, void *send, void *receive)
{
    double before = w->rccltune_simulated_clock_v1();
    for (int i = 0; i < SOME; i++)
        CHECK(w->ncclAllReduce(send, receive, bytes / 4, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    return (w->rccltune_simulated_clock_v1() - before) / SOME;
}

static void *captured(struct world *w, size_t bytes, void *send, void *receive)
{
    void *graph = NULL, *instance = NULL;
    CHECK(w->hipStreamBeginCapture(w->stream, 1) == 0);
    for (int i = 0; i < SOME; i++)
        CHECK(w->ncclAllReduce(send, receive, bytes / 4, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipStreamEndCapture(w->stream, &graph) == 0);
    CHECK(w->hipGraphInstantiateWithFlags(&instance, graph, 0) == 0);
    CHECK(w->hipGraphDestroy(graph) == 0);
    return instance;
}

static double graph_us(struct world *w, size_t bytes, void *send, void *receive)
{
    void *instance = captured(w, bytes, send, receive);
    double before = w->rccltune_simulated_clock_v1();
    for (int i = 0; i < 3; i++)
        CHECK(w->hipGraphLaunch(instance, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    double us = (w->rccltune_simulated_clock_v1() - before) / 3 / SOME;
    CHECK(w->hipGraphExecDestroy(instance) == 0);
    return us;
}

static void begin(struct world *w, void **send, void **receive, size_t bytes)
{
    *send = memory(w, bytes);
    *receive = memory(w, bytes);
    CHECK(world_communicator(w) == 0);
}

static void end(struct world *w)
{
    CHECK(w->ncclCommDestroy(w->comm) == 0);
}

/* Without noise a loop's times are the node file's to the last digit, and a graph's too, where a
 * variant of graphs holds for captured calls alone. */
static void clock_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    begin(w, &send, &receive, 1 << 20);
    CHECK(strstr(w->rccltune_simulated_words_v1(), "made-node") != NULL);
    for (size_t bytes = 1024; bytes <= 1 << 20; bytes *= 32) {
        double expected = made_us(bytes < 1 << 20 ? "ring/ll" : "ring/simple", bytes);
        CHECK_NEAR(loop_us(w, bytes, send, receive), expected, 1e-6);
        CHECK_NEAR(loop_us(w, bytes, send, send), expected, 1e-6);
        CHECK_NEAR(graph_us(w, bytes, send, receive), 0.5 * expected, 1e-6);
        CHECK_NEAR(loop_us(w, bytes, send, receive), expected, 1e-6);
    }
    double idle = w->rccltune_simulated_clock_v1();
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    CHECK(w->rccltune_simulated_clock_v1() > idle);
    end(w);
}

static void test_clock(void)
{
    made_node("variant graph\nwhen graph - 0 - -\n",
              "effect - - - - - graph - - 0 9223372036854775807 0 - - 0 1 2 0.5\n");
    CHECK(world_run(N, 20, clock_rank, NULL) == 0);
}

enum { BLOCKS = 40 };

static double spread(const double *at)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < BLOCKS; i++)
        sum += log(at[i]);
    for (int i = 0; i < BLOCKS; i++)
        squares += pow(log(at[i]) - sum / BLOCKS, 2);
    return sqrt(squares / (BLOCKS - 1));
}

static void noise_rank(struct world *w, void *argument)
{
    void *send, *receive, *instance;
    double *mine = world_shared + 2 * BLOCKS * w->rank;
    (void)argument;
    begin(w, &send, &receive, 4096);
    for (int i = 0; i < BLOCKS; i++)
        mine[i] = loop_us(w, 4096, send, receive);
    instance = captured(w, 4096, send, receive);
    for (int i = 0; i < BLOCKS; i++) {
        double before = w->rccltune_simulated_clock_v1();
        CHECK(w->hipGraphLaunch(instance, w->stream) == 0);
        CHECK(w->hipStreamSynchronize(w->stream) == 0);
        mine[BLOCKS + i] = w->rccltune_simulated_clock_v1() - before;
    }
    w->hipGraphExecDestroy(instance);
    end(w);
}

/* Block noise is common to the ranks, a rank's own is small; a graph has a tenth; the same seed and
 * launch give the same times. */
static void test_noise(void)
{
    static double first[N * 2 * BLOCKS];
    made_node("", "");
    made_noise("noise 0.001 0 1 0 0 1\nsigma 1:0.05\n");
    setenv("RCCLTUNE_SIM_LAUNCH", "a", 1);
    CHECK(world_run(N, 20, noise_rank, NULL) == 0);
    memcpy(first, world_shared, sizeof first);
    CHECK(spread(first) > 0.03 && spread(first) < 0.08);
    CHECK(spread(first + BLOCKS) > 0.003 && spread(first + BLOCKS) < 0.008);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(first[i] != first[2 * BLOCKS + i]);
        CHECK_NEAR(first[2 * BLOCKS + i] / first[i], 1, 0.006);
    }
    CHECK(world_run(N, 20, noise_rank, NULL) == 0);
    CHECK(memcmp(first, world_shared, sizeof first) == 0);
    setenv("RCCLTUNE_SIM_LAUNCH", "b", 1);
    CHECK(world_run(N, 20, noise_rank, NULL) == 0);
    CHECK(first[0] != world_shared[0]);
    unsetenv("RCCLTUNE_SIM_LAUNCH");
}

static int lines_with(const char *path, const char *words)
{
    char line[1024];
    int n = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        n += strstr(line, words) != NULL;
    if (file != NULL)
        fclose(file);
    return n;
}

/* Where a rank's tuner writes what it was asked. */
static void use_plugin(int rank)
{
    char path[64];
    snprintf(path, sizeof path, "%s/asked-%d", made_folder(), rank);
    unlink(path);
    setenv("TESTPLUGIN_LOG", path, 1);
    setenv("NCCL_TUNER_PLUGIN", getenv("SIM_PLUGIN"), 1);
}

static void tuner_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    use_plugin(w->rank);
    setenv("TESTPLUGIN_ANSWER", "tree/ll128,2048-65536", 1);
    begin(w, &send, &receive, 1 << 20);
    CHECK_NEAR(loop_us(w, 1024, send, receive), made_us("ring/ll", 1024), 1e-6);
    CHECK_NEAR(loop_us(w, 4096, send, receive), made_us("tree/ll128", 4096), 1e-6);
    CHECK_NEAR(graph_us(w, 4096, send, receive), made_us("tree/ll128", 4096), 1e-6);
    /* Another answer between two calls of one communicator. */
    setenv("TESTPLUGIN_ANSWER", "ring/simple", 1);
    CHECK_NEAR(loop_us(w, 4096, send, receive), made_us("ring/simple", 4096), 1e-6);
    CHECK(w->ncclAllGather(send, receive, 256, FLOAT, w->comm, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    end(w);
}

static void test_tuner(void)
{
    char path[96];
    made_node("", "");
    CHECK(world_run(N, 20, tuner_rank, NULL) == 0);
    for (int rank = 0; rank < N; rank++) {
        snprintf(path, sizeof path, "%s/asked-%d", made_folder(), rank);
        CHECK(lines_with(path, "init v5 4 1") == 1 && lines_with(path, "end") == 1);
        CHECK(lines_with(path, "ask 4 4096 ") == 3 * SOME &&
              lines_with(path, "ask 4 1024 ") == SOME);
        CHECK(lines_with(path, "ask 2 4096 ") == 1); /* all ranks' bytes */
    }
}

/* What a path takes asks nobody, and what runs instead of the answer takes its own time. */
static void bypass_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    use_plugin(w->rank);
    setenv("TESTPLUGIN_ANSWER", "tree/ll", 1);
    begin(w, &send, &receive, 1 << 20);
    CHECK_NEAR(loop_us(w, 1024, send, receive), made_us("dda", 1024), 1e-6);
    CHECK_NEAR(loop_us(w, 65536, send, receive), made_us("ring/simple", 65536), 1e-6);
    CHECK_NEAR(loop_us(w, 1 << 20, send, receive), made_us("tree/ll", 1 << 20), 1e-6);
    end(w);
}

static void test_bypass(void)
{
    char path[96];
    made_node("", "bypass dda all_reduce - - - - - - - 0 2048 - 1 0\n"
                  "fault substitute all_reduce tree/ll - - - - - - 65536 65536 -1 1 0 0 segv "
                  "ring/simple -\n");
    CHECK(world_run(N, 20, bypass_rank, NULL) == 0);
    snprintf(path, sizeof path, "%s/asked-0", made_folder());
    CHECK(lines_with(path, "ask 4 1024 ") == 0 && lines_with(path, "ask 4 65536 ") == SOME);
}

/* Ranks that decide differently wait for each other at the stream, and not before. */
static void differing_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    use_plugin(w->rank);
    setenv("TESTPLUGIN_ANSWER", w->rank == 2 ? "tree/ll" : "tree/simple", 1);
    begin(w, &send, &receive, 4096);
    CHECK(w->ncclAllReduce(send, receive, 256, FLOAT, SUM, w->comm, w->stream) == 0);
    world_shared[w->rank] = 1;
    w->hipStreamSynchronize(w->stream);
    world_shared[w->rank] = 2;
}

static void test_differing(void)
{
    made_node("", "");
    setenv("RCCL_FORCE_TREE_SIMPLE", "1", 1);
    setenv("RCCLTUNE_SIM_PATCHES", "force-tree-simple", 1);
    CHECK(world_run(N, 1, differing_rank, NULL) == -1);
    for (int i = 0; i < N; i++)
        CHECK(world_shared[i] == 1);
    unsetenv("RCCL_FORCE_TREE_SIMPLE");
    unsetenv("RCCLTUNE_SIM_PATCHES");
}

/* One rank's calls are not another's: sizes, or the collective itself. */
static void other_call_rank(struct world *w, void *argument)
{
    void *send, *receive;
    begin(w, &send, &receive, 4096);
    size_t count = w->rank == 1 && argument == NULL ? 128 : 256;
    if (w->rank == 1 && argument != NULL)
        CHECK(w->ncclBroadcast(send, receive, count, FLOAT, 0, w->comm, w->stream) == 0);
    else
        CHECK(w->ncclAllReduce(send, receive, count, FLOAT, SUM, w->comm, w->stream) == 0);
    w->hipStreamSynchronize(w->stream);
}

static void test_other_calls(void)
{
    made_node("", "");
    CHECK(world_run(N, 0.5, other_call_rank, NULL) == -1);
    CHECK(world_run(N, 0.5, other_call_rank, "") == -1);
}

static void graph_rank(struct world *w, void *argument)
{
    void *send, *receive;
    begin(w, &send, &receive, 4096);
    void *instance = captured(w, 4096, send, receive);
    if (argument == NULL)
        CHECK(w->hipGraphExecDestroy(instance) == 0);
    end(w);
    CHECK(world_communicator(w) == 0); /* and another one */
    end(w);
}

/* A communicator waits for its graphs, for ever where nobody destroys them. */
static void test_graph_order(void)
{
    made_node("", "");
    CHECK(world_run(N, 20, graph_rank, NULL) == 0);
    CHECK(world_run(N, 0.5, graph_rank, "") == -1);
}

/* Meeting places that stay; those of others on this machine go when their ranks have come. */
static int left_behind(void)
{
    int n = 1;
    for (int i = 0; n > 0 && i < 100; i++) {
        glob_t found;
        if (i > 0)
            usleep(100000);
        n = glob("/dev/shm/rccltune-sim-*", 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
        globfree(&found);
    }
    return n;
}

static void dying_rank(struct world *w, void *argument)
{
    void *send, *receive;
    if (w->rank == 1 && argument != NULL)
        raise(SIGKILL); /* before it comes to the meeting */
    begin(w, &send, &receive, 4096);
    loop_us(w, 4096, send, receive);
    if (w->rank == 1)
        raise(SIGKILL);
    loop_us(w, 4096, send, receive);
}

static void plain_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    begin(w, &send, &receive, 4096);
    loop_us(w, 4096, send, receive);
    end(w);
}

/* Who is killed leaves the others waiting and nothing on the machine. */
static void test_dying(void)
{
    made_node("", "");
    CHECK(world_run(N, 0.5, dying_rank, NULL) == -1);
    CHECK(left_behind() == 0);
    CHECK(world_run(N, 0.5, dying_rank, "") == -1);
    CHECK(left_behind() == 0);
    CHECK(world_run(N, 20, plain_rank, NULL) == 0);
    CHECK(left_behind() == 0);
}

static void fault_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    begin(w, &send, &receive, 1 << 20);
    CHECK_NEAR(loop_us(w, 1024, send, receive), made_us("ring/ll", 1024), 1e-6);
    world_shared[w->rank] = 1;
    loop_us(w, 65536, send, receive);
    world_shared[w->rank] = 2;
}

static void init_error_rank(struct world *w, void *argument)
{
    (void)argument;
    int result = world_communicator(w);
    if (w->rank != 3)
        return;
    CHECK(result == 2 && strcmp(w->ncclGetLastError(NULL), "no such luck") == 0);
    CHECK(strstr(w->ncclGetErrorString(result), "unhandled system error") != NULL);
}

static void test_faults(void)
{
    made_node("", "fault hang all_reduce - - - - - - - 65536 65536 2 1 0 0 segv - -\n");
    CHECK(world_run(N, 0.5, fault_rank, NULL) == -1);
    for (int i = 0; i < N; i++)
        CHECK(world_shared[i] == 1);
    made_node("", "fault crash all_reduce - - - - - - - 65536 65536 2 1 9 0 exit - -\n");
    CHECK(world_run(N, 0.5, fault_rank, NULL) == -1);
    for (int i = 0; i < N; i++)
        CHECK(world_shared[i] == 1);
    made_node("", "fault slow-rank all_reduce - - - - - - - 65536 65536 2 1 0 3 segv - -\n");
    CHECK(world_run(N, 20, fault_rank, NULL) == 0);
    made_node("", "fault init-error - - - - - - - - 0 100 3 1 0 0 segv - no%20such%20luck\n");
    CHECK(world_run(N, 0.5, init_error_rank, NULL) == -1); /* the others wait for it */
}

static void log_rank(struct world *w, void *argument)
{
    char path[96];
    void *send, *receive;
    (void)argument;
    snprintf(path, sizeof path, "%s/log-%%h-%d", made_folder(), w->rank);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING", 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    begin(w, &send, &receive, 4096);
    CHECK(w->ncclAllReduce(send, receive, 256, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    end(w);
}

static void test_log(void)
{
    char path[96];
    made_node("", "");
    CHECK(world_run(N, 20, log_rank, NULL) == 0);
    for (int rank = 0; rank < N; rank++) {
        snprintf(path, sizeof path, "%s/log-made-host-%d", made_folder(), rank);
        CHECK(lines_with(path, "Init COMPLETE") == 1);
        CHECK(lines_with(path, "AllReduce: 1024 Bytes -> Algo RING proto LL channel") ==
              (rank == 0));
    }
}

/* Lines of a configuration file are variables that nobody set. */
static void conf_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    setenv("NCCL_PROTO", "Simple", 1);
    begin(w, &send, &receive, 4096);
    CHECK(strcmp(getenv("NCCL_ALGO"), "Ring") == 0 && strcmp(getenv("NCCL_PROTO"), "Simple") == 0);
    CHECK(getenv("# NCCL_MAX_NCHANNELS") == NULL && getenv("NCCL_MIN_NCHANNELS") == NULL);
    CHECK_NEAR(loop_us(w, 4096, send, receive), made_us("ring/simple", 4096), 1e-6);
    end(w);
}

static void test_conf(void)
{
    char path[96];
    made_node("", "");
    snprintf(path, sizeof path, "%s/nccl.conf", made_folder());
    FILE *file = fopen(path, "w");
    if (file == NULL)
        abort();
    fputs("# NCCL_MAX_NCHANNELS=1\nNCCL_ALGO=Ring\nNCCL_PROTO=LL\nnonsense\n", file);
    fclose(file);
    setenv("NCCL_CONF_FILE", path, 1);
    CHECK(world_run(N, 20, conf_rank, NULL) == 0);
    unsetenv("NCCL_CONF_FILE");
}

static void devices_rank(struct world *w, void *argument)
{
    size_t before = 0, after = 0, total = 0;
    char bus[16], other[16];
    void *pointer = NULL, *more = NULL;
    int n = 0;
    (void)argument;
    CHECK(w->hipGetDeviceCount(&n) == 0 && n == N);
    CHECK(w->hipDeviceGetPCIBusId(bus, sizeof bus, w->rank) == 0);
    CHECK(w->hipDeviceGetPCIBusId(other, sizeof other, (w->rank + 1) % N) == 0);
    CHECK(strcmp(bus, other) != 0);
    CHECK(w->hipMemGetInfo(&before, &total) == 0 && total == (size_t)1 << 30);
    CHECK(w->hipMalloc(&pointer, 600 << 20) == 0);
    CHECK(w->hipMemGetInfo(&after, &total) == 0 && before - after == 600 << 20);
    CHECK(w->hipMalloc(&more, 600 << 20) == 2);
    CHECK(strcmp(w->hipGetErrorString(2), "out of memory") == 0 && w->hipGetLastError() == 2);
    CHECK(w->hipFree(pointer) == 0);
    CHECK(w->hipMemGetInfo(&after, &total) == 0 && after == before);
    for (int i = 0; i < 4000; i++) { /* addresses do not run out */
        CHECK(w->hipMalloc(&pointer, 600 << 20) == 0);
        CHECK(w->hipFree(pointer) == 0);
    }
}

static void hidden_rank(struct world *w, void *argument)
{
    char bus[16];
    void *send, *receive;
    int n = 0;
    (void)argument;
    CHECK(w->hipGetDeviceCount(&n) == 0 && n == 4);
    CHECK(w->hipDeviceGetPCIBusId(bus, sizeof bus, 1) == 0 && strcmp(bus, "0000:0c:00.0") == 0);
    begin(w, &send, &receive, 4096);
    loop_us(w, 4096, send, receive);
    end(w);
}

static void twin_rank(struct world *w, void *argument)
{
    (void)argument;
    CHECK(w->hipSetDevice(0) == 0);
    CHECK(world_communicator(w) == 5);
    CHECK(strstr(w->ncclGetLastError(NULL), "Duplicate GPU detected") != NULL);
}

static void test_devices(void)
{
    made_node("", "");
    CHECK(world_run(N, 20, devices_rank, NULL) == 0);
    setenv("ROCR_VISIBLE_DEVICES", "3,2,1,0", 1);
    setenv("HIP_VISIBLE_DEVICES", "0,3,1,2", 1);
    CHECK(world_run(N, 20, hidden_rank, NULL) == 0);
    unsetenv("ROCR_VISIBLE_DEVICES");
    unsetenv("HIP_VISIBLE_DEVICES");
    CHECK(world_run(N, 20, twin_rank, NULL) == 0);
}

/* All ranks of a file of two hosts are parted into them. */
static void hosts_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    use_plugin(w->rank);
    begin(w, &send, &receive, 4096);
    loop_us(w, 4096, send, receive);
    end(w);
}

static void test_hosts(void)
{
    char path[96];
    made_scale(N, 2);
    made_node("", "");
    CHECK(world_run(N, 20, hosts_rank, NULL) == 0);
    snprintf(path, sizeof path, "%s/asked-3", made_folder());
    CHECK(lines_with(path, "init v5 4 2") == 1);
    made_scale(N, 1);
}

static void wrong_call_rank(struct world *w, void *argument)
{
    void *send, *receive, *none = NULL;
    struct id id = {{0}};
    int version = 0, op = 0;
    (void)argument;
    CHECK(w->ncclGetVersion(&version) == 0 && version == 22803);
    CHECK(w->ncclCommInitRank(&none, 4, id, 4) == 4 && none == NULL);
    CHECK(strcmp(w->ncclGetLastError(NULL), "Invalid rank requested : 4/4") == 0);
    begin(w, &send, &receive, 4096);
    CHECK(w->ncclAllReduce(send, receive, 1, 99, SUM, w->comm, w->stream) == 4);
    CHECK(strcmp(w->ncclGetLastError(w->comm), "AllReduce : invalid type 99") == 0);
    CHECK(w->ncclReduce(send, receive, 1, FLOAT, 7, 0, w->comm, w->stream) == 4);
    CHECK(strcmp(w->ncclGetLastError(w->comm), "Reduce : invalid reduction operation 7") == 0);
    CHECK(w->ncclBroadcast(send, receive, 1, FLOAT, 4, w->comm, w->stream) == 4);
    CHECK(strstr(w->ncclGetLastError(w->comm), "invalid root 4") != NULL);
    CHECK(w->ncclAllReduce(send, receive, 1, FLOAT, SUM, NULL, w->stream) == 4);
    CHECK(w->ncclGroupEnd() == 5);
    CHECK(w->ncclRedOpDestroy(5, w->comm) == 4 && w->ncclRedOpDestroy(op, w->comm) == 4);
    CHECK(strcmp(w->ncclGetErrorString(4),
                 "invalid argument (run with NCCL_DEBUG=WARN for details)") == 0);
    CHECK(strcmp(w->ncclGetErrorString(0), "no error") == 0);
    CHECK(w->ncclAllReduce(send, receive, 0, FLOAT, SUM, w->comm, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    CHECK(w->ncclCommFinalize(w->comm) == 0);
    CHECK(w->ncclCommAbort(w->comm) == 0);
}

static void test_wrong_calls(void)
{
    made_node("", "");
    CHECK(world_run(N, 20, wrong_call_rank, NULL) == 0);
}

/* What ran before in a communicator, in passes that begin where a block's size falls; barriers are
 * no blocks of their own, and the next communicator knows nothing of it. */
static void history_rank(struct world *w, void *argument)
{
    void *send, *receive;
    double plain = made_us("ring/ll", 4096);
    (void)argument;
    use_plugin(w->rank);
    begin(w, &send, &receive, 65536);
    setenv("TESTPLUGIN_ANSWER", "ring/ll", 1);
    CHECK_NEAR(loop_us(w, 4096, send, receive), plain, 1e-6);
    setenv("TESTPLUGIN_ANSWER", "tree/ll", 1);
    loop_us(w, 65536, send, receive);
    loop_us(w, 8, send, receive); /* a barrier */
    setenv("TESTPLUGIN_ANSWER", "ring/ll", 1);
    CHECK_NEAR(loop_us(w, 65536, send, receive), 2 * made_us("ring/ll", 65536), 1e-6);
    CHECK_NEAR(loop_us(w, 4096, send, receive), plain, 1e-6); /* the next pass */
    CHECK_NEAR(loop_us(w, 65536, send, receive), made_us("ring/ll", 65536), 1e-6);
    end(w);
    CHECK(world_communicator(w) == 0);
    CHECK_NEAR(loop_us(w, 65536, send, receive), made_us("ring/ll", 65536), 1e-6);
    end(w);
}

static void test_history(void)
{
    made_node("", "effect - - - - - - - - 0 9223372036854775807 1 - - 0 1 2 2\n");
    CHECK(world_run(N, 20, history_rank, NULL) == 0);
}

/* A rank without the plugin is not asked and decides for itself: as the others where they get no
 * answer, and else all wait. */
static void no_plugin_rank(struct world *w, void *argument)
{
    void *send, *receive;
    use_plugin(w->rank);
    if (argument != NULL)
        setenv("TESTPLUGIN_ANSWER", "tree/ll", 1);
    begin(w, &send, &receive, 4096);
    loop_us(w, 1024, send, receive);
    end(w);
}

static void test_no_plugin(void)
{
    char path[96];
    made_node("", "fault no-plugin - - - - - - - - 0 100 1 1 0 0 segv - -\n");
    CHECK(world_run(N, 0.5, no_plugin_rank, "") == -1);
    CHECK(world_run(N, 20, no_plugin_rank, NULL) == 0);
    for (int rank = 0; rank < N; rank++) {
        snprintf(path, sizeof path, "%s/asked-%d", made_folder(), rank);
        CHECK(lines_with(path, "init v5") == (rank != 1));
        CHECK(lines_with(path, "ask 4 1024 ") == (rank != 1 ? SOME : 0));
    }
}

/* Two communicators at a time, of which each has its own calls, history and noise. */
static void two_rank(struct world *w, void *argument)
{
    void *send, *receive;
    (void)argument;
    begin(w, &send, &receive, 65536);
    void *first = w->comm;
    CHECK(world_communicator(w) == 0);
    double before = w->rccltune_simulated_clock_v1();
    CHECK(w->ncclAllReduce(send, receive, 256, FLOAT, SUM, first, w->stream) == 0);
    CHECK(w->ncclAllGather(send, receive, 256, FLOAT, w->comm, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    CHECK_NEAR(w->rccltune_simulated_clock_v1() - before,
               made_us("ring/ll", 1024) + made_us("ring/ll", 4096), 1e-6);
    /* Equal calls of a group are one question about their sum. */
    before = w->rccltune_simulated_clock_v1();
    CHECK(w->ncclGroupStart() == 0);
    for (int i = 0; i < 4; i++)
        CHECK(w->ncclAllReduce(send, receive, 256, FLOAT, SUM, first, w->stream) == 0);
    CHECK(w->ncclGroupEnd() == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    CHECK_NEAR(w->rccltune_simulated_clock_v1() - before, made_us("ring/ll", 4096), 1e-6);
    CHECK(w->ncclCommDestroy(first) == 0);
    end(w);
}

static void test_two(void)
{
    made_node("", "");
    CHECK(world_run(N, 20, two_rank, NULL) == 0);
}

int main(void)
{
    test_no_plugin();
    test_two();
    test_clock();
    test_noise();
    test_tuner();
    test_bypass();
    test_differing();
    test_other_calls();
    test_graph_order();
    test_dying();
    test_faults();
    test_log();
    test_conf();
    test_devices();
    test_hosts();
    test_wrong_calls();
    test_history();
    return check_failures != 0;
}

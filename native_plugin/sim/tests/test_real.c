/*
 * The real RCCL over the simulated machine, a process a rank: what a tuner answers takes the node
 * file's time, in a loop and in a graph, on one host and on two.  Started under the library's own
 * loader (CMakeLists.txt); SIM_LIBRARY names the library, SIM_MACHINE the stand-in runtime.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "made_node.h"
#include "world.h"

enum { FLOAT = 7, SUM = 0, SOME = 5 };

static void call(struct world *w, size_t bytes, char *send, char *receive)
{
    CHECK(w->ncclAllReduce(send, receive, bytes / 4, FLOAT, SUM, w->comm, w->stream) == 0);
}

static double loop_us(struct world *w, size_t bytes, char *send, char *receive)
{
    double before = w->rccltune_simulated_clock_v1();
    for (int i = 0; i < SOME; i++)
        call(w, bytes, send, receive);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    return (w->rccltune_simulated_clock_v1() - before) / SOME;
}

static double graph_us(struct world *w, size_t bytes, char *send, char *receive)
{
    void *graph = NULL, *instance = NULL;
    CHECK(w->hipStreamBeginCapture(w->stream, 1) == 0);
    for (int i = 0; i < SOME; i++)
        call(w, bytes, send, receive);
    CHECK(w->hipStreamEndCapture(w->stream, &graph) == 0);
    CHECK(w->hipGraphInstantiateWithFlags(&instance, graph, 0) == 0);
    CHECK(w->hipGraphDestroy(graph) == 0);
    double before = w->rccltune_simulated_clock_v1();
    CHECK(w->hipGraphLaunch(instance, w->stream) == 0);
    CHECK(w->hipGraphLaunch(instance, w->stream) == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    double us = (w->rccltune_simulated_clock_v1() - before) / 2 / SOME;
    CHECK(w->hipGraphExecDestroy(instance) == 0);
    return us;
}

/* What a group of one send and one receive takes. */
static double pair_us(struct world *w, size_t bytes, char *send, char *receive)
{
    int n = w->n_ranks, next = (w->rank + 1) % n, before = (w->rank + n - 1) % n;
    double began = w->rccltune_simulated_clock_v1();
    CHECK(w->ncclGroupStart() == 0);
    CHECK(w->ncclSend(send, bytes / 4, FLOAT, next, w->comm, w->stream) == 0);
    CHECK(w->ncclRecv(receive, bytes / 4, FLOAT, before, w->comm, w->stream) == 0);
    CHECK(w->ncclGroupEnd() == 0);
    CHECK(w->hipStreamSynchronize(w->stream) == 0);
    return w->rccltune_simulated_clock_v1() - began;
}

/* Launching costs the host a little while nothing runs yet: of the few kernels of a block the
 * first begins that much later. */
static const double launch_us = 5;

static void rank(struct world *w, void *argument)
{
    static const char *const answers[] = {"tree/ll", "ring/ll", "ring/simple"};
    char *send = NULL, *receive = NULL, host[32];
    int n_hosts = argument != NULL ? 2 : 1;
    CHECK(w->hipMalloc((void **)&send, 1 << 20) == 0);
    CHECK(w->hipMalloc((void **)&receive, 1 << 20) == 0);
    snprintf(host, sizeof host, "made-host%d", w->rank * n_hosts / w->n_ranks);
    setenv("NCCL_PROFILER_PLUGIN", getenv("SIM_MACHINE"), 1);
    setenv("NCCL_TUNER_PLUGIN", getenv("SIM_PLUGIN"), 1);
    setenv("NCCL_TOPO_FILE", "/simulated/topology.xml", 1);
    setenv("RCCL_USE_ROCM_SMI_LIB", "1", 1);
    if (n_hosts > 1) {
        setenv("NCCL_NET_PLUGIN", getenv("SIM_MACHINE"), 1);
        setenv("NCCL_HOSTID", host, 1);
    }
    for (int made = 0; made < 2; made++) {
        CHECK(world_communicator(w) == 0);
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
            double expected = made_us(answers[i], 65536);
            setenv("TESTPLUGIN_ANSWER", answers[i], 1);
            CHECK_NEAR(loop_us(w, 65536, send, receive), expected, launch_us);
            CHECK_NEAR(graph_us(w, 65536, send, receive), expected, launch_us);
        }
        CHECK_NEAR(pair_us(w, 65536, send, receive), made_us("p2p", 65536), launch_us);
        /* Between hosts it would wait for data that no kernel sends. */
        CHECK((n_hosts > 1 ? w->ncclCommAbort : w->ncclCommDestroy)(w->comm) == 0);
    }
}

int main(void)
{
    made_product("AMD Instinct MI300X");
    for (int n_hosts = 1; n_hosts <= 2; n_hosts++) {
        made_scale(4, n_hosts);
        made_node("", "");
        CHECK(world_run(4, 60, rank, n_hosts > 1 ? "" : NULL) == 0);
    }
    return check_failures != 0;
}

/*
 * The simulated machine below a library that is no stand-in: what its profiler interface is told of
 * kernels takes the node file's time, in each of the orders in which RCCL tells it, and ranks that
 * launched different things wait for each other.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../include/rccltune_simulated.h"
#include "check.h"
#include "interfaces.h"
#include "machine.h"
#include "made_node.h"

int hipGetDeviceCount(int *);
int hipSetDevice(int);
int hipDeviceSynchronize(void);
int hipStreamCreateWithFlags(void **, unsigned);
int hipStreamSynchronize(void *);
int hipStreamBeginCapture(void *, int);
int hipStreamEndCapture(void *, void **);
int hipGraphInstantiateWithFlags(void **, void *, unsigned long long);
int hipGraphLaunch(void *, void *);
int hipGraphDestroy(void *);
int hipGraphExecDestroy(void *);
int hipLaunchHostFunc(void *, void (*)(void *), void *);
int hipLaunchKernel(const void *, struct hip_dim3, struct hip_dim3, void **, size_t, void *);
int hipMemGetInfo(size_t *, size_t *);

enum { N = 4 };
static int rank;
static void *context, *stream;
static char send[1 << 16], receive[1 << 16];

static void kernel(void)
{
    CHECK(hipLaunchKernel(NULL, (struct hip_dim3){8, 1, 1}, (struct hip_dim3){256, 1, 1}, NULL, 0,
                          stream) == HIP_OK);
}

static void *begin(void)
{
    struct descriptor group = {.type = EVENT_GROUP};
    void *event = NULL;
    CHECK(ncclProfiler_v4.start_event(context, &event, &group) == 0 && event != NULL);
    return event;
}

static struct descriptor collective(const char *function, size_t count, const char *dtype,
                                    const char *algorithm, const char *protocol, uint8_t channels)
{
    return (struct descriptor){.type = EVENT_COLLECTIVE,
                               .of.collective = {.function = function,
                                                 .count = count,
                                                 .dtype = dtype,
                                                 .send = send,
                                                 .receive = receive,
                                                 .channels = channels,
                                                 .algorithm = algorithm,
                                                 .protocol = protocol}};
}

static void tell(void *parent, struct descriptor descriptor)
{
    void *event = NULL;
    descriptor.parent = parent;
    CHECK(ncclProfiler_v4.start_event(context, &event, &descriptor) == 0 && event != NULL);
    CHECK(ncclProfiler_v4.record_state(event, 0, NULL) == 0);
    CHECK(ncclProfiler_v4.stop_event(event) == 0);
}

static void pair(void *parent, const char *function, int peer, char *buffer, size_t count)
{
    tell(parent, (struct descriptor){.type = EVENT_POINT_TO_POINT,
                                     .of.point_to_point = {.function = function,
                                                           .buffer = buffer,
                                                           .dtype = "ncclFloat32",
                                                           .count = count,
                                                           .peer = peer}});
}

static double synchronized_us(double before)
{
    CHECK(hipStreamSynchronize(stream) == HIP_OK);
    return rccltune_simulated_clock_v1() - before;
}

/* A kernel, then what it is. */
static void test_eager(void)
{
    static const struct {
        const char *function;
        size_t count; /* a rank's, for what gathers and scatters */
        const char *dtype, *algorithm, *protocol, *setting;
        size_t n_bytes;
    } rows[] = {
        {"AllReduce", 1024, "ncclFloat32", "RING", "LL", "ring/ll", 4096},
        {"AllReduce", 1024, "ncclFloat16", "TREE", "LL128", "tree/ll128", 2048},
        {"AllGather", 1024, "ncclInt8", "RING", "SIMPLE", "ring/simple", 4096},
        {"ReduceScatter", 256, "ncclFloat32", "RING", "LL128", "ring/ll128", 4096},
        {"Broadcast", 4096, "ncclInt8", "RING", "LL", "ring/ll", 4096},
        {"Reduce", 512, "ncclFloat64", "RING", "LL", "ring/ll", 4096},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double before = rccltune_simulated_clock_v1();
        for (int n = 0; n < 3; n++) {
            kernel();
            tell(begin(), collective(rows[i].function, rows[i].count, rows[i].dtype,
                                     rows[i].algorithm, rows[i].protocol, 32));
        }
        CHECK_NEAR(synchronized_us(before), 3 * made_us(rows[i].setting, rows[i].n_bytes), 1e-6);
    }
}

/* Fewer channels than the size is worth are a cap, of which curves know. */
static void test_channels(void)
{
    double before = rccltune_simulated_clock_v1();
    kernel();
    tell(begin(), collective("AllReduce", 1 << 18, "ncclFloat32", "RING", "SIMPLE", 4));
    CHECK_NEAR(synchronized_us(before), 3 * made_us("ring/simple", 1 << 20), 1e-6);
}

static void test_pairs(void)
{
    double before = rccltune_simulated_clock_v1();
    kernel();
    void *group = begin();
    pair(group, "Send", (rank + 1) % N, send, 1024);
    pair(group, "Recv", (rank + N - 1) % N, receive, 1024);
    CHECK_NEAR(synchronized_us(before), made_us("p2p", 4096), 1e-6);
    for (int gathers = 0; gathers < 2; gathers++) {
        before = rccltune_simulated_clock_v1();
        kernel();
        group = begin();
        for (int peer = 0; peer < N; peer++) {
            pair(group, "Send", peer, send + (gathers ? 0 : 1024 * peer), 256);
            pair(group, "Recv", peer, receive + 1024 * peer, 256);
        }
        CHECK_NEAR(synchronized_us(before), made_us(gathers ? "direct" : "p2p", 4096), 1e-6);
    }
}

static void tell_all_reduce(void *argument)
{
    (void)argument;
    tell(begin(), collective("AllReduce", 1024, "ncclFloat32", "TREE", "LL", 32));
}

/* Told at the capture behind each kernel; or by the host, before each kernel of each replay. */
static void test_graphs(void)
{
    for (int by_host = 0; by_host < 2; by_host++) {
        void *graph = NULL, *instance = NULL;
        CHECK(hipStreamBeginCapture(stream, 1) == HIP_OK);
        for (int n = 0; n < 3; n++) {
            if (by_host)
                CHECK(hipLaunchHostFunc(stream, tell_all_reduce, NULL) == HIP_OK);
            kernel();
            if (!by_host)
                tell_all_reduce(NULL);
        }
        CHECK(hipStreamEndCapture(stream, &graph) == HIP_OK);
        CHECK(hipGraphInstantiateWithFlags(&instance, graph, 0) == HIP_OK);
        CHECK(hipGraphDestroy(graph) == HIP_OK);
        double before = rccltune_simulated_clock_v1();
        CHECK(hipGraphLaunch(instance, stream) == HIP_OK);
        CHECK(hipGraphLaunch(instance, stream) == HIP_OK);
        CHECK_NEAR(synchronized_us(before), 6 * made_us("tree/ll", 4096), 1e-6);
        CHECK(hipGraphExecDestroy(instance) == HIP_OK);
        kernel(); /* and outside of it again */
        tell_all_reduce(NULL);
        CHECK(hipDeviceSynchronize() == HIP_OK);
    }
}

static void all_tests(void)
{
    test_eager();
    test_channels();
    test_pairs();
    test_graphs();
    CHECK(strstr(rccltune_simulated_words_v1(), "made-node") != NULL);
}

static void untold(void)
{
    kernel();
    hipStreamSynchronize(stream);
}

static void differing(void)
{
    kernel();
    tell(begin(),
         collective("AllReduce", 1024, "ncclFloat32", rank == 1 ? "TREE" : "RING", "LL", 32));
    hipStreamSynchronize(stream);
}

static void unknown(void)
{
    kernel();
    tell(begin(), collective("AllReduce", 1024, "ncclFloat32", "SPIRAL", "LL", 32));
}

static void closing(void)
{
    struct fabric *fabric = rccltune_fabric_prepare(N, rank);
    CHECK(rccltune_fabric_join(fabric, "closing") == -1);
    CHECK(rccltune_fabric_ranks(fabric) == N && rccltune_fabric_rank(fabric) == rank);
    CHECK(rccltune_fabric_nodes(fabric) == 1 && rccltune_fabric_placement(fabric) == PLACE_NODE);
    CHECK(strcmp(rccltune_machine_host(rank, N), "made-host") == 0);
    rccltune_fabric_close(fabric, false);
}

static void nothing(void)
{
}

/* Each of N ranks; the worst exit status, -1 where one was still there after a while. */
static int as_ranks(void (*function)(void))
{
    pid_t pids[N];
    int worst = 0, left = N;
    static uint64_t id = 7;
    id++;
    fflush(NULL);
    for (rank = 0; rank < N; rank++) {
        pids[rank] = fork();
        if (pids[rank] > 0)
            continue;
        int mask = 0, n = 0;
        check_failures = 0; /* of the parent's */
        size_t available = 0, total = 0;
        CHECK(hipGetDeviceCount(&n) == HIP_OK && n == N && hipSetDevice(rank) == HIP_OK);
        CHECK(hipMemGetInfo(&available, &total) == HIP_OK && total == (size_t)1 << 30);
        CHECK(hipStreamCreateWithFlags(&stream, 1) == HIP_OK);
        CHECK(ncclProfiler_v4.start(&context, &mask, "c", id, 1, N, rank, NULL) == 0);
        CHECK(mask == (EVENT_COLLECTIVE | EVENT_POINT_TO_POINT));
        function();
        CHECK(ncclProfiler_v4.finalize(context) == 0);
        fflush(NULL);
        exit(check_failures != 0); /* not _exit: gcov writes what it counted */
    }
    for (int ms = 0; left > 0; ms++) {
        for (int i = 0; i < N; i++) {
            int status;
            if (pids[i] == 0 || waitpid(pids[i], &status, WNOHANG) != pids[i])
                continue;
            int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            worst = worst < 0 || worst > code ? worst : code;
            pids[i] = 0;
            left--;
        }
        for (int i = 0; i < N && ms == 2000; i++) {
            worst = -1;
            if (pids[i] > 0)
                kill(pids[i], SIGKILL);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return worst;
}

int main(void)
{
    made_node("", "curve all_reduce ring/simple 4 - - - - - 0 9223372036854775807 0 0 0 x "
                  "1024:42 1048576:42000\n");
    CHECK(as_ranks(all_tests) == 0);
    CHECK(as_ranks(closing) == 0);
    CHECK(as_ranks(untold) == EXIT_SIM_SETUP);
    CHECK(as_ranks(unknown) == EXIT_SIM_SETUP);
    CHECK(as_ranks(differing) == -1);
    setenv("RCCLTUNE_SIM_SHM_DIR", made_folder(), 1); /* hosts that share no sockets */
    CHECK(as_ranks(all_tests) == 0);
    setenv("RCCLTUNE_SIM_STARTUP_S", "2", 1);
    setenv("ROCR_VISIBLE_DEVICES", "3,2,1,0", 1);
    CHECK(as_ranks(nothing) == 0);
    made_node("", "fault no-file - - - - - - - - 0 100 1 1 0 0 segv - -\n");
    CHECK(as_ranks(nothing) == EXIT_SIM_SETUP);
    return check_failures != 0;
}

#include "communicator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_frequency.h"
#include "graph.h"
#include "library.h"
#include "rccltune_answer.h"
#include "rendezvous.h"
#include "rows.h"

struct communicator communicator = {.number = -1};

enum { OFFSET = 4096, OFFSETS = 61, MOST_KEPT = 32, FEW_RANKS = 16 };
/* Buffers are at least so large that successive calls do not find the last one's data in a cache
 * (the largest known is an MI300X's of 256 MiB, of which a call in a loop leaves less). */
static const size_t least_room = (size_t)64 << 20;
static void *buffers[2];
static bool are_the_librarys; /* it allocated the buffers */
static char *single;          /* what barriers reduce */
static int clock_mhz = -1;    /* when the communicator was made */
static struct rccltune_answer answer = {.kind = RCCLTUNE_ANSWER_NOTHING};

static const struct rccltune_answer nothing = {.kind = RCCLTUNE_ANSWER_NOTHING};

static void apply(const struct rccltune_answer *wanted)
{
    if (plugin.answer != NULL && plugin.answer(wanted) != 0)
        fail(EXIT_USAGE, "the plugin does not take this answer");
}

size_t room_for(size_t largest)
{
    return largest > least_room ? largest : least_room;
}

/* A library takes some for itself; what is left is told in powers of two, as sizes are. */
void memory_check(size_t room)
{
    static const size_t own = (size_t)1 << 30;
    size_t free_bytes = 0, all = 0, fits = 1;
    check_runtime(runtime.memory(&free_bytes, &all), "MemGetInfo");
    rows_remark("free %zu of %zu", free_bytes, all);
    if (2 * (room + OFFSET * OFFSETS) + own <= free_bytes)
        return;
    size_t each = free_bytes > own ? (free_bytes - own) / 2 : 0;
    while (fits * 2 + OFFSET * OFFSETS <= each)
        fits *= 2;
    if (each < ((size_t)1 << 20))
        fail(EXIT_MEMORY,
             "%zu MiB are free on the device: no size fits beside the %zu MiB that a library needs "
             "for itself",
             free_bytes >> 20, own >> 20);
    fail(EXIT_MEMORY,
         "two buffers of %zu MiB do not fit into %zu MiB that are free on the device; the largest "
         "size that fits is %zu MiB",
         room >> 20, free_bytes >> 20, fits >> 20);
}

static void allocate(void **buffer, size_t bytes, bool by_library)
{
    int result = (by_library ? nccl.allocate : runtime.allocate)(buffer, bytes);
    if (result != 0)
        fail(EXIT_MEMORY, "%zu MiB of device memory: %s", bytes >> 20,
             (by_library ? nccl.error_string : runtime.error_string)(result));
}

/* Jobs' numbers are not zeros, and what a wire carries costs power.  Each 16 bits are near 1 or -1
 * as bfloat16, half and the upper half of a float, so that no type reads an infinity.  A simulated
 * machine reads none of it, and 64 ranks of one would take gigabytes. */
static void fill_with_numbers(char *buffer, size_t bytes)
{
    enum { PART = 4 << 20 };
    if (runtime.clock != NULL)
        return;
    uint16_t *numbers = malloc(PART);
    if (numbers == NULL)
        fail(EXIT_MEMORY, "no memory for %d bytes", PART);
    uint32_t state = 12345u + (uint32_t)communicator.rank;
    for (size_t i = 0; i < PART / sizeof *numbers; i++) {
        state = state * 1664525u + 1013904223u; /* Numerical Recipes, 7.1 */
        numbers[i] = (uint16_t)(0x3f80u | (state >> 25) | ((state >> 9 & 1u) << 15));
    }
    size_t there = bytes < PART ? bytes : PART;
    check_runtime(runtime.copy(buffer, numbers, there, COPY_TO_DEVICE, communicator.stream),
                  "MemcpyAsync");
    for (size_t more; there < bytes; there += more) { /* on the device it takes no time */
        more = bytes - there < there ? bytes - there : there;
        check_runtime(
            runtime.copy(buffer + there, buffer, more, COPY_ON_DEVICE, communicator.stream),
            "MemcpyAsync");
    }
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
    free(numbers);
}

/* Each communicator's at another place: what an address is worth must not be one draw for all. */
static void make_buffers(size_t room, bool by_library)
{
    size_t offset = (size_t)(communicator.number * 7 % OFFSETS) * OFFSET;
    for (int i = 0; i < 2; i++) {
        allocate(&buffers[i], room + OFFSET * OFFSETS, by_library);
        fill_with_numbers(buffers[i], room + OFFSET * OFFSETS);
    }
    are_the_librarys = by_library;
    communicator.send = (char *)buffers[0] + offset;
    communicator.receive = (char *)buffers[1] + offset;
    communicator.room = room;
}

/* NPKit has room for few events, so that a trace is to hold the plan's calls alone, and writes them
 * when the communicator ends (RCCL's src/misc/npkit.cc). */
static bool is_traced(void)
{
    return getenv("NPKIT_DUMP_DIR") != NULL;
}

/* GPUs slow their clocks down while a communicator is made, and need about 60 ms of work to come
 * back (seen on four H200: the first timings differed by 5 to 35 %, later ones by 0.5). */
static void warm_up(void)
{
    enum { CALLS = 20 };
    static const size_t count = (1 << 20) / sizeof(float);
    static const double enough_us = 100000;
    double began = now_us();
    bool has_clocks = runtime.clock == NULL && !is_traced(); /* a simulated machine is as it is */
    for (bool goes_on = has_clocks; goes_on; rendezvous_broadcast(&goes_on, sizeof goes_on)) {
        for (int i = 0; i < CALLS; i++)
            check_nccl(nccl.all_reduce(communicator.send, communicator.receive, count, FLOAT, SUM,
                                       communicator.comm, communicator.stream),
                       "a call to warm up (ncclAllReduce)");
        check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
        goes_on = now_us() - began < enough_us;
    }
}

static void communicator_destroy(void)
{
    /* Between hosts the end of a communicator waits for data that kernels which do not run never
     * send. */
    bool aborts = !kernels_run() && nccl.abort != NULL;
    check_nccl((aborts ? nccl.abort : nccl.destroy)(communicator.comm), "the communicator's end");
}

/* To destroy a communicator takes 0.2 to 0.5 s, four times what a new one does (two H200).  Where
 * there is room it stays, idle, until the process ends; all ranks must do the same. */
static bool stays(void)
{
    size_t free_bytes = 0, all = 0;
    if (runtime.clock != NULL || communicator.n_ranks > FEW_RANKS ||
        communicator.number >= MOST_KEPT || is_traced())
        return false;
    check_runtime(runtime.memory(&free_bytes, &all), "MemGetInfo");
    return rendezvous_agree(free_bytes > all / 2);
}

static bool answers_by_rules; /* in this communicator, at some time */

void communicator_leave(void)
{
    if (communicator.comm == NULL)
        return;
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
    if (clock_mhz >= 0)
        rows_remark("clock %d %d %d", communicator.number, clock_mhz, device_frequency_mhz());
    double cost_ns = answers_by_rules ? plugin.cost_ns() : -1;
    if (cost_ns >= 0)
        rows_remark("cost %.1f", cost_ns);
    answers_by_rules = false;
}

static void release_buffers(void)
{
    graphs_forget();
    if (are_the_librarys)
        barrier(); /* other ranks may write into them; and the library forgets graphs that ended */
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
    for (int i = 0; i < 2 && are_the_librarys; i++)
        check_nccl(nccl.release(buffers[i]), "ncclMemFree");
    for (int i = 0; i < 2 && !are_the_librarys; i++)
        check_runtime(runtime.release(buffers[i]), "Free");
}

/* NCCL registers for a graph what it allocated itself.  What cudaMalloc gave it does not, but tells
 * a tuner all the same that it is registered (2.28.9 src/transport/p2p.cc:850 and
 * src/enqueue.cc:1941; 2 x H200). */
void communicator_take_buffers(const struct step *step)
{
    bool by_library = step->registered && nccl.allocate != NULL && nccl.release != NULL;
    if (by_library == are_the_librarys)
        return;
    release_buffers();
    make_buffers(communicator.room, by_library);
}

static void communicator_end(void)
{
    if (communicator.comm == NULL)
        return;
    communicator_leave();
    release_buffers();
    if (!stays())
        communicator_destroy();
    communicator.comm = NULL;
}

double communicator_make(size_t room)
{
    struct unique_id id = {{0}};
    communicator_end();
    if (communicator.stream == NULL) {
        check_runtime(runtime.make_stream(&communicator.stream, STREAM_NON_BLOCKING),
                      "StreamCreateWithFlags");
        allocate((void **)&single, 256, false);
        check_runtime(runtime.fill(single, 0, 256, communicator.stream), "MemsetAsync");
    }
    communicator.number++;
    if (communicator.rank == 0)
        check_nccl(nccl.get_unique_id(&id), "ncclGetUniqueId");
    rendezvous_broadcast(&id, sizeof id);
    apply(&nothing); /* whatever was answered before */
    double began = now_us();
    check_nccl(nccl.init_rank(&communicator.comm, communicator.n_ranks, id, communicator.rank),
               "ncclCommInitRank");
    double took = now_us() - began;
    make_buffers(room, false);
    warm_up();
    barrier();
    clock_mhz = device_frequency_mhz();
    return took;
}

void barrier(void)
{
    struct rccltune_asked kept;
    apply(&nothing);
    check_nccl(
        nccl.all_reduce(single, single, 1, FLOAT, SUM, communicator.comm, communicator.stream),
        "a barrier (ncclAllReduce)");
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
    if (plugin.asked != NULL)
        plugin.asked(&kept, 1);
    answer_apply();
}

void answer_set(const struct step *step)
{
    answer = (struct rccltune_answer){step->answer.kind, step->answer.algorithm,
                                      step->answer.protocol, step->answer.channels};
    answers_by_rules |= answer.kind == RCCLTUNE_ANSWER_RULES;
    answer_apply();
}

void answer_apply(void)
{
    apply(&answer);
}

uint64_t answer_code(void)
{
    return (uint64_t)answer.kind | (uint64_t)(answer.algorithm + 1) << 8 |
           (uint64_t)(answer.protocol + 1) << 16 | (uint64_t)(answer.channels + 1) << 24;
}

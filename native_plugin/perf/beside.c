#include "beside.h"

#include <stdio.h>

#include "gemm.h"
#include "library.h"
#include "measure.h"
#include "rendezvous.h"

enum { WARM_CALLS = 3 };

/* What runs at once, and how much of it. */
struct load {
    const struct call *call;
    struct row *row;
    long calls, products;
};

/* µs from the start of both streams to the end of the calls, of the products and of both; negative
 * where it is not known. */
struct spans {
    double calls, products, both;
};

/* Where a stream starts and ends, and what ties the two together while they are captured. */
static struct {
    void *start, *products_start, *calls_end, *products_end, *fork, *join, *before, *after;
} at;
/* Events that a graph keeps tell no time here, though the runtime has them. */
static bool inner_clock_failed;

static void make_events(void)
{
    void **const each[] = {&at.start, &at.products_start, &at.calls_end, &at.products_end,
                           &at.fork,  &at.join,           &at.before,    &at.after};
    for (size_t i = 0; i < sizeof each / sizeof *each && *each[i] == NULL; i++)
        check_runtime(runtime.make_event(each[i]), "EventCreate");
}

static double elapsed(void *from, void *to)
{
    float ms = 0;
    check_runtime(runtime.elapsed(&ms, from, to), "EventElapsedTime");
    return 1e3 * (double)ms;
}

static void wait_both(void)
{
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
    check_runtime(runtime.wait(gemm_stream), "StreamSynchronize");
}

static const char *put_call(const struct load *load, long number)
{
    int failed = call_issue(load->call, number);
    load->row->made++;
    return failed != 0 ? nccl_words(failed, collective_names[load->call->step->collective]) : NULL;
}

/* Puts both on their streams, alternating by their share, so that neither stream runs dry while
 * the host fills the other; NULL, or what failed. */
static const char *put(const struct load *load)
{
    long calls = 0, products = 0;
    while (calls < load->calls || products < load->products) {
        bool is_call = calls < load->calls && calls * load->products <= products * load->calls;
        const char *failed = is_call ? put_call(load, calls) : gemm_put();
        if (failed != NULL)
            return failed;
        *(is_call ? &calls : &products) += 1;
    }
    return NULL;
}

static void put_or_fail(const struct load *load)
{
    const char *failed = put(load);
    if (failed != NULL)
        fail(EXIT_CALL, "%s", failed);
}

/* Ranks start at once: behind a collective that nobody counts.  It stays on the stream, since
 * ranks that wait for it would start tens of microseconds apart; of a simulated machine no stream
 * waits for another outside of a graph. */
static void start_together(struct row *row)
{
    asked_into(row); /* before the barrier's own question */
    if (runtime.clock != NULL)
        barrier();
    else
        barrier_put();
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static struct spans spans_between(const struct load *load)
{
    struct spans found = {-1, -1, -1};
    if (load->calls > 0)
        found.both = found.calls = elapsed(at.start, at.calls_end);
    if (load->products > 0) {
        found.products = elapsed(at.products_start, at.products_end);
        found.both = later(found.both, elapsed(at.start, at.products_end));
    }
    return found;
}

static struct spans run_loop(const struct load *load)
{
    start_together(load->row);
    check_runtime(runtime.record(at.start, communicator.stream), "EventRecord");
    check_runtime(runtime.wait_event(gemm_stream, at.start, 0), "StreamWaitEvent");
    check_runtime(runtime.record(at.products_start, gemm_stream), "EventRecord");
    put_or_fail(load);
    check_runtime(runtime.record(at.calls_end, communicator.stream), "EventRecord");
    check_runtime(runtime.record(at.products_end, gemm_stream), "EventRecord");
    wait_both();
    return spans_between(load);
}

/* Whether graphs keep events that tell a time, as CUDA's do from 11.1 on. */
static bool has_inner_clock(void)
{
    return runtime.record_in_graph != NULL && !inner_clock_failed;
}

static int record_inside(void *event, void *stream)
{
    enum { RECORD_EXTERNAL = 1 }; /* cudaEventRecordExternal, hipEventRecordExternal */
    return has_inner_clock() ? runtime.record_in_graph(event, stream, RECORD_EXTERNAL) : 0;
}

/* The first call of the runtime that fails ends a capture, whose stream must be given back. */
#define TRY(name, call)                                                                            \
    do {                                                                                           \
        int failed_ = (call);                                                                      \
        if (failed_ != 0) {                                                                        \
            snprintf(words, size, name ": %s", runtime.error_string(failed_));                     \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* The products' stream forks off and joins again, as inference engines have it. */
static void put_captured(const void *what, char *words, size_t size)
{
    const struct load *load = what;
    void *own = communicator.stream;
    TRY("start", record_inside(at.start, own));
    if (load->products > 0) {
        TRY("fork", runtime.record(at.fork, own));
        TRY("fork", runtime.wait_event(gemm_stream, at.fork, 0));
        TRY("start", record_inside(at.products_start, gemm_stream));
    }
    const char *failed = put(load);
    if (failed != NULL) {
        snprintf(words, size, "capture: %s", failed);
        return;
    }
    TRY("end", record_inside(at.calls_end, own));
    if (load->products > 0) {
        TRY("end", record_inside(at.products_end, gemm_stream));
        TRY("join", runtime.record(at.join, gemm_stream));
        TRY("join", runtime.wait_event(own, at.join, 0));
    }
}

static bool tells_time(const struct load *load)
{
    void *end = load->calls > 0 ? at.calls_end : at.products_end;
    float ms;
    if (runtime.elapsed(&ms, at.start, end) == 0)
        return true;
    (void)runtime.last_error(); /* which the failure left behind */
    inner_clock_failed = true;
    return false;
}

static struct spans run_graph(const struct load *load, const struct graph *graph)
{
    void *own = communicator.stream;
    start_together(load->row);
    check_runtime(runtime.record(at.before, own), "EventRecord");
    check_runtime(runtime.launch(graph->instance, own), "GraphLaunch");
    check_runtime(runtime.record(at.after, own), "EventRecord");
    wait_both();
    if (has_inner_clock() && tells_time(load))
        return spans_between(load);
    /* Of both at once only the whole is known. */
    double whole = elapsed(at.before, at.after);
    bool is_mixed = load->calls > 0 && load->products > 0;
    return (struct spans){is_mixed || load->calls == 0 ? -1 : whole,
                          is_mixed || load->products == 0 ? -1 : whole, whole};
}

enum { CALLS_ALONE, PRODUCTS_ALONE, BOTH, KINDS };

/* In turns, so that no kind has the cooler GPU; of three rounds the middle one counts, as in
 * measure_graph. */
static void run_rounds(const struct load loads[KINDS], const struct graph *graphs, struct row *row)
{
    struct spans found[KINDS][PARTS];
    for (int round = 0; round < PARTS; round++) {
        for (int kind = 0; kind < KINDS; kind++)
            found[kind][round] =
                graphs != NULL ? run_graph(&loads[kind], &graphs[kind]) : run_loop(&loads[kind]);
    }
#define MIDDLE(kind, member)                                                                       \
    middle(found[kind][0].member, found[kind][1].member, found[kind][2].member)
    double calls = (double)loads[BOTH].calls, products = (double)loads[BOTH].products;
    row->time_us = MIDDLE(CALLS_ALONE, calls) / calls;
    row->product_us = MIDDLE(PRODUCTS_ALONE, products) / products;
    row->beside_us = MIDDLE(BOTH, calls) / calls;
    row->product_beside_us = MIDDLE(BOTH, products) / products;
    row->both_us = MIDDLE(BOTH, both);
#undef MIDDLE
}

static void run_graphs(const struct load loads[KINDS], struct row *row)
{
    static char note[200];
    struct graph graphs[KINDS] = {{NULL, NULL}};
    const char *failed = NULL;
    start_together(row); /* what ran before is over: a capture begins on streams that are idle */
    wait_both();
    for (int kind = 0; kind < KINDS && failed == NULL; kind++)
        failed = graph_capture(&graphs[kind], put_captured, &loads[kind]);
    asked_into(row);
    if (failed != NULL) {
        snprintf(note, sizeof note, "graph: %s", failed);
        row->note = note;
    } else {
        for (int kind = 0; kind < KINDS; kind++) /* the first launch puts it onto the device */
            run_graph(&loads[kind], &graphs[kind]);
        run_rounds(loads, graphs, row);
        if (!has_inner_clock())
            row->note = "this runtime has no clock inside graphs: of both at once only the whole";
    }
    for (int kind = 0; kind < KINDS; kind++)
        graph_forget(&graphs[kind]);
}

/* Connections of this setting are made, and both clocks are up. */
static void warm_up(const struct load *load)
{
    struct load few = *load;
    few.calls = WARM_CALLS;
    few.products = 1;
    put_or_fail(&few);
    wait_both();
}

void measure_beside(const struct call *call, struct row *row)
{
    const struct step *step = call->step;
    struct load loads[KINDS] = {
        [CALLS_ALONE] = {call, row, step->product.calls, 0},
        [PRODUCTS_ALONE] = {call, row, 0, step->product.number},
        [BOTH] = {call, row, step->product.calls, step->product.number},
    };
    make_events();
    gemm_take(step);
    gemm_name(step, row->beside, sizeof row->beside);
    row->made = 0;
    row->calls = step->product.calls;
    row->products = step->product.number;
    warm_up(&loads[BOTH]);
    asked_into(row);
    if (step->graph)
        run_graphs(loads, row);
    else
        run_rounds(loads, NULL, row);
    asked_into(row);
}

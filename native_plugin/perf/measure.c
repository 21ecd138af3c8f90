#include "measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph.h"
#include "known.h"
#include "library.h"
#include "rccltune_answer.h"
#include "rendezvous.h"
#include "values.h"

/* Three calls make connections and tell nothing (of tree/ll on four GPUs the first three were 1.3
 * ms slower); two more say how long one takes, eight where that is hardly more than the wait. */
enum { WARM_CALLS = 3, FIRST_CALLS = 2, MORE_CALLS = 8, MOST_CAPTURED = 20, PARTS = 3 };
static const double short_us = 200;

/* A simulated clock needs little warming up, and each of its calls takes all ranks of a node on the
 * few processors of this machine. */
static bool is_simulated(void)
{
    return runtime.clock != NULL;
}

static void name_cell(int algorithm, int protocol, char *text, size_t size)
{
    bool known =
        algorithm >= 0 && algorithm < N_ALGORITHMS && protocol >= 0 && protocol < N_PROTOCOLS;
    if (known)
        snprintf(text, size, "%s/%s", algorithm_names[algorithm], protocol_names[protocol]);
    else if (algorithm >= 0)
        snprintf(text, size, "%d/%d", algorithm, protocol);
    else
        *text = '\0';
}

void asked_into(struct row *row)
{
    struct rccltune_asked seen;
    if (plugin.asked == NULL)
        return;
    plugin.asked(&seen, 1);
    row->asked = (row->asked < 0 ? 0 : row->asked) + (long)seen.n_calls;
    if (seen.n_calls == 0)
        return;
    row->told_bytes = (int64_t)seen.n_bytes;
    row->registered = seen.registered;
    row->selectable = seen.selectable;
    name_cell(seen.host_algorithm, seen.host_protocol, row->library, sizeof row->library);
    if (seen.n_answered == 0) {
        snprintf(row->answer, sizeof row->answer, "none");
    } else {
        name_cell(seen.answer_algorithm, seen.answer_protocol, row->answer, sizeof row->answer);
        size_t n = strlen(row->answer);
        if (n == 0)
            n = (size_t)snprintf(row->answer, sizeof row->answer, "-1/-1");
        if (seen.answer_channels > 0)
            snprintf(row->answer + n, sizeof row->answer - n, "/%d", seen.answer_channels);
    }
    if (seen.differing > 0 || (seen.n_answered > 0 && seen.n_answered < seen.n_calls))
        row->note = "the library's questions differed within one measurement";
}

void tell_questions(void)
{
    uint64_t all = 0, counted = 0;
    if (plugin.questions == NULL)
        return;
    plugin.questions(&all, &counted);
    rows_remark("questions %" PRIu64 " of which count %" PRIu64, all, counted);
}

static void issue(const struct call *call, long n, struct row *row)
{
    for (long i = 0; i < n; i++)
        check_nccl(call_issue(call, i), collective_names[call->step->collective]);
    row->made += n;
}

static void wait(void)
{
    check_runtime(runtime.wait(communicator.stream), "StreamSynchronize");
}

/* Marks on the stream, between which the device itself takes the time.  The host's would have its
 * way to the device and back in each timing: 20 to 40 us more in three processes of four (two H200
 * of a virtual machine), of 300 to 1000 that are timed.  A simulated machine has no such way. */
enum { MARKS = PARTS + 1 };
static void *events[MARKS];
static double marked_us[MARKS];

static void mark(int i)
{
    if (is_simulated()) {
        wait();
        marked_us[i] = now_us();
        return;
    }
    if (events[i] == NULL)
        check_runtime(runtime.make_event(&events[i], 0), "EventCreateWithFlags");
    check_runtime(runtime.record(events[i], communicator.stream), "EventRecord");
}

/* From this mark to the next, once the stream was waited for. */
static double us_from(int i)
{
    float ms = 0;
    if (is_simulated())
        return marked_us[i + 1] - marked_us[i];
    check_runtime(runtime.elapsed(&ms, events[i], events[i + 1]), "EventElapsedTime");
    return 1e3 * (double)ms;
}

static double time_calls(const struct call *call, long n, struct row *row)
{
    double began = now_us();
    issue(call, n, row);
    wait();
    return (now_us() - began) / (double)n;
}

/* About how long a call takes.  Whatever a rank's own clock says, all must make the same calls:
 * rank 0 decides. */
static double estimate(const struct call *call, struct row *row)
{
    struct known *known = known_of(call);
    if (is_simulated()) {
        /* Of the site as it is nothing was called in this process before. */
        issue(call, plugin.answer == NULL && known->each_us <= 0 ? WARM_CALLS : 0, row);
        known->each_us = time_calls(call, 1, row);
        return known->each_us;
    }
    if (!known->is_connected) {
        issue(call, WARM_CALLS, row);
        wait();
        known->is_connected = true;
    }
    if (known->each_us > 0)
        return known->each_us;
    double each = time_calls(call, FIRST_CALLS, row);
    bool is_short = each < short_us;
    rendezvous_broadcast(&is_short, sizeof is_short);
    known->each_us = is_short ? time_calls(call, MORE_CALLS, row) : each;
    return known->each_us;
}

/* What a step that is in a hurry makes all the same: one call where it asks for one. */
static long fewest(const struct step *step)
{
    return step->least_calls > 1 ? 2 : 1;
}

/* How many calls are timed.  Rank 0 says it: all must make the same number. */
static long calls_for(const struct step *step, double each_us)
{
    double each = each_us > 0.01 ? each_us : 0.01;
    double calls = ceil(step->least_us / each);
    if (calls < (double)step->least_calls)
        calls = (double)step->least_calls;
    if (step->most_us > 0 && calls * each > step->most_us)
        calls = floor(step->most_us / each);
    long agreed = calls < (double)fewest(step) ? fewest(step) : (long)calls;
    rendezvous_broadcast(&agreed, sizeof agreed);
    return agreed;
}

void measure_loop(const struct call *call, struct row *row)
{
    row->made = 0;
    long n = calls_for(call->step, estimate(call, row));
    asked_into(row);
    barrier();
    if (!is_simulated())
        issue(call, 1, row); /* something else may have run since; what is timed follows at once */
    mark(0);
    issue(call, n, row);
    mark(1);
    wait();
    row->time_us = us_from(0) / (double)n;
    row->calls = n;
    asked_into(row);
}

static void replay(const struct graph *graph, long n)
{
    for (long i = 0; i < n; i++)
        check_runtime(runtime.launch(graph->instance, communicator.stream), "GraphLaunch");
}

static double middle(double a, double b, double c)
{
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* To move simulated data takes this machine's few processors: on 64 ranks half as long again. */
static bool moves_quickly(const struct call *call)
{
    enum { MOST_RANKS = 16, MOST_BYTES = 64 << 10 };
    return communicator.n_ranks <= MOST_RANKS && call->n_bytes <= MOST_BYTES;
}

/* HIP of ROCm 7.2.0 to 7.2.3 spoils what replayed graphs compute, in one process of five on MI300X
 * (ROCm/clr issue 279).  So the graph is replayed once more, on values of which is known what comes
 * of them; its last call is looked at, which shares its place with none, and of large results the
 * beginning and the end.  A call is captured many times in a process: once it is compared. */
static void check_replay(const struct call *call, const struct graph *graph, struct row *row)
{
    enum { MOST = 128 << 10 };
    unsigned pattern = (unsigned)call->step->line;
    struct known *known = known_of(call);
    if (!kernels_run() || known->is_compared || (is_simulated() && !moves_quickly(call)))
        return;
    known->is_compared = true;
    values_fill(call, graph->n - 1, pattern);
    move_data(true);
    replay(graph, 1);
    wait();
    move_data(false);
    struct checked checked = values_compare(call, graph->n - 1, pattern, MOST);
    row->checked = checked.compared;
    row->wrong = checked.wrong;
}

/* What failed, NULL where all ranks have a graph. */
static const char *capture(const struct call *call, uint64_t key, struct row *row,
                           struct graph *graph)
{
    double each = estimate(call, row);
    asked_into(row); /* a graph's calls may be asked about with other words: registered */
    long n = each > 0 ? (long)ceil(call->step->least_us / PARTS / each) : MOST_CAPTURED;
    n = n < fewest(call->step) ? fewest(call->step) : n > MOST_CAPTURED ? MOST_CAPTURED : n;
    long places = (long)(communicator.room / call->n_bytes);
    n = n < places ? n : places;
    rendezvous_broadcast(&n, sizeof n);
    const char *failed = graph_capture(call, n, graph, row);
    asked_into(row);
    graph->key = key;
    graph->row = *row;
    if (failed != NULL)
        return failed;
    graph->each_us = each;
    if (is_simulated())
        return NULL;
    replay(graph, 1); /* the first takes longer */
    mark(0);
    replay(graph, 1);
    mark(1);
    wait();
    graph->each_us = us_from(0) / (double)n;
    return NULL;
}

/* Three parts, of which the middle one counts: a machine that stops for a millisecond once in a
 * while (2 % of timings on a virtual one) spoils one of them. */
void measure_graph(const struct call *call, struct row *row)
{
    static char note[200];
    uint64_t key = known_of(call)->key;
    struct graph *graph = graph_kept(key);
    row->made = 0;
    if (graph == NULL) {
        struct graph made;
        const char *failed = capture(call, key, row, &made);
        if (failed != NULL) {
            snprintf(note, sizeof note, "graph: %s", failed);
            row->note = note;
            graph_forget(&made);
            return;
        }
        graph = graph_keep(&made);
    } else {
        *row = graph->row;
    }
    long n = graph->n * PARTS;
    long launches = (calls_for(call->step, graph->each_us) + n / 2) / n;
    launches = launches > 0 ? launches : 1;
    double parts[PARTS];
    barrier();
    if (!is_simulated())
        replay(graph, 1); /* something else may have run since; what is timed follows at once */
    mark(0);
    for (int i = 0; i < PARTS; i++) {
        replay(graph, launches);
        mark(i + 1);
    }
    wait();
    for (int i = 0; i < PARTS; i++)
        parts[i] = us_from(i) / (double)(graph->n * launches);
    row->time_us = middle(parts[0], parts[1], parts[2]);
    row->calls = launches * n;
    check_replay(call, graph, row);
}

#include "graph.h"

#include <stdio.h>

#include "library.h"
#include "rendezvous.h"

const char *graph_capture(const struct call *call, long n, struct graph *graph, struct row *row)
{
    static char words[160];
    *graph = (struct graph){.n = n};
    *words = '\0';
    int result = runtime.begin_capture(communicator.stream, CAPTURE_THREAD_LOCAL);
    if (result != 0)
        snprintf(words, sizeof words, "begin: %s", runtime.error_string(result));
    for (long i = 0; i < n && *words == '\0'; i++) {
        move_data(i == n - 1);
        int failed = call_issue(call, i);
        if (failed != 0)
            snprintf(words, sizeof words, "capture: %s", nccl.error_string(failed));
        row->made++;
    }
    move_data(false);
    if (result == 0) {
        result = runtime.end_capture(communicator.stream, &graph->graph);
        if (result != 0 && *words == '\0')
            snprintf(words, sizeof words, "end: %s", runtime.error_string(result));
    }
    if (*words == '\0') {
        result = runtime.instantiate(&graph->instance, graph->graph, 0);
        if (result != 0)
            snprintf(words, sizeof words, "instantiate: %s", runtime.error_string(result));
    }
    (void)runtime.last_error(); /* a failed capture leaves one behind */
    if (rendezvous_agree(*words == '\0'))
        return NULL;
    return *words != '\0' ? words : "another rank could not capture";
}

enum { MOST_KEPT = 1024 };

static struct graph kept[MOST_KEPT];
static int n_kept;

struct graph *graph_kept(uint64_t key)
{
    for (int i = 0; i < n_kept; i++)
        if (kept[i].key == key)
            return &kept[i];
    return NULL;
}

struct graph *graph_keep(const struct graph *graph)
{
    if (n_kept == MOST_KEPT)
        graphs_forget();
    kept[n_kept] = *graph;
    return &kept[n_kept++];
}

void graphs_forget(void)
{
    while (n_kept > 0)
        graph_forget(&kept[--n_kept]);
}

void graph_forget(struct graph *graph)
{
    if (graph->instance != NULL)
        check_runtime(runtime.destroy_instance(graph->instance), "GraphExecDestroy");
    if (graph->graph != NULL)
        check_runtime(runtime.destroy_graph(graph->graph), "GraphDestroy");
}

/*
 * Graphs.  What is put on a stream while it is captured is kept in the order in which it came, and
 * done in that order by each launch; whatever a node may depend on was there before it, so that
 * dependencies need no keeping.  A stream that waits for an event of a captured one is captured
 * too.
 */
#include <pthread.h>
#include <stdlib.h>

#include "hip.h"
#include "launched.h"
#include "stream.h"

/* What the host pays on the simulated clock.  Both are less than any kernel of a collective takes,
 * so that a loop's time and a graph's are those of the node file. */
static const double launch_us = 1, graph_launch_us = 4;

struct user_object {
    void *data;
    void (*destroy)(void *);
    unsigned references;
};

struct hip_graph {
    struct hip_graph *next; /* of those that are being captured */
    struct hip_stream *origin, *streams;
    unsigned long long id;
    int references; /* a graph and what is instantiated of it are one thing here */
    struct hip_work *works;
    size_t n_works, works_room;
    struct owned {
        struct user_object *object;
        unsigned n;
    } * owned;
    size_t n_owned, owned_room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hip_graph *capturing;

/* Room for one more; the list is as it was where there is no memory. */
static bool grow(void **list, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t wanted = *room > 0 ? 2 * *room : 16;
    void *more = realloc(*list, wanted * size);
    if (more == NULL)
        return false;
    *list = more;
    *room = wanted;
    return true;
}

/* A node's handle is its place, counted from one. */
static int add(struct hip_graph *graph, const struct hip_work *work, void **node)
{
    if (!grow((void **)&graph->works, graph->n_works, &graph->works_room, sizeof *work))
        return hip_fail(HIP_OUT_OF_MEMORY);
    graph->works[graph->n_works++] = *work;
    hip_keep(work);
    *node = (void *)(uintptr_t)graph->n_works;
    return HIP_OK;
}

bool hip_is_captured(const void *stream)
{
    return stream != NULL && ((const struct hip_stream *)stream)->graph != NULL;
}

int hip_put(void *stream, const struct hip_work *work)
{
    struct hip_stream *captured = stream;
    if (hip_is_captured(stream))
        return add(captured->graph, work, &captured->last);
    int result = hip_do(stream, work, false);
    hip_host_pass(launch_us);
    return result;
}

static void join(struct hip_stream *stream, struct hip_graph *graph)
{
    stream->graph = graph;
    stream->next = graph->streams;
    graph->streams = stream;
}

unsigned long long hip_capture_of(const void *stream)
{
    return hip_is_captured(stream) ? ((const struct hip_stream *)stream)->graph->id : 0;
}

int hip_wait_for_capture(void *stream, unsigned long long capture, void *last)
{
    struct hip_stream *waiting = stream;
    pthread_mutex_lock(&lock);
    struct hip_graph *graph = capturing;
    while (graph != NULL && graph->id != capture)
        graph = graph->next;
    bool joins = graph != NULL && waiting != NULL && waiting->graph == NULL;
    bool fits = joins || (graph != NULL && waiting != NULL && waiting->graph == graph);
    if (joins)
        join(waiting, graph);
    pthread_mutex_unlock(&lock);
    if (!fits) /* the capture is over, or another one */
        return hip_fail(HIP_CAPTURED_EVENT);
    if ((uintptr_t)last > (uintptr_t)waiting->last)
        waiting->last = last;
    return HIP_OK;
}

EXPORT int hipStreamBeginCapture(void *stream, int mode)
{
    static unsigned long long ids;
    (void)mode;
    if (stream == NULL || hip_is_captured(stream))
        return hip_fail(HIP_CAPTURE_UNSUPPORTED);
    struct hip_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL)
        return hip_fail(HIP_OUT_OF_MEMORY);
    graph->origin = stream;
    graph->references = 1;
    join(stream, graph);
    pthread_mutex_lock(&lock);
    graph->id = ++ids;
    graph->next = capturing;
    capturing = graph;
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

EXPORT int hipStreamEndCapture(void *stream, void **made)
{
    if (!hip_is_captured(stream) || ((struct hip_stream *)stream)->graph->origin != stream)
        return hip_fail(HIP_CAPTURE_UNMATCHED);
    struct hip_graph *graph = ((struct hip_stream *)stream)->graph, **at = &capturing;
    launched_captured();
    pthread_mutex_lock(&lock);
    while (*at != graph)
        at = &(*at)->next;
    *at = graph->next;
    while (graph->streams != NULL) {
        struct hip_stream *joined = graph->streams;
        graph->streams = joined->next;
        joined->graph = NULL;
        joined->next = NULL;
        joined->last = NULL;
    }
    pthread_mutex_unlock(&lock);
    *made = graph;
    return HIP_OK;
}

/* A stream that joined a capture and is destroyed before that ends. */
void hip_leave_capture(void *stream)
{
    if (!hip_is_captured(stream))
        return;
    pthread_mutex_lock(&lock);
    struct hip_stream **at = &((struct hip_stream *)stream)->graph->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&lock);
}

EXPORT int hipStreamIsCapturing(void *stream, int *status)
{
    *status = hip_is_captured(stream) ? CAPTURE_ACTIVE : CAPTURE_NONE;
    return HIP_OK;
}

EXPORT int hipStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id,
                                      void **graph, const void **dependencies, size_t *n)
{
    struct hip_stream *captured = hip_is_captured(stream) ? stream : NULL;
    *status = captured != NULL ? CAPTURE_ACTIVE : CAPTURE_NONE;
    if (id != NULL)
        *id = captured != NULL ? captured->graph->id : 0;
    if (graph != NULL)
        *graph = captured != NULL ? captured->graph : NULL;
    if (dependencies != NULL)
        *dependencies = captured != NULL ? &captured->last : NULL;
    if (n != NULL)
        *n = captured != NULL && captured->last != NULL;
    return HIP_OK;
}

EXPORT int hipStreamUpdateCaptureDependencies(void *stream, void **nodes, size_t n, unsigned flags)
{
    struct hip_stream *captured = stream;
    if (!hip_is_captured(stream))
        return hip_fail(HIP_ILLEGAL_STATE);
    if (flags == CAPTURE_DEPENDENCIES_SET)
        captured->last = NULL;
    for (size_t i = 0; i < n; i++) {
        if ((uintptr_t)nodes[i] > (uintptr_t)captured->last)
            captured->last = nodes[i];
    }
    return HIP_OK;
}

EXPORT int hipThreadExchangeStreamCaptureMode(int *mode)
{
    static _Thread_local int current; /* hipStreamCaptureModeGlobal */
    int before = current;
    current = *mode;
    *mode = before;
    return HIP_OK;
}

EXPORT int hipGraphAddHostNode(void **node, struct hip_graph *graph, void *const *dependencies,
                               size_t n, const struct hip_host_work *host)
{
    (void)dependencies, (void)n;
    return add(graph, &(struct hip_work){.kind = WORK_HOST, .host = *host}, node);
}

EXPORT int hipGraphAddEventRecordNode(void **node, struct hip_graph *graph,
                                      void *const *dependencies, size_t n, void *event)
{
    (void)dependencies, (void)n;
    return add(graph, &(struct hip_work){.kind = WORK_EVENT, .event = event}, node);
}

EXPORT int hipGraphAddDependencies(struct hip_graph *graph, void *const *from, void *const *to,
                                   size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((uintptr_t)from[i] >= (uintptr_t)to[i] || (uintptr_t)to[i] > graph->n_works)
            return hip_unmade("dependency of a graph's node on a later one");
    }
    return HIP_OK;
}

EXPORT int hipUserObjectCreate(struct user_object **made, void *data, void (*destroy)(void *),
                               unsigned references, unsigned flags)
{
    (void)flags;
    *made = malloc(sizeof **made);
    if (*made == NULL)
        return hip_fail(HIP_OUT_OF_MEMORY);
    **made = (struct user_object){data, destroy, references};
    return HIP_OK;
}

EXPORT int hipGraphRetainUserObject(struct hip_graph *graph, struct user_object *object, unsigned n,
                                    unsigned flags)
{
    if (!grow((void **)&graph->owned, graph->n_owned, &graph->owned_room, sizeof *graph->owned))
        return hip_fail(HIP_OUT_OF_MEMORY);
    graph->owned[graph->n_owned++] = (struct owned){object, n};
    if (flags != USER_OBJECT_MOVE)
        object->references += n;
    return HIP_OK;
}

EXPORT int hipGraphInstantiate(struct hip_graph **made, struct hip_graph *graph, void **node,
                               char *log, size_t log_bytes)
{
    (void)node, (void)log, (void)log_bytes;
    graph->references++;
    *made = graph;
    return HIP_OK;
}

/* CUDA's second interface, which takes as many arguments on both vendors. */
EXPORT int hipGraphInstantiateWithFlags(struct hip_graph **made, struct hip_graph *graph,
                                        unsigned long long flags)
{
    (void)flags;
    return hipGraphInstantiate(made, graph, NULL, NULL, 0);
}

EXPORT int hipGraphLaunch(struct hip_graph *graph, void *stream)
{
    if (hip_is_captured(stream))
        return hip_unmade("graph inside a graph");
    int result = HIP_OK;
    hip_settle();
    for (size_t i = 0; i < graph->n_works && result == HIP_OK; i++)
        result = hip_do(stream, &graph->works[i], true);
    hip_host_pass(graph_launch_us);
    return result;
}

EXPORT int hipGraphDestroy(struct hip_graph *graph)
{
    if (--graph->references > 0)
        return HIP_OK;
    for (size_t i = 0; i < graph->n_owned; i++) {
        struct user_object *object = graph->owned[i].object;
        object->references -= graph->owned[i].n;
        if (object->references == 0) {
            object->destroy(object->data);
            free(object);
        }
    }
    for (size_t i = 0; i < graph->n_works; i++)
        hip_drop(&graph->works[i]);
    free(graph->owned);
    free(graph->works);
    free(graph);
    return HIP_OK;
}

EXPORT int hipGraphExecDestroy(struct hip_graph *graph)
{
    return hipGraphDestroy(graph);
}

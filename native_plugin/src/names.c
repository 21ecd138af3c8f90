#include "names.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char *const collectives[] = {
    "broadcast", "reduce", "allgather", "reducescatter", "allreduce",
};

/* Served by point-to-point or by paths of their own in every release (RCCL 2.21 to 2.31). */
static const char *const untunable[] = {
    "alltoall", "alltoallv", "alltoallpivot", "gather",    "scatter",           "allgatherv",
    "send",     "recv",      "sendrecv",      "hypercube", "allreducewithbias",
};

static const char *const algorithms[] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat",
};

static const char *const protocols[] = {"ll", "ll128", "simple"};

_Static_assert(COUNT(algorithms) == N_KNOWN_ALGORITHMS, "one name per algorithm");
_Static_assert(COUNT(protocols) == N_KNOWN_PROTOCOLS, "one name per protocol");

static int find(struct text name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (text_is(name, names[i])) {
            return i;
        }
    }
    return -1;
}

static bool find_or_leave(struct text name, const char *const *names, int count, int *number)
{
    *number = text_is(name, "-1") ? LEAVE_TO_HOST : find(name, names, count);
    return *number >= 0 || text_is(name, "-1");
}

static const char *name_of(int number, const char *const *names, int count)
{
    return number >= 0 && number < count ? names[number] : "?";
}

int collective_number(struct text name)
{
    return find(name, collectives, COUNT(collectives));
}

bool collective_is_untunable(struct text name)
{
    return find(name, untunable, COUNT(untunable)) >= 0;
}

bool algorithm_number(struct text name, int *number)
{
    return find_or_leave(name, algorithms, COUNT(algorithms), number);
}

bool protocol_number(struct text name, int *number)
{
    return find_or_leave(name, protocols, COUNT(protocols), number);
}

const char *collective_name(int number)
{
    return name_of(number, collectives, COUNT(collectives));
}

const char *algorithm_name(int number)
{
    return number == LEAVE_TO_HOST ? "-1" : name_of(number, algorithms, COUNT(algorithms));
}

const char *protocol_name(int number)
{
    return number == LEAVE_TO_HOST ? "-1" : name_of(number, protocols, COUNT(protocols));
}

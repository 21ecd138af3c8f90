#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN_SIZE = 64, CONNECT_MS = 2000, PATIENCE_S = 600, MAX_ADDRESSES = 16 };

static int rank, n_ranks;
static int *peers; /* of rank 0: a connection to each rank; else peers[0] alone */
static atomic_bool leaving;

struct greeting {
    char token[TOKEN_SIZE];
    int32_t rank, n_ranks;
};

static bool transfer(int peer, void *data, size_t size, bool sends)
{
    char *at = data;
    while (size > 0) {
        ssize_t n = sends ? send(peer, at, size, MSG_NOSIGNAL) : recv(peer, at, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static void exchange(int other, void *data, size_t size, bool sends)
{
    if (!transfer(peers[other], data, size, sends))
        fail(EXIT_PEER, "rank %d is gone", other);
}

static void at_once(int peer)
{
    int yes = 1;
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* This host's addresses, the loopback last: another host cannot use that, and this one can use all.
 */
static int addresses(char list[MAX_ADDRESSES][INET6_ADDRSTRLEN])
{
    struct ifaddrs *all = NULL;
    int n = 0;
    if (getifaddrs(&all) == 0) {
        for (struct ifaddrs *one = all; one != NULL && n < MAX_ADDRESSES - 1; one = one->ifa_next) {
            if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET ||
                (one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0)
                continue;
            const struct sockaddr_in *at = (const struct sockaddr_in *)(void *)one->ifa_addr;
            if (inet_ntop(AF_INET, &at->sin_addr, list[n], INET6_ADDRSTRLEN) != NULL)
                n++;
        }
        freeifaddrs(all);
    }
    snprintf(list[n++], INET6_ADDRSTRLEN, "127.0.0.1");
    return n;
}

/* Whole or not there: the others read it as soon as it has its name. */
static void publish(const char *folder, int port)
{
    char path[PATH_MAX], next[PATH_MAX + 8], list[MAX_ADDRESSES][INET6_ADDRSTRLEN];
    int n = addresses(list);
    snprintf(path, sizeof path, "%s/meet", folder);
    snprintf(next, sizeof next, "%s.part", path);
    FILE *file = fopen(next, "w");
    if (file == NULL)
        fail(EXIT_ROWS, "cannot write %s: %s", next, strerror(errno));
    for (int i = 0; i < n; i++)
        fprintf(file, "%s %d\n", list[i], port);
    if (fclose(file) != 0 || rename(next, path) != 0)
        fail(EXIT_ROWS, "cannot write %s: %s", path, strerror(errno));
}

static void accept_all(int listener, const char *token)
{
    for (int missing = n_ranks - 1; missing > 0;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        struct greeting hello;
        int others = poll(&ready, 1, PATIENCE_S * 1000);
        if (others < 0 && errno == EINTR)
            continue;
        if (others <= 0)
            fail(EXIT_PEER, "%d of %d ranks never came", missing, n_ranks);
        int peer = accept(listener, NULL, NULL);
        struct timeval patience = {.tv_sec = 5};
        if (peer < 0)
            continue;
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        bool known = transfer(peer, &hello, sizeof hello, false) &&
                     memcmp(hello.token, token, TOKEN_SIZE) == 0 && hello.n_ranks == n_ranks &&
                     hello.rank > 0 && hello.rank < n_ranks && peers[hello.rank] < 0;
        if (!known) {
            close(peer);
            continue;
        }
        patience = (struct timeval){0};
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        at_once(peer);
        peers[hello.rank] = peer;
        missing--;
    }
}

static void listen_for_all(const char *folder, const char *token)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof any) != 0 ||
        listen(listener, n_ranks) != 0 ||
        getsockname(listener, (struct sockaddr *)&any, &length) != 0)
        fail(EXIT_PEER, "cannot listen for the other ranks: %s", strerror(errno));
    publish(folder, ntohs(any.sin_port));
    accept_all(listener, token);
    close(listener);
}

static int connect_within(const struct sockaddr_in *where)
{
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = CONNECT_MS / 1000};
    if (peer < 0)
        return -1;
    setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(peer, (const struct sockaddr *)(const void *)where, sizeof *where) == 0)
        return peer;
    close(peer);
    return -1;
}

/* Through the first of rank 0's addresses that answers; the file may be older than rank 0. */
static int try_file(const char *path)
{
    char address[INET6_ADDRSTRLEN + 1];
    int port, peer = -1;
    FILE *file = fopen(path, "r");
    while (file != NULL && peer < 0 && fscanf(file, "%46s %d", address, &port) == 2) {
        struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (inet_pton(AF_INET, address, &where.sin_addr) == 1)
            peer = connect_within(&where);
    }
    if (file != NULL)
        fclose(file);
    return peer;
}

static void join(const char *folder, const struct greeting *hello)
{
    char path[PATH_MAX];
    struct timespec pause = {.tv_nsec = 5000000};
    time_t began = time(NULL);
    snprintf(path, sizeof path, "%s/meet", folder);
    while ((peers[0] = try_file(path)) < 0) {
        if (time(NULL) - began > PATIENCE_S)
            fail(EXIT_PEER, "rank 0 was not found: %s", path);
        nanosleep(&pause, NULL);
    }
    at_once(peers[0]);
    exchange(0, (void *)(uintptr_t)hello, sizeof *hello, true);
}

/* A rank that waits inside the library for one that is gone would wait for ever. */
static void *watch(void *unused)
{
    int n = rank == 0 ? n_ranks : 1;
    struct pollfd *all = calloc((size_t)n, sizeof *all);
    (void)unused;
    for (int i = 0; i < n && all != NULL; i++)
        all[i] = (struct pollfd){.fd = peers[i], .events = POLLRDHUP};
    while (all != NULL && !atomic_load(&leaving)) {
        if (poll(all, (nfds_t)n, -1) <= 0)
            continue;
        for (int i = 0; i < n && !atomic_load(&leaving); i++) {
            if ((all[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
                fail(EXIT_PEER, "rank %d is gone", i);
        }
    }
    free(all);
    return NULL;
}

void rendezvous_start(const char *folder, int own_rank, int ranks, const char *token)
{
    struct greeting hello = {.rank = own_rank, .n_ranks = ranks};
    pthread_t thread;
    rank = own_rank;
    n_ranks = ranks;
    snprintf(hello.token, sizeof hello.token, "%s", token);
    peers = malloc((size_t)n_ranks * sizeof *peers);
    if (peers == NULL)
        fail(EXIT_PEER, "no memory for %d ranks", n_ranks);
    for (int i = 0; i < n_ranks; i++)
        peers[i] = -1;
    if (n_ranks == 1)
        return;
    if (rank == 0)
        listen_for_all(folder, hello.token);
    else
        join(folder, &hello);
    if (pthread_create(&thread, NULL, watch, NULL) == 0)
        pthread_detach(thread);
}

void rendezvous_broadcast(void *data, size_t size)
{
    for (int other = 1; other < n_ranks && rank == 0; other++)
        exchange(other, data, size, true);
    if (rank > 0)
        exchange(0, data, size, false);
}

void rendezvous_gather(const void *mine, void *all, size_t size)
{
    if (rank > 0) {
        exchange(0, (void *)(uintptr_t)mine, size, true);
        return;
    }
    memcpy(all, mine, size);
    for (int other = 1; other < n_ranks; other++)
        exchange(other, (char *)all + (size_t)other * size, size, false);
}

bool rendezvous_agree(bool mine)
{
    char yes = mine, *all = calloc((size_t)n_ranks, 1);
    if (all == NULL)
        fail(EXIT_PEER, "no memory for %d ranks", n_ranks);
    rendezvous_gather(&yes, all, 1);
    for (int i = 0; i < n_ranks && rank == 0; i++)
        yes = yes && all[i];
    free(all);
    rendezvous_broadcast(&yes, 1);
    return yes;
}

void rendezvous_end(void)
{
    atomic_store(&leaving, true); /* who leaves first is not gone */
    (void)rendezvous_agree(true);
    /* Rank 0 stays until the others have heard it: an end of their connection is its own. */
    char over = 0;
    for (int other = 1; other < n_ranks && rank == 0; other++)
        (void)transfer(peers[other], &over, 1, false);
    if (rank > 0 && n_ranks > 1)
        shutdown(peers[0], SHUT_RDWR);
}

#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
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

enum {
    MAX_TOKEN = 128,
    MAX_GREETING = MAX_TOKEN + 48,
    CONNECT_S = 2,
    GREETING_S = 5,
    PATIENCE_S = 600,
    FIRST_PAUSE_MS = 2,
    LONGEST_PAUSE_MS = 250,
    MAX_ADDRESSES = 64,
    READ_AHEAD = 1 << 16
};

static int rank, n_ranks;
static int *peers;      /* of rank 0: a connection to each rank; else peers[0] alone */
static int leader = -1; /* of rank 0: the connection to rccltune, -1 where there is none */
static atomic_bool leaving;
static char first_half[MAX_TOKEN], second_half[MAX_TOKEN];

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

/* How long a connection may neither take nor give anything; 0 for as long as it likes. */
static void limit_waiting(int peer, int seconds)
{
    struct timeval limit = {.tv_sec = seconds};
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* A line of a greeting, without its end; byte by byte, since what follows is somebody else's. */
static bool read_greeting(int peer, char *line, size_t size)
{
    for (size_t n = 0; n < size; n++) {
        if (!transfer(peer, line + n, 1, false))
            return false;
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
    }
    return false;
}

static bool write_greeting(int peer, const char *text)
{
    return transfer(peer, (void *)(uintptr_t)text, strlen(text), true);
}

/* This host's addresses, loopback last: another host cannot use that, and this one can use all.
 * Link-local ones of IPv6 mean nothing without the other host's name of its own interface. */
static int addresses(char list[MAX_ADDRESSES][INET6_ADDRSTRLEN])
{
    struct ifaddrs *all = NULL;
    int n = 0;
    if (getifaddrs(&all) == 0) {
        for (struct ifaddrs *one = all; one != NULL && n < MAX_ADDRESSES - 2; one = one->ifa_next) {
            if (one->ifa_addr == NULL || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
                (one->ifa_flags & IFF_UP) == 0)
                continue;
            const void *address = NULL;
            if (one->ifa_addr->sa_family == AF_INET) {
                address = &((const struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr;
            } else if (one->ifa_addr->sa_family == AF_INET6) {
                address = &((const struct sockaddr_in6 *)(void *)one->ifa_addr)->sin6_addr;
                if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)address))
                    continue;
            }
            if (address != NULL &&
                inet_ntop(one->ifa_addr->sa_family, address, list[n], INET6_ADDRSTRLEN) != NULL)
                n++;
        }
        freeifaddrs(all);
    }
    snprintf(list[n++], INET6_ADDRSTRLEN, "127.0.0.1");
    snprintf(list[n++], INET6_ADDRSTRLEN, "::1");
    return n;
}

/* Whole or not there: the others read it as soon as it has its name. */
static void publish(const char *folder, int port)
{
    char path[PATH_MAX], next[PATH_MAX + 8], list[MAX_ADDRESSES][INET6_ADDRSTRLEN];
    int n = addresses(list);
    snprintf(path, sizeof path, "%s/rendezvous", folder);
    snprintf(next, sizeof next, "%s.part", path);
    FILE *file = fopen(next, "we");
    if (file == NULL)
        fail(EXIT_ROWS, "cannot write %s: %s", next, strerror(errno));
    for (int i = 0; i < n; i++)
        fprintf(file, "%s %d\n", list[i], port);
    if (fclose(file) != 0 || rename(next, path) != 0)
        fail(EXIT_ROWS, "cannot write %s: %s", path, strerror(errno));
}

/* "rccltune-perf FIRST_HALF RANK N_RANKS"; of rccltune "lead" in place of the rank.  Its place
 * among `peers`, n_ranks for rccltune, or -1 for one that does not belong here. */
static int place_of(const char *greeting)
{
    char half[MAX_TOKEN], who[16];
    int ranks, number = -1, n = 0;
    if (sscanf(greeting, "rccltune-perf %127s %15s %d%n", half, who, &ranks, &n) != 3 ||
        greeting[n] != '\0' || strcmp(half, first_half) != 0 || ranks != n_ranks)
        return -1;
    if (strcmp(who, "lead") == 0)
        return n_ranks;
    if (sscanf(who, "%d%n", &number, &n) != 1 || who[n] != '\0' || number < 1 || number >= n_ranks)
        return -1;
    return number;
}

/* The next connection of somebody who knows the token: its place, and the connection in `peer`;
 * -1 for a stranger. */
static int greet(int listener, int *peer)
{
    char greeting[MAX_GREETING], answer[MAX_TOKEN + 2];
    *peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*peer < 0) {
        bool is_theirs = errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ||
                         errno == EPROTO || errno == EPERM;
        if (!is_theirs)
            fail(EXIT_PEER, "cannot take the connection of another rank: %s", strerror(errno));
        return -1;
    }
    limit_waiting(*peer, GREETING_S);
    snprintf(answer, sizeof answer, "%s\n", second_half);
    int place = read_greeting(*peer, greeting, sizeof greeting) ? place_of(greeting) : -1;
    int held = place < 0 ? 0 : place == n_ranks ? leader : peers[place];
    if (place < 0 || held >= 0 || !write_greeting(*peer, answer)) {
        close(*peer);
        return -1;
    }
    limit_waiting(*peer, 0);
    at_once(*peer);
    return place;
}

static void accept_all(int listener, bool is_led)
{
    time_t began = time(NULL);
    for (int missing = n_ranks - 1 + is_led; missing > 0;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        int peer, left_s = PATIENCE_S - (int)(time(NULL) - began);
        int others = left_s > 0 ? poll(&ready, 1, left_s * 1000) : 0;
        if (others < 0 && errno == EINTR)
            continue;
        if (others <= 0)
            fail(EXIT_PEER, "%d of %d ranks never came", missing - (is_led && leader < 0), n_ranks);
        int place = greet(listener, &peer);
        if (place < 0)
            continue;
        if (place == n_ranks && is_led)
            leader = peer;
        else if (place < n_ranks)
            peers[place] = peer;
        else {
            close(peer);
            continue;
        }
        missing--;
    }
}

/* For both families where the kernel has IPv6, else for IPv4 alone. */
static int open_listener(int *port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size6 = sizeof any6, size4 = sizeof any4;
    int no = 0, listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 && setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0 &&
        bind(listener, (struct sockaddr *)&any6, sizeof any6) == 0 &&
        listen(listener, n_ranks + 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&any6, &size6) == 0) {
        *port = ntohs(any6.sin6_port);
        return listener;
    }
    if (listener >= 0)
        close(listener);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&any4, sizeof any4) != 0 ||
        listen(listener, n_ranks + 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&any4, &size4) != 0)
        fail(EXIT_PEER, "cannot listen for the other ranks: %s", strerror(errno));
    *port = ntohs(any4.sin_port);
    return listener;
}

static void listen_for_all(const char *folder, bool is_led)
{
    int port, listener = open_listener(&port);
    publish(folder, port);
    accept_all(listener, is_led);
    close(listener);
}

/* A connection to a listener that knows the token, or -1. */
static int connect_to(const char *address, const char *port, const char *greeting)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *at = NULL;
    char answer[MAX_GREETING];
    if (getaddrinfo(address, port, &wanted, &at) != 0)
        return -1;
    int peer = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer >= 0)
        limit_waiting(peer, CONNECT_S); /* of connect() this is the limit, too */
    bool is_there = peer >= 0 && connect(peer, at->ai_addr, at->ai_addrlen) == 0;
    freeaddrinfo(at);
    if (is_there) {
        limit_waiting(peer, GREETING_S);
        is_there = write_greeting(peer, greeting) && read_greeting(peer, answer, sizeof answer) &&
                   strcmp(answer, second_half) == 0;
    }
    if (is_there) {
        limit_waiting(peer, 0);
        at_once(peer);
        return peer;
    }
    if (peer >= 0)
        close(peer);
    return -1;
}

/* Through the first of rank 0's addresses that answers; the file may be older than rank 0. */
static int try_file(const char *path, const char *greeting)
{
    char address[INET6_ADDRSTRLEN + 1], port[8];
    int peer = -1;
    FILE *file = fopen(path, "re");
    while (file != NULL && peer < 0 && fscanf(file, "%46s %7s", address, port) == 2)
        peer = connect_to(address, port, greeting);
    if (file != NULL)
        fclose(file);
    return peer;
}

/* Ever more seldom: 64 ranks that read a file of a shared file system each 5 ms are a load. */
static void join(const char *folder)
{
    char path[PATH_MAX], greeting[MAX_GREETING];
    long pause_ms = FIRST_PAUSE_MS;
    time_t began = time(NULL);
    snprintf(path, sizeof path, "%s/rendezvous", folder);
    snprintf(greeting, sizeof greeting, "rccltune-perf %s %d %d\n", first_half, rank, n_ranks);
    while ((peers[0] = try_file(path, greeting)) < 0) {
        if (time(NULL) - began > PATIENCE_S)
            fail(EXIT_PEER, "rank 0 was not found: %s", path);
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
        pause_ms = pause_ms * 2 < LONGEST_PAUSE_MS ? pause_ms * 2 : LONGEST_PAUSE_MS;
    }
}

/* A rank that waits inside the library for one that is gone would wait for ever. */
static void *watch(void *unused)
{
    int n = rank == 0 ? n_ranks : 1;
    struct pollfd *all = calloc((size_t)n + 1, sizeof *all);
    (void)unused;
    for (int i = 0; i < n && all != NULL; i++)
        all[i] = (struct pollfd){.fd = peers[i], .events = POLLRDHUP};
    if (all != NULL)
        all[n] = (struct pollfd){.fd = leader, .events = POLLRDHUP};
    while (all != NULL && !atomic_load(&leaving)) {
        if (poll(all, (nfds_t)n + 1, -1) <= 0)
            continue;
        for (int i = 0; i <= n && !atomic_load(&leaving); i++) {
            if ((all[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0)
                continue;
            if (i == n)
                fail(EXIT_PEER, "rccltune is gone");
            fail(EXIT_PEER, "rank %d is gone", i);
        }
    }
    free(all);
    return NULL;
}

static void split_token(const char *token)
{
    size_t length = strlen(token), half = length / 2;
    if (length < 2 || length - half >= MAX_TOKEN)
        fail(EXIT_USAGE, "RCCLTUNE_PERF_TOKEN is no word of 2 to %d letters", 2 * MAX_TOKEN - 2);
    memcpy(first_half, token, half);
    memcpy(second_half, token + half, length - half);
}

void rendezvous_start(const char *folder, int own_rank, int ranks, const char *token, bool is_led)
{
    pthread_t thread;
    rank = own_rank;
    n_ranks = ranks;
    split_token(token);
    peers = malloc((size_t)n_ranks * sizeof *peers);
    if (peers == NULL)
        fail(EXIT_PEER, "no memory for %d ranks", n_ranks);
    for (int i = 0; i < n_ranks; i++)
        peers[i] = -1;
    if (n_ranks == 1 && !is_led)
        return;
    if (rank == 0)
        listen_for_all(folder, is_led);
    else
        join(folder);
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

void rendezvous_collect(const char *text, size_t length,
                        void (*take)(int rank, const char *text, size_t length))
{
    static char *theirs;
    static size_t room;
    if (rank > 0) {
        exchange(0, &length, sizeof length, true);
        exchange(0, (void *)(uintptr_t)text, length, true);
        return;
    }
    take(0, text, length);
    for (int other = 1; other < n_ranks; other++) {
        size_t size;
        exchange(other, &size, sizeof size, false);
        if (size > room) {
            free(theirs);
            room = size;
            theirs = malloc(room);
            if (theirs == NULL)
                fail(EXIT_PEER, "no memory for %zu bytes of rank %d", size, other);
        }
        exchange(other, theirs, size, false);
        take(other, theirs, size);
    }
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

bool rendezvous_read_line(char *line, size_t size)
{
    static char ahead[READ_AHEAD];
    static size_t at, end;
    for (size_t n = 0; n < size; n++) {
        while (at == end) {
            ssize_t got = recv(leader, ahead, sizeof ahead, 0);
            if (got == 0 || (got < 0 && errno != EINTR))
                return false;
            at = 0;
            end = got > 0 ? (size_t)got : 0;
        }
        line[n] = ahead[at++];
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
    }
    fail(EXIT_USAGE, "a step of rccltune is longer than %zu bytes", size);
}

void rendezvous_answer(const char *text, size_t length)
{
    if (!transfer(leader, (void *)(uintptr_t)text, length, true))
        fail(EXIT_PEER, "rccltune is gone");
}

void rendezvous_leave(void)
{
    atomic_store(&leaving, true);
}

void rendezvous_end(void)
{
    rendezvous_leave();
    (void)rendezvous_agree(true);
    /* Rank 0 stays until the others have heard it: an end of their connection is its own. */
    char over = 0;
    for (int other = 1; other < n_ranks && rank == 0; other++)
        (void)transfer(peers[other], &over, 1, false);
    if (rank > 0 && n_ranks > 1)
        shutdown(peers[0], SHUT_RDWR);
}

/* Ranks that start, meet, write and end, over a library that does nothing (fake.c):
 * test_ranks PROGRAM LIBRARY. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MAX_TEXT = 1 << 16 };

static const char *program, *library;
static char folder[] = "/tmp/rccltune-ranks-XXXXXX";

#define PLAN                                                                                       \
    "plan 2 65536\ncommunicator first\ncall all_reduce float sum out 4096 -\n"                     \
    "measure all_reduce float sum in 4096 loop 1 20 0\n"                                           \
    "measure all_gather float sum out 4096 graph 1 20 0\n"                                         \
    "communicator\nmeasure alltoall half sum out 65536 loop 1 4 0\n"

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *text_of_file(const char *name)
{
    static char text[MAX_TEXT];
    FILE *file = fopen(path_of(name), "r");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

static bool has(const char *name, const char *words)
{
    return strstr(text_of_file(name), words) != NULL;
}

static void clean(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s", folder, folder);
    CHECK(system(command) == 0);
}

/* NAME=VALUE of the environment, the last one NULL, for ranks that are started next. */
static const char *added[8];

/* Whether ranks that are started next take their steps from us. */
static bool is_led;

static void put_plan(const char *plan)
{
    clean();
    FILE *file = fopen(path_of("plan.txt"), "w");
    CHECK(file != NULL && fputs(plan, file) >= 0 && fclose(file) == 0);
}

/* Without `n` it is one rank, which a launcher's variables describe. */
static pid_t start_one(const char *n, const char *extra)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    char plan_path[300];
    snprintf(plan_path, sizeof plan_path, "%s/plan.txt", folder);
    int out = open(path_of("said"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    for (int i = 0; added[i] != NULL; i++)
        putenv((char *)(size_t)added[i]);
    const char *words[16] = {program, "--folder",  folder, "--library",
                             library, "--runtime", library};
    int at = 7;
    if (!is_led) {
        words[at++] = "--plan";
        words[at++] = plan_path;
    }
    if (n != NULL) {
        words[at++] = "--start";
        words[at++] = n;
    }
    words[at] = extra;
    execv(program, (char **)(size_t)words);
    _exit(127);
}

static pid_t start(const char *plan, const char *n, const char *extra)
{
    put_plan(plan);
    return start_one(n, extra);
}

/* The exit code; a run that does not end by itself fails the test. */
static int wait_for(pid_t child)
{
    for (int i = 0; i < 2000; i++) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(child, SIGKILL);
    return -1000;
}

static int run(const char *plan, const char *n, const char *extra)
{
    return wait_for(start(plan, n, extra));
}

static void set(const char *first, ...)
{
    va_list more;
    int n = 0;
    va_start(more, first);
    for (const char *one = first; one != NULL && n < 7; one = va_arg(more, const char *))
        added[n++] = one;
    added[n] = NULL;
    va_end(more);
}

static int lines_with(const char *name, const char *start_of_line)
{
    int n = 0;
    for (const char *at = text_of_file(name); at != NULL && *at != '\0';) {
        n += strncmp(at, start_of_line, strlen(start_of_line)) == 0;
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    return n;
}

static void check_rows(void)
{
    set("RCCLTUNE_PERF_TOKEN=abc", NULL);
    CHECK(run(PLAN, "3", NULL) == 0);
    for (int rank = 0; rank < 3; rank++) {
        char name[32];
        snprintf(name, sizeof name, "rank-%d.csv", rank);
        CHECK(lines_with(name, "# done") == 1 && lines_with(name, "# version 22809") == 1);
        CHECK(lines_with(name, "line,communicator,step,") == 1);
        CHECK(lines_with(name, "2,0,communicator,") == 1);
        /* The library's log, of rank 0 alone, names nothing. */
        const char *call =
            rank == 0 ? "3,0,call,4096,0,,1,,,,,,,?,,," : "3,0,call,4096,0,,1,,,,,,,,,,";
        CHECK(lines_with(name, call) == 1);
        CHECK(lines_with(name, "4,0,measure,4096,") == 1);
        CHECK(lines_with(name, "5,0,measure,") == 1); /* 3 ranks: 4096 is rounded down */
        CHECK(lines_with(name, "6,1,communicator,") == 1);
        CHECK(lines_with(name, "7,1,measure,65520,") == 1);
    }
    CHECK(lines_with("said", "") == 0 || text_of_file("said")[0] == '\0');
    CHECK(access(path_of("rendezvous"), F_OK) == 0);
}

/* Law 11: what the site says of transports and safety reaches every rank; what would join two
 * sessions does not. */
static void check_environment(void)
{
    set("RCCLTUNE_PERF_TOKEN=abc", "NCCL_NVLS_ENABLE=0", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1",
        "NVSHMEM_DISABLE_NVLS=1", "NCCL_COMM_ID=127.0.0.1:5555", "NCCL_SOCKET_IFNAME=lo", NULL);
    CHECK(run(PLAN, "2", NULL) == 0);
    for (int rank = 0; rank < 2; rank++) {
        const char *name = rank == 0 ? "rank-0.csv" : "rank-1.csv";
        CHECK(lines_with(name, "# variable NCCL_NVLS_ENABLE=0") == 1);
        CHECK(lines_with(name, "# variable TORCH_SYMM_MEM_DISABLE_MULTICAST=1") == 1);
        CHECK(lines_with(name, "# variable NVSHMEM_DISABLE_NVLS=1") == 1);
        CHECK(lines_with(name, "# variable NCCL_SOCKET_IFNAME=lo") == 1);
        CHECK(!has(name, "NCCL_GRAPH_REGISTER"));
        CHECK(!has(name, "NCCL_COMM_ID") && !has(name, "NCCL_TUNER_PLUGIN"));
        CHECK(has(name, "NCCL_SEEN_ID=id of "));
    }
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_CONF=1", "NCCL_GRAPH_REGISTER=1", NULL);
    CHECK(run(PLAN, "2", NULL) == 0);
    CHECK(lines_with("rank-1.csv", "# variable NCCL_ALGO=ring") == 1);
    CHECK(lines_with("rank-1.csv", "# variable NCCL_GRAPH_REGISTER=1") == 1);
}

static double time_in(const char *name, const char *start_of_line)
{
    double us = -1;
    for (const char *at = text_of_file(name); at != NULL && *at != '\0';) {
        size_t n = strlen(start_of_line);
        if (strncmp(at, start_of_line, n) == 0)
            CHECK(sscanf(at + n, "%*d,%lf", &us) == 1);
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    return us;
}

/* The host's way to the device and back, 50 ms here, is in no time; by loop and by graph. */
static void check_times(void)
{
    static const char plan[] = "plan 2 4096\ncommunicator\n"
                               "measure all_reduce float sum out 4096 loop 1 20 0\n"
                               "measure all_reduce float sum out 4096 graph 1 20 0\n";
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_WAY_US=50000", NULL);
    CHECK(run(plan, "2", NULL) == 0);
    double loop = time_in("rank-0.csv", "3,0,measure,4096,");
    double graph = time_in("rank-0.csv", "4,0,measure,4096,");
    CHECK(loop >= 0 && loop < 1000 && graph >= 0 && graph < 1000);
}

/* A call that is timed again in its communicator is replayed, not captured anew; in the next one
 * it is. */
static void check_kept_graphs(void)
{
    static const char timed[] = "measure all_reduce float sum out 4096 graph 1 20 0\n";
    char plan[512];
    snprintf(plan, sizeof plan, "plan 2 4096\ncommunicator\n%s%s%scommunicator\n%s", timed, timed,
             timed, timed);
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_SAYS=1", NULL);
    CHECK(run(plan, "1", NULL) == 0);
    CHECK(lines_with("said", "captured") == 2 && lines_with("said", "graph destroyed") == 1);
    CHECK(lines_with("rank-0.csv", "5,0,measure,4096,") == 1);
}

/* What only the library's own memory can have: it is asked for some there, and there alone. */
static void check_registered(void)
{
    static const char more[] = "measure all_reduce float sum out 4096 registered 1 20 0\n";
    char plan[1024];
    snprintf(plan, sizeof plan, "%s%s", PLAN, more);
    set("RCCLTUNE_PERF_TOKEN=abc", NULL);
    CHECK(run(plan, "2", NULL) == 0);
    CHECK(lines_with("rank-1.csv", "8,1,measure,4096,") == 1);
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_MEMORY=0", NULL);
    CHECK(run(PLAN, "2", NULL) == 0);
    CHECK(run(plan, "2", NULL) == 5 && has("said", "MiB of device memory: internal error"));
}

/* As by a launcher that shows each rank its own device alone, on a host whose devices are in no
 * file of /sys: all run, unbound. */
static void check_launchers(void)
{
    static const char *const names[][3] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
        {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        static char told[2][4][64];
        pid_t ranks[2];
        put_plan(PLAN);
        for (int rank = 1; rank >= 0; rank--) {
            snprintf(told[rank][0], sizeof *told[0], "%s=%d", names[i][0], rank);
            snprintf(told[rank][1], sizeof *told[0], "%s=2", names[i][1]);
            snprintf(told[rank][2], sizeof *told[0], "%s=%d", names[i][2], rank);
            snprintf(told[rank][3], sizeof *told[0], "FAKE_BUS=%d", 80 + rank);
            set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_DEVICES=1", "SLURM_STEP_ID=0", told[rank][0],
                told[rank][1], told[rank][2], told[rank][3], NULL);
            ranks[rank] = start_one(NULL, NULL);
        }
        CHECK(wait_for(ranks[0]) == 0 && wait_for(ranks[1]) == 0);
        CHECK(lines_with("rank-1.csv", "# device 0 0000:51:00.0") == 1);
        CHECK(lines_with("rank-1.csv", "# numa unbound: /sys/bus/pci/devices/0000:51:00.0") == 1);
        CHECK(lines_with("rank-1.csv", "# done") == 1);
        /* One rank of a host says digests; here there may be several hosts. */
        CHECK(lines_with("rank-0.csv", "# fact library=2.28.9 ") == 1);
        CHECK(lines_with("rank-0.csv", "# fact rank program=") == 1);
        CHECK(!has("rank-1.csv", "# fact library") && !has("rank-1.csv", "# fact rank program"));
    }
    set("RCCLTUNE_PERF_TOKEN=abc", NULL);
    put_plan(PLAN);
    CHECK(wait_for(start_one(NULL, NULL)) == 2 && has("said", "which rank this is, nothing says"));
}

/* What rccltune compares between hosts, of which every rank says what it sees itself. */
static void check_facts(void)
{
    set("RCCLTUNE_PERF_TOKEN=secret-of-ranks", "UCX_TLS=tcp", "NCCL_DEBUG=WARN", "FAKE_CONF=1",
        NULL);
    CHECK(run(PLAN, "2", NULL) == 0);
    for (int rank = 0; rank < 2; rank++) {
        const char *name = rank == 0 ? "rank-0.csv" : "rank-1.csv";
        CHECK(lines_with(name, "# host ") == 1 && lines_with(name, "# boot ") == 1);
        CHECK(lines_with(name, "# fact device=Fake H200") == 1);
        CHECK(lines_with(name, "# fact arch=sm_90") == 1 &&
              lines_with(name, "# fact CUs=132") == 1);
        CHECK(lines_with(name, "# fact runtime=cuda 12090, driver's -1") == 1);
        CHECK(lines_with(name, "# fact NUMA=") == 1 && lines_with(name, "# processors ") == 1);
        /* As the site has them: what the log needs is ours; and what the library adds, once. */
        CHECK(lines_with(name, "# variable UCX_TLS=tcp") == 1);
        CHECK(lines_with(name, "# variable NCCL_DEBUG=WARN") == 1);
        CHECK(!has(name, "# variable NCCL_DEBUG=INFO") && !has(name, "NCCL_DEBUG_FILE"));
        CHECK(lines_with(name, "# variable NCCL_ALGO=ring") == 1);
        CHECK(!has(name, "secret-of-ranks"));
        /* On one host nobody reads a library of a gigabyte once more. */
        CHECK(!has(name, "# fact library"));
    }
}

/* A rank that another host has started says which host it is, and that it does not see the run. */
static void check_folder(void)
{
    char host[128] = "", said[200];
    (void)gethostname(host, sizeof host - 1);
    set("RCCLTUNE_PERF_TOKEN=0123456789abcdef", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0", NULL);
    clean();
    FILE *file = fopen(path_of("run.json"), "w");
    CHECK(file != NULL && fputs("{\"process\": \"ba9876543210\"}\n", file) >= 0 &&
          fclose(file) == 0);
    is_led = true;
    pid_t child = start_one(NULL, NULL);
    is_led = false;
    CHECK(wait_for(child) == 8 && access(path_of("rank-1.csv"), F_OK) != 0);
    snprintf(said, sizeof said, "rccltune-perf: rank 1: %s: the run's folder %s is not here", host,
             folder);
    CHECK(has("said", said));
}

static void check_refused(void)
{
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_DEVICES=2", NULL);
    CHECK(run(PLAN, "3", NULL) == 4 &&
          has("said", "rank 2 of this host has no GPU: 2 are visible"));
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_DEVICES=1", NULL); /* each rank is shown its own */
    CHECK(run(PLAN, "2", NULL) == 4 && has("said", "both have the device"));
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_SAME_DEVICE=1", NULL);
    CHECK(run(PLAN, "2", NULL) == 4 && has("said", "ranks 0 and 1 both have the device"));
    /* Where the library may, ranks share a device for what is not timed. */
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_SAME_DEVICE=1", "NCCL_MULTI_RANK_GPU_ENABLE=1", NULL);
    CHECK(run(PLAN, "2", NULL) == 4 && has("said", "no time would be worth anything"));
    CHECK(run("plan 2 4096\ncommunicator\ncall all_reduce float sum out 4096 -\n", "2", NULL) == 0);
    set("RCCLTUNE_PERF_TOKEN=abc", "CUDA_VISIBLE_DEVICES=MIG-1,MIG-2", NULL);
    CHECK(run(PLAN, "2", NULL) == 4 && has("said", "MIG-1"));
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FREE_MIB=1100", NULL);
    CHECK(run("plan 2 268435456\ncommunicator\n", "2", NULL) == 5);
    CHECK(has("said", "256 MiB do not fit") && has("said", "size that fits is 32 MiB"));
    /* The first rank that finds it ends the others, which may not have come so far. */
    CHECK(lines_with("rank-0.csv", "# failed 0 two buffers") +
              lines_with("rank-1.csv", "# failed 0 two buffers") >=
          1);
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FREE_MIB=900", NULL);
    CHECK(run(PLAN, "2", NULL) == 5 && has("said", "no size fits beside the 1024 MiB that"));
    set("RCCLTUNE_PERF_TOKEN=abc", NULL);
    CHECK(run("plan 2 4096\nanswer nothing\n", "2", NULL) == 2 && has("said", "no --plugin"));
    CHECK(run(PLAN, "0", NULL) == 2 && has("said", "--start 0"));
    CHECK(run(PLAN, "2", "--dance") == 2 && has("said", "rccltune-perf --help"));
    const char *real = library;
    library = "/nonexistent/librccl.so.1";
    CHECK(run(PLAN, "2", NULL) == 3 && has("said", "/nonexistent/librccl.so.1"));
    library = real;
    unsetenv("RCCLTUNE_PERF_TOKEN");
    set(NULL, NULL);
    CHECK(run(PLAN, "2", "--help") == 0 && has("said", "rccltune-perf --folder DIR"));
    CHECK(has("said", "'rccltune sweep'") && has("said", "docs/measuring.md"));
    CHECK(run(PLAN, "2", NULL) == 2 && has("said", "RCCLTUNE_PERF_TOKEN is not set"));
}

static bool is_gone(void)
{
    char command[400];
    snprintf(command, sizeof command, "pgrep -f -- '[-]-folder %s' >/dev/null", folder);
    for (int i = 0; i < 200; i++) {
        if (system(command) != 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

/* Whatever one rank does, the others end, the words are those of who failed, and nothing stays. */
static void check_faults(void)
{
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FAULT=exit", "FAKE_RANK=1", "FAKE_CALL=4", NULL);
    CHECK(run(PLAN, "3", NULL) == 9 && is_gone());
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FAULT=kill", "FAKE_RANK=2", "FAKE_CALL=4", NULL);
    CHECK(run(PLAN, "3", NULL) == 128 + SIGKILL && is_gone());
    CHECK(has("said", "rank 2: ended by signal 9"));
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FAULT=error", "FAKE_RANK=0", "FAKE_CALL=5", NULL);
    CHECK(run(PLAN, "3", NULL) == 6 && is_gone());
    CHECK(has("said", "line 4 of the plan: all_reduce: internal error / the fake's own words"));
    CHECK(lines_with("rank-0.csv", "# failed 4 all_reduce: internal error") == 1);
    CHECK(lines_with("rank-0.csv", "3,0,call") == 1 && lines_with("rank-0.csv", "4,0,") == 0);
}

/* A capture that fails on one rank leaves the time empty on all, and the plan goes on. */
static void check_capture(void)
{
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FAULT=capture", "FAKE_RANK=1", NULL);
    CHECK(run(PLAN, "2", NULL) == 0);
    CHECK(has("rank-1.csv", ",graph: capture: unhandled cuda error\n"));
    CHECK(has("rank-0.csv", ",graph: another rank could not capture\n"));
    CHECK(has("rank-0.csv", "5,0,measure,4096,0,,"));
    CHECK(lines_with("rank-0.csv", "7,1,measure,65536,") == 1);
}

/* A rank that hangs is ended with the process that started it, however that ends. */
static void check_ends(int number, int code)
{
    set("RCCLTUNE_PERF_TOKEN=abc", "FAKE_FAULT=hang", "FAKE_RANK=1", "FAKE_CALL=4", NULL);
    pid_t child = start(PLAN, "3", NULL);
    for (int i = 0; i < 500 && lines_with("rank-1.csv", "3,0,call") == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK(lines_with("rank-1.csv", "3,0,call") == 1);
    kill(child, number);
    CHECK(wait_for(child) == code && is_gone());
}

/* A connection to rank 0, or -1: through any address of its file. */
static int connect_to_rank_0(void)
{
    for (int i = 0; i < 500; i++) {
        char address[64];
        int port;
        FILE *file = fopen(path_of("rendezvous"), "r");
        while (file != NULL && fscanf(file, "%63s %d", address, &port) == 2) {
            struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
            int peer = socket(AF_INET, SOCK_STREAM, 0);
            if (inet_pton(AF_INET, address, &at.sin_addr) == 1 &&
                connect(peer, (struct sockaddr *)&at, sizeof at) == 0) {
                fclose(file);
                return peer;
            }
            close(peer);
        }
        if (file != NULL)
            fclose(file);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return -1;
}

/* A line from rank 0 without its end; empty where it closed the connection. */
static const char *line_of(int peer)
{
    static char line[MAX_TEXT];
    size_t n = 0;
    while (n < sizeof line - 1 && read(peer, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return line;
}

static void say(int peer, const char *text)
{
    CHECK(write(peer, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Ranks that wait for steps: the token is `abcdef`, of which we say the first half. */
static int lead(pid_t *child, const char *n)
{
    clean();
    is_led = true;
    *child = start_one(n, NULL);
    is_led = false;
    char greeting[64];
    int peer = connect_to_rank_0();
    snprintf(greeting, sizeof greeting, "rccltune-perf abc lead %s\n", n);
    say(peer, greeting);
    CHECK_STRING(line_of(peer), "def");
    return peer;
}

static int count(const char *text, char wanted)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += *text == wanted;
    return n;
}

/* Steps come one by one, and each is answered with what every rank wrote, when all have. */
static void check_led(void)
{
    pid_t child;
    set("RCCLTUNE_PERF_TOKEN=abcdef", NULL);
    int peer = lead(&child, "3");
    say(peer, "plan 2 4096\n");
    const char *answer = line_of(peer);
    CHECK(count(answer, '\t') == 2 && strstr(answer, "# host ") != NULL);
    CHECK(strstr(answer, "\x1eline,communicator,step,") != NULL);
    say(peer, "communicator first\n# a remark\ncall all_reduce float sum out 4096 -\n");
    CHECK(strstr(line_of(peer), "2,0,communicator,0,") != NULL);
    answer = line_of(peer);
    CHECK(count(answer, '\t') == 2 && strncmp(answer, "4,0,call,4096,0,,1,", 19) == 0);
    CHECK(lines_with("rank-2.csv", "4,0,call,4096,") == 1);
    say(peer, "end\n");
    CHECK_STRING(line_of(peer), "");
    CHECK(wait_for(child) == 0 && lines_with("rank-2.csv", "# done") == 1);
    close(peer);
    peer = lead(&child, "1"); /* one rank alone takes steps, too */
    say(peer, "plan 2 4096\ncommunicator\nend\n");
    CHECK(wait_for(child) == 0);
    close(peer);
}

/* Who closes the connection ends all ranks: idle ones, and those inside a call that hangs. */
static void check_led_away(void)
{
    pid_t child;
    set("RCCLTUNE_PERF_TOKEN=abcdef", NULL);
    int peer = lead(&child, "2");
    say(peer, "plan 2 4096\ncommunicator\n");
    (void)line_of(peer);
    close(peer);
    CHECK(wait_for(child) == 7 && is_gone() && has("said", "rccltune is gone"));
    set("RCCLTUNE_PERF_TOKEN=abcdef", "FAKE_FAULT=hang", "FAKE_RANK=1", "FAKE_CALL=4", NULL);
    peer = lead(&child, "2");
    say(peer, "plan 2 4096\ncommunicator\nmeasure all_reduce float sum in 4096 loop 1 20 0\n");
    (void)line_of(peer);
    (void)line_of(peer);
    close(peer);
    CHECK(wait_for(child) == 7 && is_gone());
    set("RCCLTUNE_PERF_TOKEN=abcdef", NULL);
    peer = lead(&child, "2");
    say(peer, "plan 2 4096\ndance\n");
    (void)line_of(peer);
    CHECK_STRING(line_of(peer), "");
    CHECK(wait_for(child) == 2 && has("said", "line 2 of the plan: dance: no step"));
    close(peer);
}

/* Strangers are turned away and do not hold up who belongs here, and a stale file names a listener
 * that does not know the token. */
static void check_strangers(void)
{
    pid_t child;
    set("RCCLTUNE_PERF_TOKEN=abcdef", NULL);
    clean();
    is_led = true;
    child = start_one("2", NULL);
    is_led = false;
    int stranger = connect_to_rank_0();
    say(stranger, "rccltune-perf abd lead 2\n");
    CHECK_STRING(line_of(stranger), "");
    close(stranger);
    stranger = connect_to_rank_0();
    say(stranger, "rccltune-perf abc 2 2\n");
    CHECK_STRING(line_of(stranger), "");
    close(stranger);
    int peer = connect_to_rank_0();
    say(peer, "rccltune-perf abc lead 2\n");
    CHECK_STRING(line_of(peer), "def");
    say(peer, "plan 2 4096\nend\n");
    CHECK(wait_for(child) == 0);
    close(peer);

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 4) == 0 &&
          getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    put_plan(PLAN);
    FILE *file = fopen(path_of("rendezvous"), "w");
    CHECK(file != NULL);
    fprintf(file, "127.0.0.1 %d\n", ntohs(at.sin_port));
    fclose(file);
    pid_t ranks[2];
    set("RCCLTUNE_PERF_TOKEN=abcdef", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", NULL);
    ranks[1] = start_one(NULL, NULL);
    int other = accept(listener, NULL, NULL);
    CHECK(strncmp(line_of(other), "rccltune-perf abc 1 2", 21) == 0);
    say(other, "xyz\n"); /* somebody else's second half */
    set("RCCLTUNE_PERF_TOKEN=abcdef", "RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", NULL);
    ranks[0] = start_one(NULL, NULL);
    CHECK(wait_for(ranks[0]) == 0 && wait_for(ranks[1]) == 0);
    close(other);
    close(listener);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    program = argv[1];
    library = argv[2];
    CHECK(mkdtemp(folder) != NULL);
    check_rows();
    check_environment();
    check_times();
    check_kept_graphs();
    check_registered();
    check_launchers();
    check_facts();
    check_folder();
    check_refused();
    check_faults();
    check_capture();
    check_led();
    check_led_away();
    check_strangers();
    check_ends(SIGTERM, 128 + SIGTERM);
    check_ends(SIGKILL, -SIGKILL);
    clean();
    rmdir(folder);
    return check_result();
}

/* What the plugin says: failures on stderr, the log and the summary: test_watch LIBRARY FAKE_NCCL.
 */
#include "check.h"
#include "host.h"
#include "tree.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

static char root[256];
static const char *library;
static abi_logger logger; /* that the host hands over */

static void path_in_root(const char *name, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%s/%s", root, name);
}

static void set_path(const char *variable, const char *prefix, const char *name)
{
    char value[600];
    (void)snprintf(value, sizeof value, "%s%s/%s", prefix, root, name);
    (void)setenv(variable, value, 1);
}

static void clear(void)
{
    (void)unsetenv("RCCLTUNE_LOG");
    (void)unsetenv("RCCLTUNE_ON_ERROR");
    (void)unsetenv("RCCLTUNE_CONFIG_DIR");
    (void)unsetenv("RCCLTUNE_SYSROOT");
    set_path("NCCL_TUNER_CONFIG_FILE", "", "rules.csv");
}

static const char *read_file(const char *name)
{
    static char buffer[16384];
    char path[600];
    path_in_root(name, path, sizeof path);
    FILE *file = fopen(path, "r");
    size_t n = file == NULL ? 0 : fread(buffer, 1, sizeof buffer - 1, file);
    buffer[n] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)remove(path);
    return buffer;
}

static void ask(struct host *host, int collective, size_t n_bytes, int n_algorithms)
{
    float table[21];
    struct host_call call = {collective, n_bytes, 1, 0, table, n_algorithms, 3, 0};
    for (int i = 0; i < 21; i++) {
        table[i] = (float)(i + 1);
    }
    CHECK(host_ask(host, &call) == ABI_SUCCESS);
}

/* Runs a small job at `version` with stderr in the file err.txt; the result of init. */
static int run(int version, size_t n_ranks)
{
    struct host host;
    char path[600];
    CHECK(host_load(&host, library, version));
    host.logger = logger;
    path_in_root("err.txt", path, sizeof path);
    int saved = dup(STDERR_FILENO);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    CHECK(saved >= 0 && file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    int result = host_init(&host, n_ranks, 1);
    if (result == ABI_SUCCESS) {
        ask(&host, 4, 100, 7);
        ask(&host, 4, 100, 7);
        ask(&host, 4, 300, 7); /* ring/simple not selectable, then a fallback */
        ask(&host, 4, 300, 1);
        ask(&host, 4, 400, 1); /* matched, nothing selectable */
        ask(&host, 0, 100, 7); /* no rule */
        (void)host_finalize(&host);
    }
    CHECK(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
    (void)close(saved);
    (void)close(file);
    return result;
}

static void check_quiet(void)
{
    clear();
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK_STRING(read_file("err.txt"), "");
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK_STRING(read_file("err.txt"), "");
}

static void check_failures_are_said(void)
{
    clear();
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent", 1);
    CHECK(run(5, 8) == ABI_INVALID_USAGE);
    const char *text = read_file("err.txt");
    CHECK(strstr(text, "/proc/nonexistent") != NULL &&
          strstr(text, "RCCLTUNE_ON_ERROR=ignore") != NULL);
    CHECK(strstr(text, "this rank alone") == NULL);
    CHECK(run(5, 1) == ABI_SUCCESS); /* one rank: nothing is read */
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    (void)setenv("RCCLTUNE_LOG", "summary", 1);
    CHECK(run(4, 8) == ABI_SUCCESS);
    CHECK(strstr(read_file("err.txt"), "inert: R08 file-unreadable: /proc/nonexistent") != NULL);
    clear();
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    (void)setenv("RCCLTUNE_CONFIG_DIR", root, 1);
    (void)setenv("RCCLTUNE_SYSROOT", "/proc/nonexistent", 1);
    CHECK(run(5, 8) == ABI_SYSTEM_ERROR);
    text = read_file("err.txt");
    CHECK(strstr(text, "this rank alone") != NULL && strstr(text, "RCCLTUNE_MODE") != NULL);
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    CHECK(run(5, 8) == ABI_SUCCESS);
}

static void check_summary(void)
{
    clear();
    set_path("RCCLTUNE_LOG", "summary:", "log-%c.txt");
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK_STRING(read_file("err.txt"), "");
    const char *text = read_file("log-0000000000abcdef.txt");
    CHECK(strstr(text, "nodes=1 ranks=8 abi=v5 rules=4 of=4 skipped-rows=1 file=") != NULL);
    CHECK(strstr(text, " needs=RCCL_LL128_FORCE_ENABLE=1") != NULL &&
          strstr(text, " sha256=") != NULL);
    CHECK(strstr(text, "summary calls=6 hits=4 misses=1 not-selectable=1 fallbacks=1\n") != NULL);
    CHECK(strstr(text, "rule line=5 setting=tree/ll channels=16 hits=2\n") != NULL);
    CHECK(strstr(text, "decision") == NULL);
    clear();
    (void)setenv("RCCLTUNE_LOG", "summary:/proc/nonexistent/log", 1);
    CHECK(run(5, 8) == ABI_SUCCESS); /* a log must not stop a job: it goes to stderr */
    CHECK(strstr(read_file("err.txt"), "summary calls=6") != NULL);
    (void)setenv("RCCLTUNE_LOG", "summary:/tmp/%q", 1);
    CHECK(run(5, 8) == ABI_INVALID_USAGE);
}

static void check_decisions(void)
{
    clear();
    (void)setenv("RCCLTUNE_LOG", "decisions", 1);
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    CHECK(run(3, 8) == ABI_SUCCESS);
    (void)unsetenv("RCCLTUNE_MODE");
    const char *text = read_file("err.txt");
    CHECK(strstr(text, "mode=cpx-nps4 from=RCCLTUNE_MODE") != NULL);
    CHECK(strstr(text, "decision collective=allreduce nbytes=100 answer=tree/ll/16 line=5 "
                       "host=tree/ll offered=tree/ll,tree/ll128,") != NULL);
    CHECK(strstr(text, " reason=R20 rule-hit\n") != NULL);
    CHECK(strstr(text, " reason=R22 no-rule\n") != NULL);
    CHECK(strstr(text, "decision collective=broadcast nbytes=100 answer=none line=0 host=tree/ll "
                       "offered=tree/ll,") != NULL);
    CHECK(strstr(text, "comm=local") != NULL);
    CHECK(run(2, 8) == ABI_SUCCESS); /* its hosts show no table, and take three cells alone */
    CHECK(strstr(read_file("err.txt"), "answer=tree/ll/16 line=5 host=- offered=tree/ll,ring/ll,"
                                       "ring/simple reason=R20 rule-hit\n") != NULL);
}

/* Codes as docs/plugin.md lists them. */
static void check_every_answer_has_its_reason(void)
{
    static const struct {
        int collective;
        size_t n_bytes;
        int n_algorithms; /* 1: the host offers tree alone */
        const char *reason;
    } calls[] = {
        {4, 100, 7, "nbytes=100 answer=tree/ll/16 line=3 host=tree/ll"},
        {4, 300, 1, "reason=R21 fallback-hit"},
        {4, 400, 1, "reason=R23 not-selectable"},
        {0, 100, 7, "reason=R22 no-rule"},
        {0, 700, 7, "reason=R24 left-to-library"},
        {0, 900, 7, "reason=R25 other-conditions"},
    };
    struct host host;
    clear();
    set_path("NCCL_TUNER_CONFIG_FILE", "", "every.csv");
    CHECK(tree_put(root, "every.csv",
                   "allreduce,300,300,ring,simple,-1,-1,-1\nallreduce,300,300,tree,ll,-1,-1,-1\n"
                   "allreduce,0,200,tree,ll,16,-1,-1\nallreduce,400,500,ring,ll,-1,-1,-1\n"
                   "broadcast,700,700,-1,-1,-1,-1,-1\nbroadcast,900,900,ring,ll,-1,-1,-1,7\n"));
    set_path("RCCLTUNE_LOG", "decisions:", "log.txt");
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ask(&host, calls[i].collective, calls[i].n_bytes, calls[i].n_algorithms);
    }
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    const char *text = read_file("log.txt");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK(strstr(text, calls[i].reason) != NULL);
    }
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    ask(&host, 4, 100, 7);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    text = read_file("log.txt");
    CHECK(strstr(text, "inert: R07 nothing-set: ") != NULL);
    CHECK(strstr(text, "reason=R26 without-rules\n") != NULL);
}

/* A size is told once; what a table shows beyond the names of today has a number. */
static void check_decisions_of_a_size_are_told_once(void)
{
    struct host host;
    float table[32];
    struct host_call call = {4, 4096, 1, 0, table, 8, 4, 0};
    clear();
    set_path("RCCLTUNE_LOG", "decisions:", "log.txt");
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    for (int i = 0; i < 32; i++) {
        table[i] = i == 31 ? 2.0F : i == 2 ? -1024.0F : 5.0F;
    }
    for (int i = 0; i < 3; i++) {
        CHECK(host_ask(&host, &call) == ABI_SUCCESS);
    }
    call.collective = 2;
    CHECK(host_ask(&host, &call) == ABI_SUCCESS);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    const char *text = read_file("log.txt");
    static const char told[] = "decision collective=allreduce nbytes=4096 answer=none line=0 "
                               "host=algorithm7/protocol3 offered=tree/ll,tree/ll128,";
    const char *first = strstr(text, told);
    CHECK(first != NULL && strstr(first + 1, told) == NULL);
    CHECK(strstr(text, "decision collective=allgather nbytes=4096 ") != NULL);
    CHECK(strstr(text, "summary calls=4 hits=0 misses=4 ") != NULL);
}

/* The log of a small job on a release, from the first decision on. */
static const char *log_of(enum host_release release)
{
    struct host host;
    float table[21];
    static const size_t sizes[] = {100, 100, 300, 3000, 3000};
    set_path("RCCLTUNE_LOG", "decisions:", "log.txt");
    CHECK(host_load(&host, library, 6) && host_init(&host, 8, 1) == ABI_SUCCESS);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int collective = 2; collective <= 4; collective += 2) {
            struct host_call call = {
                collective, sizes[i] * (collective == 2 ? 8 : 1), 1, 0, table, 7, 3, 0};
            for (int cell = 0; cell < 21; cell++) {
                table[cell] = (float)(cell + 1);
            }
            CHECK(host_issue(&host, release, &call) == ABI_SUCCESS);
            CHECK(host_issue_in_windows(&host, release, &call) == ABI_SUCCESS);
        }
    }
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    const char *decisions =
        strstr(read_file("log.txt"), "rccltune: comm=0000000000abcdef decision");
    CHECK(decisions != NULL);
    return decisions == NULL ? "" : decisions;
}

/* A job's log and counts do not depend on how often its library asks about a call; rules for a
 * numPipeOps of 1 are not missed for the questions that have 0. */
static void check_releases(void)
{
    char of_2_30[4096];
    clear();
    CHECK(
        tree_put(root, "pipe.csv",
                 "allreduce,0,200,tree,ll,16,-1,-1,1,-1\nallreduce,201,1024,ring,ll,-1,-1,-1,0,-1\n"
                 "allreduce,2000,4000,ring,simple,-1,-1,-1,-1,-1\n"));
    set_path("NCCL_TUNER_CONFIG_FILE", "", "pipe.csv");
    (void)snprintf(of_2_30, sizeof of_2_30, "%s", log_of(HOST_2_30));
    CHECK(strstr(of_2_30, "collective=allreduce nbytes=100 answer=tree/ll/16 line=1 ") != NULL);
    CHECK(strstr(of_2_30, "collective=allreduce nbytes=300 answer=none line=0 ") != NULL);
    CHECK(strstr(of_2_30, "collective=allreduce nbytes=3000 answer=ring/simple line=3 ") != NULL);
    CHECK(strstr(of_2_30, "collective=allgather nbytes=24000 answer=none ") != NULL);
    CHECK(strstr(of_2_30, "summary calls=10 hits=4 misses=6 not-selectable=0 fallbacks=0\n") !=
          NULL);
    CHECK(strstr(of_2_30, "offered=-") == NULL);
    for (int release = HOST_2_31; release < N_HOST_RELEASES; release++) {
        CHECK_STRING(log_of((enum host_release)release), of_2_30);
    }
}

/* A file for another library: said once in a process, in each log's first line, and refused with
 * RCCLTUNE_STRICT=1, at every version of the interface. */
static void check_another_library(const char *fake)
{
    static const char warning[] = "has rules for NCCL 2.28.9, and this job runs NCCL 2.30.7";
    void *object = dlopen(fake, RTLD_NOW | RTLD_LOCAL);
    const void *address = object == NULL ? NULL : dlsym(object, "fake_logger");
    CHECK(address != NULL);
    memcpy(&logger, &address, sizeof logger);
    clear();
    CHECK(
        tree_put(root, "bound.csv", "#@ library NCCL 2.28.9\nallreduce,0,200,tree,ll,16,-1,-1\n"));
    set_path("NCCL_TUNER_CONFIG_FILE", "", "bound.csv");
    (void)setenv("FAKE_LIBRARY_CODE", "22809", 1);
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK_STRING(read_file("err.txt"), "");
    (void)setenv("FAKE_LIBRARY_CODE", "23007", 1);
    (void)setenv("RCCLTUNE_LOG", "summary", 1);
    CHECK(run(5, 8) == ABI_SUCCESS);
    const char *text = read_file("err.txt");
    const char *first = strstr(text, warning);
    CHECK(first != NULL && strstr(first + 1, warning) == NULL);
    CHECK(strstr(text, "rccltune: warning: ") == text && strstr(text, "RCCLTUNE_STRICT=1") != NULL);
    CHECK(strstr(text, " library=NCCL 2.30.7 rules-for=NCCL 2.28.9\n") != NULL);
    CHECK(strstr(text, "summary calls=6 hits=2 ") != NULL); /* the rules are used */
    CHECK(run(5, 8) == ABI_SUCCESS);
    text = read_file("err.txt");
    CHECK(strstr(text, warning) == NULL && strstr(text, " library=NCCL 2.30.7 rules-for=") != NULL);
    (void)unsetenv("RCCLTUNE_LOG");
    (void)setenv("RCCLTUNE_STRICT", "1", 1);
    for (int version = 2; version <= 7; version++) {
        CHECK(run(version, 8) == ABI_INVALID_USAGE);
        CHECK(strstr(read_file("err.txt"), warning) != NULL);
    }
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    CHECK(run(5, 8) == ABI_SUCCESS);
    (void)unsetenv("RCCLTUNE_STRICT");
    logger = NULL;
}

/* What a file asks and nobody can say is not checked, and the log's first line says so. */
static void check_unchecked(void)
{
    clear();
    CHECK(tree_put(root, "bound.csv",
                   "#@ library NCCL 2.28.9\n#@ requires product=NVIDIA-H200\n"
                   "allreduce,0,200,tree,ll,16,-1,-1\n"));
    set_path("NCCL_TUNER_CONFIG_FILE", "", "bound.csv");
    set_path("RCCLTUNE_SYSROOT", "", "machine");
    (void)setenv("RCCLTUNE_LOG", "summary", 1);
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK(strstr(read_file("err.txt"), " unchecked=product,library (not known here)\n") != NULL);
    CHECK(tree_put(root, "machine/proc/driver/nvidia/gpus/0000:18:00.0/information",
                   "Model: \t\t NVIDIA H200\n"));
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK(strstr(read_file("err.txt"), " product=NVIDIA-H200 unchecked=library (not known") !=
          NULL);
    clear();
}

/* A file whose rules keep the bits of results: the first call that adds and that no rule answers is
 * said, once in a process; of a file without that line none is. */
static void check_bits(void)
{
    static const char warning[] =
        "R27 bits-not-kept: allreduce of 300 bytes: no rule reaches so far";
    clear();
    CHECK(tree_put(root, "bits.csv", "allreduce,0,200,tree,ll,16,-1,-1\n"));
    set_path("NCCL_TUNER_CONFIG_FILE", "", "bits.csv");
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK_STRING(read_file("err.txt"), "");
    CHECK(tree_put(root, "bits.csv", "#@ bits trees-1\nallreduce,0,200,tree,ll,16,-1,-1\n"));
    CHECK(run(5, 8) == ABI_SUCCESS);
    const char *text = read_file("err.txt");
    const char *first = strstr(text, warning);
    CHECK(first != NULL && strstr(first + 1, "R27") == NULL);
    CHECK(run(5, 8) == ABI_SUCCESS);
    CHECK_STRING(read_file("err.txt"), "");
    clear();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    library = argv[1];
    tree_make(root, sizeof root);
    CHECK(tree_put(root, "rules.csv",
                   "collective,min,max,algorithm,protocol,channels,nNodes,nRanks\n"
                   "#@ needs RCCL_LL128_FORCE_ENABLE=1\n"
                   "allreduce,300,300,ring,simple,-1,-1,-1\nallreduce,300,300,tree,ll,-1,-1,-1\n"
                   "allreduce,0,200,tree,ll,16,-1,-1\nallreduce,400,500,ring,ll,-1,-1,-1\n"));
    check_quiet();
    check_failures_are_said();
    check_summary();
    check_decisions();
    check_every_answer_has_its_reason();
    check_decisions_of_a_size_are_told_once();
    check_releases();
    check_another_library(argv[2]);
    check_unchecked();
    check_bits();
    tree_remove(root);
    return check_result();
}

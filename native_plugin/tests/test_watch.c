/* What the plugin says: failures on stderr, the log, the summary and the trace: test_watch LIBRARY.
 */
#include "check.h"
#include "host.h"
#include "tree.h"

#include <fcntl.h>
#include <unistd.h>

static char root[256];
static const char *library;

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
    (void)unsetenv("RCCLTUNE_TRACE");
    (void)unsetenv("RCCLTUNE_ON_ERROR");
    (void)unsetenv("RCCLTUNE_SCHEDULE");
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
    CHECK(strstr(read_file("err.txt"), "inert: /proc/nonexistent") != NULL);
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
    CHECK(strstr(
              text,
              "decision collective=allreduce nbytes=100 answer=tree/ll/16 line=5 host=tree/ll\n") !=
          NULL);
    CHECK(strstr(text,
                 "decision collective=broadcast nbytes=100 answer=none line=0 host=tree/ll\n") !=
          NULL);
    CHECK(strstr(text, "comm=local") != NULL);
}

static void check_trace(void)
{
    clear();
    set_path("RCCLTUNE_TRACE", "", "trace-%p.csv");
    char name[64];
    (void)snprintf(name, sizeof name, "trace-%ld.csv", (long)getpid());
    CHECK(run(6, 8) == ABI_SUCCESS);
    const char *text = read_file(name);
    CHECK(strncmp(text, "#@ format 1\ncomm,abi,", 21) == 0);
    CHECK(strstr(text, "\n0000000000abcdef,6,1,8,0,rules,allreduce,100,2,0,tree/ll tree/ll128 ") !=
          NULL);
    CHECK(strstr(text, ",1.000 2.000 3.000 ") != NULL &&
          strstr(text, ",tree/ll,tree/ll/16,5\n") != NULL);
    CHECK(strstr(text, "allreduce,300,2,1,") != NULL);
    CHECK(strstr(text, "broadcast,100,1,0,") != NULL && strstr(text, ",none,0\n") != NULL);
    CHECK(run(2, 8) == ABI_SUCCESS);
    CHECK(strstr(read_file(name),
                 "rules,allreduce,100,2,0,tree/ll ring/ll ring/simple,,-,tree/ll/16,5\n") != NULL);
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE"); /* inert, and still traced */
    CHECK(run(6, 8) == ABI_SUCCESS);
    CHECK(strstr(read_file(name), ",0,silent,allreduce,100,2,0,") != NULL);
    (void)setenv("RCCLTUNE_TRACE", "/proc/nonexistent/trace.csv", 1);
    CHECK(run(6, 8) == ABI_INVALID_USAGE);
    CHECK(strstr(read_file("err.txt"), "RCCLTUNE_TRACE") != NULL);
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    CHECK(run(6, 8) == ABI_SUCCESS);
    clear();
}

/* Of the calls of run(), the last one begins the second step. */
static void check_schedule_is_traced(void)
{
    static const char line[] = "0000000000abcdef,5,1,8,";
    char wanted[600];
    clear();
    CHECK(tree_put(root, "schedule",
                   "#@ format 1\n#@ nodes=1 ranks=8 calls=0\nring/simple/16\nsilent\ntree/ll\n"));
    set_path("RCCLTUNE_SCHEDULE", "", "schedule");
    set_path("RCCLTUNE_TRACE", "", "trace-%c-%n.csv");
    set_path("RCCLTUNE_LOG", "decisions:", "log.txt");
    CHECK(run(5, 8) == ABI_SUCCESS);
    char name[64];
    const char *text = "";
    for (int i = 0; i < 100 && text[0] == '\0'; i++) { /* contexts are counted since the start */
        (void)snprintf(name, sizeof name, "trace-0000000000abcdef-%d.csv", i);
        text = read_file(name);
    }
    text = strstr(text, "#@ begin");
    CHECK(text != NULL);
    if (text == NULL) {
        return;
    }
    CHECK(strstr(text, " step=0 of=3 setting=ring/simple/16\n") != NULL);
    const char *second = strstr(text, "#@ begin comm=0000000000abcdef context=");
    second = strstr(second + 1, "#@ begin");
    CHECK(second != NULL && strstr(second, " step=1 of=3 setting=silent\n") != NULL);
    (void)snprintf(wanted, sizeof wanted, "\n%s0,ring/simple/16,allreduce,100,2,0,", line);
    CHECK(strstr(text, wanted) != NULL && strstr(text, ",tree/ll,ring/simple/16,3\n") != NULL);
    (void)snprintf(wanted, sizeof wanted, "\n%s0,ring/simple/16,allreduce,400,1,0,", line);
    CHECK(strstr(text, wanted) != NULL && strstr(text, ",tree/ll,none,0\n") != NULL);
    (void)snprintf(wanted, sizeof wanted, "\n%s1,silent,broadcast,100,1,0,", line);
    CHECK(strstr(text, wanted) > second);
    CHECK(strstr(text, " begun=2 of=3 overrun-calls=0\n") != NULL);
    text = read_file("log.txt");
    CHECK(strstr(text, " steps=3 calls=0 sha256=") != NULL &&
          strstr(text, " rules=not-read (NCCL_TUNER_CONFIG_FILE is set, and ") != NULL);
    CHECK(strstr(text, "step=1 of=3 setting=silent\n") != NULL);
    CHECK(strstr(text, "decision collective=allreduce nbytes=100 answer=ring/simple/16 line=3") !=
          NULL);
    CHECK(strstr(text, "summary calls=6 hits=3 misses=1 not-selectable=2 fallbacks=0\n") != NULL);
    CHECK(strstr(text, "schedule begun=2 of=3 overrun-calls=0\n") != NULL);
}

/* The trace names the rule that answered and that the step was one of rules; the log counts it. */
static void check_rules_steps_are_traced(void)
{
    clear();
    CHECK(tree_put(root, "schedule",
                   "#@ format 1\n#@ nodes=1 ranks=8 calls=2\nsilent\nrules\nring/ll\n"));
    set_path("RCCLTUNE_SCHEDULE", "", "schedule");
    set_path("RCCLTUNE_TRACE", "", "trace-%c.csv");
    set_path("RCCLTUNE_LOG", "summary:", "log.txt");
    CHECK(run(6, 8) == ABI_SUCCESS);
    const char *text = read_file("trace-0000000000abcdef.csv");
    CHECK(strstr(text, " step=1 of=3 setting=rules\n") != NULL);
    CHECK(strstr(text, ",0,silent,allreduce,100,2,0,") != NULL);
    CHECK(strstr(text, ",1,rules,allreduce,300,2,1,") != NULL);
    CHECK(strstr(text, ",tree/ll,ring/simple,3\n") != NULL);
    CHECK(strstr(text, ",2,ring/ll,allreduce,400,1,0,") != NULL);
    text = read_file("log.txt");
    CHECK(strstr(text, " steps=3 calls=2 sha256=") != NULL &&
          strstr(text, " rules=4 of=4 skipped-rows=1 file=") != NULL &&
          strstr(text, "rules=not-read") == NULL);
    CHECK(strstr(text, "rule line=4 setting=tree/ll channels=-1 hits=1\n") != NULL);
}

static void check_schedules_beside_the_usual(void)
{
    clear();
    CHECK(tree_put(root, "schedule", "#@ format 1\n#@ nodes=1 ranks=8 calls=1\nsilent\n"));
    set_path("RCCLTUNE_SCHEDULE", "", "schedule");
    set_path("RCCLTUNE_TRACE", "", "trace-%c.csv");
    CHECK(run(6, 8) == ABI_SUCCESS); /* over after the first call */
    const char *text = read_file("trace-0000000000abcdef.csv");
    CHECK(strstr(text, " step=1 of=1 setting=overrun\n") != NULL);
    CHECK(strstr(text, ",1,overrun,allreduce,300,2,1,") != NULL);
    CHECK(strstr(text, " begun=2 of=1 overrun-calls=5\n") != NULL);
    CHECK(run(6, 16) == ABI_SUCCESS); /* another scale: inert, traced as ever */
    text = read_file("trace-0000000000abcdef.csv");
    CHECK(strstr(text, "#@ begin") == NULL && strstr(text, "#@ end") == NULL);
    CHECK(strstr(text, ",0,silent,allreduce,100,2,0,") != NULL);
    (void)unsetenv("RCCLTUNE_TRACE");
    (void)setenv("RCCLTUNE_LOG", "summary", 1);
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    (void)setenv("RCCLTUNE_CONFIG_DIR", "/proc/nonexistent", 1);
    CHECK(run(6, 8) == ABI_SUCCESS);
    CHECK(strstr(read_file("err.txt"), "(RCCLTUNE_CONFIG_DIR is set") != NULL);
    CHECK(run(6, 16) == ABI_SUCCESS);
    CHECK(strstr(read_file("err.txt"), "is for 8 ranks on 1 nodes, and no rule file is read") !=
          NULL);
    CHECK(tree_put(root, "schedule", "#@ format 1\n#@ nodes=1 ranks=8\nsilent\nbush/ll\n"));
    CHECK(run(6, 8) == ABI_INVALID_USAGE);
    CHECK(strstr(read_file("err.txt"), "schedule: refused, line 4: 'bush/ll' is no setting") !=
          NULL);
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    CHECK(run(6, 8) == ABI_SUCCESS);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
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
    check_trace();
    check_schedule_is_traced();
    check_rules_steps_are_traced();
    check_schedules_beside_the_usual();
    tree_remove(root);
    return check_result();
}

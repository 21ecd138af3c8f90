/* Whatever is written can fail, wait or be a trap; the job goes on, and one line says what is
 * missing: test_traps LIBRARY.  Every case runs in a process of its own, with signals as a job has
 * them, and is killed where it hangs. */
#include "check.h"
#include "host.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 60, SAID_SIZE = 1 << 16, LIMIT = 800, BODY_FAILED = 90 };

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0"; /* it sleeps at the end of every process */
}

static char root[256];
static char path[600]; /* of what is written */
static const char *library;
static char said[SAID_SIZE]; /* on stderr, by the last process */

/* What a plugin writes: the variable, what stands before the name, and what init answers where the
 * name is a trap. */
static const struct output {
    const char *variable;
    const char *prefix;
    int refusal;
    const char *complaint;
} outputs[] = {
    {"RCCLTUNE_RECORD", "", ABI_INVALID_USAGE, "RCCLTUNE_RECORD: "},
    {"RCCLTUNE_LOG", "decisions:", ABI_SUCCESS, "R18 log-failed: "},
};
enum { THE_LOG = 1, N_OUTPUTS = sizeof outputs / sizeof outputs[0] };

static void use(const struct output *output, const char *name)
{
    char value[700];
    for (size_t i = 0; i < N_OUTPUTS; i++) {
        (void)unsetenv(outputs[i].variable);
    }
    (void)unsetenv("RCCLTUNE_ON_ERROR");
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    (void)snprintf(value, sizeof value, "%s%s", output->prefix, path);
    (void)setenv(output->variable, value, 1);
}

/* A communicator's life; what init answers.  Many sizes, so that much is written. */
static int live(void)
{
    struct host host;
    if (!host_load(&host, library, 6)) {
        return BODY_FAILED;
    }
    int result = host_init(&host, 8, 1);
    for (size_t n_bytes = 1; result == ABI_SUCCESS && n_bytes <= 100; n_bytes++) {
        float table[21] = {1.0F, 2.0F, 3.0F};
        struct host_call call = {4, n_bytes * 1024, 1, 0, table, 7, 3, 0};
        result = host_ask(&host, &call);
    }
    if (result == ABI_SUCCESS) {
        result = host_finalize(&host);
    }
    return result;
}

/* Runs `body` with `descriptor` as stderr; how the process ended. */
static int run_with(int descriptor, int (*body)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE_S);
        (void)dup2(descriptor, STDERR_FILENO);
        exit(body());
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* The same with a file as stderr, which is read into `said`. */
static int run(int (*body)(void))
{
    char name[600];
    (void)snprintf(name, sizeof name, "%s/stderr", root);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    int status = run_with(file, body);
    ssize_t got = pread(file, said, sizeof said - 1, 0);
    said[got > 0 ? got : 0] = '\0';
    (void)close(file);
    return status;
}

static bool ended(int status, int code)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == code) {
        return true;
    }
    (void)fprintf(stderr, "status %#x instead of exit %d; it said: %s\n", (unsigned)status, code,
                  said);
    return false;
}

static size_t count(const char *words)
{
    size_t n = 0;
    for (const char *at = said; (at = strstr(at, words)) != NULL; at++) {
        n++;
    }
    return n;
}

static void check_content(const char *name, const char *wanted)
{
    char full[600];
    char content[64] = "";
    (void)snprintf(full, sizeof full, "%s/%s", root, name);
    FILE *file = fopen(full, "r");
    CHECK(file != NULL);
    if (file != NULL) {
        content[fread(content, 1, sizeof content - 1, file)] = '\0';
        (void)fclose(file);
    }
    CHECK_STRING(content, wanted);
}

static void make_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char folder[256];
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    /* By its name alone: the folder's may be longer than an address. */
    CHECK(getcwd(folder, sizeof folder) != NULL && chdir(root) == 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    CHECK(bind(made, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(chdir(folder) == 0);
    (void)close(made);
}

/* Names that lead elsewhere, each for each of what is written. */
static void check_names_that_are_traps(void)
{
    static const char *const names[] = {"pipe",   "read-pipe", "link",   "dangling",
                                        "folder", "theirs",    "device", "socket"};
    char full[600];
    CHECK(tree_put(root, "victim", "rccltune: precious\n"));
    CHECK(tree_put(root, "theirs", "precious\n"));
    CHECK(tree_put(root, "folder/file", ""));
    (void)snprintf(full, sizeof full, "%s/pipe", root);
    CHECK(mkfifo(full, 0600) == 0);
    (void)snprintf(full, sizeof full, "%s/read-pipe", root);
    CHECK(mkfifo(full, 0600) == 0);
    int reader = open(full, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(reader >= 0);
    (void)snprintf(full, sizeof full, "%s/link", root);
    CHECK(symlink("victim", full) == 0);
    (void)snprintf(full, sizeof full, "%s/dangling", root);
    CHECK(symlink("nothing", full) == 0);
    (void)snprintf(full, sizeof full, "%s/device", root);
    CHECK(symlink("/dev/full", full) == 0);
    make_socket("socket");
    for (size_t i = 0; i < N_OUTPUTS; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            use(&outputs[i], names[k]);
            CHECK(ended(run(live), outputs[i].refusal));
            CHECK(count(outputs[i].complaint) == 1);
            (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
            CHECK(ended(run(live), ABI_SUCCESS));
            CHECK(count(outputs[i].complaint) == 1 && count("rccltune: error: ") == 1);
        }
    }
    use(&outputs[THE_LOG], "pipe"); /* two that are missing are two lines */
    (void)setenv("RCCLTUNE_RECORD", path, 1);
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    CHECK(ended(run(live), ABI_SUCCESS));
    CHECK(count("rccltune: error: ") == 2 && count("RCCLTUNE_RECORD: ") == 1);
    check_content("victim", "rccltune: precious\n");
    check_content("theirs", "precious\n");
    (void)snprintf(full, sizeof full, "%s/nothing", root);
    CHECK(access(full, F_OK) != 0);
    (void)close(reader);
}

static int live_with_small_files(void)
{
    struct rlimit before;
    if (getrlimit(RLIMIT_FSIZE, &before) != 0) {
        return BODY_FAILED;
    }
    struct rlimit limit = {LIMIT, before.rlim_max};
    int result = setrlimit(RLIMIT_FSIZE, &limit) == 0 ? live() : BODY_FAILED;
    (void)setrlimit(RLIMIT_FSIZE, &before); /* what counts coverage writes at the end */
    return result;
}

/* `ulimit -f`: a write beyond raises SIGXFSZ, which ends a process that does not expect it. */
static void check_limits_of_files(void)
{
    int ends[2];
    for (size_t i = 0; i < N_OUTPUTS; i++) {
        CHECK(pipe(ends) == 0);
        use(&outputs[i], "limited");
        int status = run_with(ends[1], live_with_small_files);
        (void)close(ends[1]);
        size_t used = 0;
        for (ssize_t got = 1; got > 0 && used<sizeof said - 1; used += got> 0 ? (size_t)got : 0) {
            got = read(ends[0], said + used, sizeof said - 1 - used);
        }
        said[used] = '\0';
        (void)close(ends[0]);
        CHECK(ended(status, ABI_SUCCESS));
        CHECK(count("could not be written") == 1 && count("rccltune: error: ") == 1);
        CHECK(count("(ulimit -f)") == 1);
        CHECK(remove(path) == 0);
    }
    use(&outputs[THE_LOG], "unused"); /* stderr is a file that may not grow */
    (void)setenv("RCCLTUNE_LOG", "decisions", 1);
    CHECK(ended(run(live_with_small_files), ABI_SUCCESS));
    CHECK(strlen(said) <= LIMIT);
}

static int live_twice(void)
{
    int first = live();
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent", 1);
    int second = live();
    return first == ABI_SUCCESS && second == ABI_INVALID_USAGE ? 0 : BODY_FAILED;
}

/* A job that blocks SIGPIPE and waits for its own later: ours must not be taken for it, nor its
 * own be taken away. */
static int live_with_signals_of_its_own(void)
{
    sigset_t own;
    sigset_t before;
    sigset_t after;
    sigset_t pending;
    (void)sigemptyset(&own);
    (void)sigaddset(&own, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &own, &before);
    (void)raise(SIGPIPE);
    int result = live_twice();
    (void)sigpending(&pending);
    (void)sigprocmask(SIG_BLOCK, NULL, &after);
    return result == 0 && sigismember(&pending, SIGPIPE) == 1 &&
                   sigismember(&pending, SIGXFSZ) == 0 && sigismember(&after, SIGPIPE) == 1 &&
                   sigismember(&after, SIGXFSZ) == 0
               ? 0
               : BODY_FAILED;
}

static void fill(int descriptor)
{
    static const char zeros[4096];
    int flags = fcntl(descriptor, F_GETFL);
    CHECK(fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0);
    while (write(descriptor, zeros, sizeof zeros) > 0 || errno != EAGAIN) {
    }
    CHECK(fcntl(descriptor, F_SETFL, flags) == 0);
}

/* Of stderr nothing can be told anywhere: the job goes on, and its descriptor is as it was. */
static void check_stderr(void)
{
    int ends[2];
    use(&outputs[THE_LOG], "unused");
    (void)setenv("RCCLTUNE_LOG", "decisions", 1);
    said[0] = '\0';
    for (int kind = 0; kind < 2; kind++) { /* a pipe, a socket; nobody reads on */
        CHECK((kind == 0 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
        fill(ends[1]);
        int flags = fcntl(ends[1], F_GETFL);
        CHECK(ended(run_with(ends[1], live_twice), 0));
        CHECK(fcntl(ends[1], F_GETFL) == flags);
        (void)close(ends[0]); /* now nobody can */
        CHECK(ended(run_with(ends[1], live_twice), 0));
        CHECK(ended(run_with(ends[1], live_with_signals_of_its_own), 0));
        (void)close(ends[1]);
    }
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(ended(run_with(full, live_twice), 0));
    (void)close(full);
    int odd = timerfd_create(CLOCK_MONOTONIC, 0); /* neither opened again nor ready to take */
    CHECK(ended(run_with(odd, live_twice), 0));
    (void)close(odd);
    int socket_read[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_read) == 0);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent", 1);
    CHECK(ended(run_with(socket_read[1], live), ABI_INVALID_USAGE));
    ssize_t got = recv(socket_read[0], said, sizeof said - 1, MSG_DONTWAIT);
    said[got > 0 ? got : 0] = '\0';
    CHECK(count("rccltune: error: nodes=1 ranks=8: ") == 1);
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
}

static int live_without_stderr(void)
{
    return close(STDERR_FILENO) == 0 ? live_twice() : BODY_FAILED;
}

/* What a file may say is data for a terminal: no escape of it is passed on. */
static void check_escapes(void)
{
    use(&outputs[THE_LOG], "unused");
    (void)unsetenv("RCCLTUNE_LOG");
    CHECK(tree_put(root, "rules.csv", "allreduce,0,9,ri\rng,ll,-1,-1,-1\n"));
    char name[600];
    (void)snprintf(name, sizeof name, "%s/rules.csv", root);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", name, 1);
    CHECK(ended(run(live), ABI_INVALID_USAGE));
    CHECK(count("unknown algorithm 'ri?ng'") == 1 && count("\r") == 0);
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    library = argv[1];
    tree_make(root, sizeof root);
    check_names_that_are_traps();
    check_limits_of_files();
    check_stderr();
    said[0] = '\0';
    CHECK(ended(run_with(STDERR_FILENO, live_without_stderr), 0));
    check_escapes();
    tree_remove(root);
    return check_result();
}

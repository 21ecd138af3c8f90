/* Plans that are read, and what is said of those that are not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "plan.h"
#include "rccltune_answer.h"

static char path[] = "/tmp/rccltune-plan-XXXXXX";

static void put(const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static struct plan read_plan(const char *text)
{
    struct plan plan;
    put(text);
    plan_read(path, &plan);
    return plan;
}

static void check_a_plan(void)
{
    struct plan plan = read_plan("# made by hand\nplan 1\n\ncommunicator\nanswer ring/ll128/16\n"
                                 "check all_reduce fp8_e4m3 mulsum in 4096 -\n"
                                 "call broadcast float sum out 65536 3\n"
                                 "measure all_gather bfloat16 sum out 1048576 loop 2000 20 3e5\n"
                                 "answer nothing\nanswer rules\n"
                                 "measure all_reduce float sum in 1024 graph 2000 20 0\n");
    const struct step *s = plan.steps;
    CHECK(plan.n_steps == 8 && plan.answers && plan.most_bytes == 1048576);
    CHECK(s[0].kind == STEP_COMMUNICATOR && s[0].line == 4);
    CHECK(s[1].kind == STEP_ANSWER && s[1].answer.kind == RCCLTUNE_ANSWER_SETTING);
    CHECK(s[1].answer.algorithm == 1 && s[1].answer.protocol == 1 && s[1].answer.channels == 16);
    CHECK(s[2].kind == STEP_CHECK && s[2].type == FP8_E4M3 && s[2].op == MULSUM && s[2].in_place);
    CHECK(s[2].root == ANY_ROOT && s[2].n_bytes == 4096);
    CHECK(s[3].kind == STEP_CALL && s[3].collective == BROADCAST && s[3].root == 3);
    CHECK(s[4].kind == STEP_MEASURE && !s[4].graph && s[4].type == BFLOAT16 && !s[4].in_place);
    CHECK(s[4].least_us == 2000 && s[4].least_calls == 20 && s[4].most_us == 300000);
    CHECK(s[5].answer.kind == RCCLTUNE_ANSWER_NOTHING && s[6].answer.kind == RCCLTUNE_ANSWER_RULES);
    CHECK(s[7].graph && s[7].line == 11);
    free(plan.steps);
}

/* A plan that is refused ends the program with 2, and with words that name line and mistake. */
static void check_refused(const char *text, const char *line, const char *mistake)
{
    int pipes[2], status = 0;
    char said[1024] = "";
    put(text);
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct plan plan;
        dup2(pipes[1], 2);
        plan_read(path, &plan);
        _exit(0);
    }
    close(pipes[1]);
    ssize_t n = read(pipes[0], said, sizeof said - 1);
    close(pipes[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == EXIT_USAGE && n > 0);
    CHECK(strstr(said, line) != NULL);
    CHECK(strstr(said, mistake) != NULL);
}

#define HEAD  "plan 1\ncommunicator\n"
#define GRAPH "measure all_reduce float sum out 1024 graph 2000 20 0\n"
#define LOOP  "measure all_reduce float sum out 1024 loop 2000 20 0\n"

int main(void)
{
    int file = mkstemp(path);
    CHECK(file >= 0 && close(file) == 0);
    check_a_plan();
    check_refused("plan 2\n", "line 1:", "begins with 'plan 1'");
    check_refused("plan 1\n" LOOP, "line 2:", "no communicator yet");
    check_refused(HEAD "communicator now\n", "line 3:", "nothing follows");
    check_refused(HEAD "dance\n", "line 3:", "no step of this program: dance");
    check_refused(HEAD "answer ring\n", "line 3:", "ring/ll128/16");
    check_refused(HEAD "answer ring/ll128/0\n", "line 3:", "ring/ll128/16");
    check_refused(HEAD "answer ring/fast\n", "line 3:", "ring/ll128/16");
    check_refused(HEAD "check all_reduce float sum out 4096\n", "line 3:", "six words");
    check_refused(HEAD "check all_reduce float sum up 4096 -\n", "line 3:", "out or in");
    check_refused(HEAD "check all_reduce real sum out 4096 -\n", "line 3:", "no type");
    check_refused(HEAD "check all_reduce float sums out 4096 -\n", "line 3:", "no operation");
    check_refused(HEAD "check all_reduces float sum out 4096 -\n", "line 3:", "no collective");
    check_refused(HEAD "check all_reduce float sum out 4K -\n", "line 3:", "number of bytes");
    check_refused(HEAD "check all_reduce float sum out 0 -\n", "line 3:", "number of bytes");
    check_refused(HEAD "check alltoall float sum in 4096 -\n", "line 3:", "out of place");
    check_refused(HEAD "check all_reduce float sum out 4096 x\n", "line 3:", "the root");
    check_refused(HEAD "measure all_reduce float sum out 1024 loop 2000 20\n", "line 3:", "nine");
    check_refused(HEAD "measure all_reduce float sum out 1024 sand 2000 20 0\n",
                  "line 3:", "loop, graph or one-root");
    check_refused(HEAD GRAPH LOOP, "line 4:", "come before its first graph");
    check_refused(HEAD "communicator", "line 3:", "cut");
    struct plan plan = read_plan(HEAD GRAPH "communicator\n" LOOP); /* a new one begins anew */
    CHECK(plan.n_steps == 4 && !plan.answers);
    free(plan.steps);
    unlink(path);
    return check_result();
}

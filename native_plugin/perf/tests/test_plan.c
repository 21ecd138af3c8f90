/* Plans that are read, and what is said of those that are not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "plan.h"
#include "rccltune_answer.h"

/* Reads lines as they come; how many steps they are. */
static int read_steps(const char *text, struct step *steps)
{
    char line[MAX_STEP];
    int n = 0;
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        n += step_read(line, number, &steps[n]);
        text += length + (text[length] == '\n');
    }
    return n;
}

static void check_steps(void)
{
    struct step s[16];
    CHECK(read_steps("# made by hand\nplan 2 1048576\n\ncommunicator first\nanswer ring/ll128/16\n"
                     "check all_reduce fp8_e4m3 mulsum in 4096 -\n"
                     "call broadcast float sum out 65536 3\n"
                     "measure all_gather bfloat16 sum out 1048576 loop 2000 20 3e5\n"
                     "answer nothing\nanswer rules\n"
                     "measure all_reduce float sum in 1024 graph 2000 20 0\n"
                     "measure all_reduce float sum in 1024 registered 2000 20 0\n"
                     "communicator\nmeasure all_reduce float sum out 1024 loop 2000 20 0\n"
                     "order reduce_scatter bfloat16 sum in 4096 graph\nend\n",
                     s) == 14);
    CHECK(s[0].kind == STEP_PLAN && s[0].n_bytes == 1048576);
    CHECK(s[1].kind == STEP_COMMUNICATOR && s[1].line == 4);
    CHECK(s[2].kind == STEP_ANSWER && s[2].answer.kind == RCCLTUNE_ANSWER_SETTING);
    CHECK(s[2].answer.algorithm == 1 && s[2].answer.protocol == 1 && s[2].answer.channels == 16);
    CHECK(s[3].kind == STEP_CHECK && s[3].type == FP8_E4M3 && s[3].op == MULSUM && s[3].in_place);
    CHECK(s[3].root == ANY_ROOT && s[3].n_bytes == 4096);
    CHECK(s[4].kind == STEP_CALL && s[4].collective == BROADCAST && s[4].root == 3);
    CHECK(s[5].kind == STEP_MEASURE && !s[5].graph && s[5].type == BFLOAT16 && !s[5].in_place);
    CHECK(s[5].least_us == 2000 && s[5].least_calls == 20 && s[5].most_us == 300000);
    CHECK(s[6].answer.kind == RCCLTUNE_ANSWER_NOTHING && s[7].answer.kind == RCCLTUNE_ANSWER_RULES);
    CHECK(s[8].graph && !s[8].registered && s[8].line == 11);
    CHECK(s[9].graph && s[9].registered);
    CHECK(!s[11].graph && s[11].kind == STEP_MEASURE); /* a new communicator begins anew */
    CHECK(s[12].kind == STEP_ORDER && s[12].graph && s[12].in_place && s[12].n_bytes == 4096);
    CHECK(s[13].kind == STEP_END);
}

/* A line that is refused ends the program with 2, and with words that name line and mistake. */
static void check_refused(const char *text, const char *line, const char *mistake)
{
    int pipes[2], status = 0;
    char said[1024] = "";
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct step steps[16];
        dup2(pipes[1], 2);
        read_steps(text, steps);
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

#define HEAD       "plan 2 4096\ncommunicator\n"
#define GRAPH      "measure all_reduce float sum out 1024 graph 2000 20 0\n"
#define REGISTERED "measure all_reduce float sum out 1024 registered 2000 20 0\n"
#define LOOP       "measure all_reduce float sum out 1024 loop 2000 20 0\n"

int main(void)
{
    check_refused("plan 1\n", "line 1 ", "'plan 2' and the bytes");
    check_refused("plan 2 0\n", "line 1 ", "'plan 2' and the bytes");
    check_refused("communicator\n", "line 1 ", "'plan 2' comes first");
    check_refused(HEAD "plan 2 4096\n", "line 3 ", "and once");
    check_refused("plan 2 4096\n" LOOP, "line 2 ", "no communicator yet");
    check_refused(HEAD "communicator one two\n", "line 3 ", "at most what it is for");
    check_refused(HEAD "check all_reduce float sum out 8192 -\n", "line 3 ", "larger than");
    check_refused(HEAD "dance\n", "line 3 ", "dance: no step of this program");
    check_refused(HEAD "answer ring\n", "line 3 ", "ring/ll128/16");
    check_refused(HEAD "answer ring/ll128/0\n", "line 3 ", "ring/ll128/16");
    check_refused(HEAD "answer ring/fast\n", "line 3 ", "ring/ll128/16");
    check_refused(HEAD "check all_reduce float sum out 4096\n", "line 3 ", "six words");
    check_refused(HEAD "check all_reduce float sum up 4096 -\n", "line 3 ", "out or in");
    check_refused(HEAD "check all_reduce real sum out 4096 -\n", "line 3 ", "no type");
    check_refused(HEAD "check all_reduce float sums out 4096 -\n", "line 3 ", "no operation");
    check_refused(HEAD "check all_reduces float sum out 4096 -\n", "line 3 ", "no collective");
    check_refused(HEAD "check all_reduce float sum out 4K -\n", "line 3 ", "number of bytes");
    check_refused(HEAD "check all_reduce float sum out 0 -\n", "line 3 ", "number of bytes");
    check_refused(HEAD "check alltoall float sum in 4096 -\n", "line 3 ", "out of place");
    check_refused(HEAD "check all_reduce float sum out 4096 x\n", "line 3 ", "the root");
    check_refused(HEAD "measure all_reduce float sum out 1024 loop 2000 20\n", "line 3 ", "nine");
    check_refused(HEAD "measure all_reduce float sum out 1024 sand 2000 20 0\n", "line 3 ",
                  "loop, graph, one-root or registered");
    check_refused(HEAD "order all_reduce float sum out 1024 one-root\n", "line 3 ",
                  "loop or graph");
    check_refused(HEAD GRAPH LOOP, "line 4 ", "come before its first graph");
    check_refused(HEAD GRAPH REGISTERED GRAPH, "line 5 ", "comes last in a communicator");
    check_steps();
    return check_result();
}

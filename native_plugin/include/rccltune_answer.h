/*
 * For a rank program that measures: what the plugin answers, said by the program itself, and what
 * the host asked.
 *
 * The program finds these functions in the library that its host has loaded already (dlopen of the
 * same file, dlsym).  Communicators that are made after the first rccltune_answer_v1() belong to
 * the program; those made before, and all of a process that never calls it, know nothing of it.
 * One thread at a time: the one that calls, makes communicators and issues collectives.  Names and
 * meanings stay as they are; others would get another number.
 */
#ifndef RCCLTUNE_ANSWER_H
#define RCCLTUNE_ANSWER_H

#include <stdint.h>

enum rccltune_answer_kind {
    RCCLTUNE_ANSWER_NOTHING, /* the host chooses, as it would without a tuner */
    RCCLTUNE_ANSWER_RULES, /* the rule file of the environment, read when a communicator is made */
    RCCLTUNE_ANSWER_SETTING, /* one setting for every call, wherever the host lets it be chosen */
};

struct rccltune_answer {
    int32_t kind;
    int32_t algorithm, protocol; /* numbers of the tuner interface; read with SETTING alone */
    int32_t channels;            /* >= 1, or 0 for the host's default */
};

/* Questions since rccltune_asked_v1() last forgot them, of every communicator that belongs to the
 * program.  One a call counts: one without a cell that can be chosen does not, nor does one that
 * repeats it (NCCL 2.31 asks both before the question that decides).  Numbers are of the last. */
struct rccltune_asked {
    uint64_t n_calls;    /* questions */
    uint64_t n_answered; /* those that got an answer */
    uint64_t n_bytes;    /* as the host counts them */
    uint64_t selectable; /* bit a * n_protocols + p: the host lets this cell be chosen */
    int32_t collective;
    int32_t n_algorithms, n_protocols;         /* of the host's table; 0 where it shows none (v2) */
    int32_t host_algorithm, host_protocol;     /* the host's own choice; -1 where it shows none */
    int32_t answer_algorithm, answer_protocol; /* -1: nothing was answered, or channels alone */
    int32_t answer_channels;                   /* 0: left to the host */
    int32_t registered; /* as the host says it; 0 before version 4, which cannot */
    int32_t differing;  /* questions that differed from the one before in any of the above */
};

/* Says what is answered from now on.  0, or -1 where `answer` is not understood; then nothing has
 * changed. */
int rccltune_answer_v1(const struct rccltune_answer *answer);

/* Copies what was asked, and forgets it where `forget` is not 0. */
void rccltune_asked_v1(struct rccltune_asked *asked, int forget);

/* Every question so far, those that do not count among them, and those that do. */
void rccltune_questions_v1(uint64_t *all, uint64_t *counted);

/* Nanoseconds that a question takes here with the rules of the newest communicator that belongs to
 * the program, answered as in a job that logs and records nothing: the mean over the collectives of
 * a rule file at every power of two from 1 KiB to 64 MiB.  Below 0 where it has no rules. */
double rccltune_cost_v1(void);

#endif

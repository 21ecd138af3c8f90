#include "answer.h"

#include "names.h"

static bool told;
static enum rccltune_answer_kind kind;
static struct candidate setting;
static struct rccltune_asked seen;
static uint64_t n_questions;
static uint64_t n_counted;

bool answer_is_told(void)
{
    return told;
}

enum rccltune_answer_kind answer_kind(void)
{
    return kind;
}

const struct candidate *answer_setting(void)
{
    return &setting;
}

bool answer_tell(const struct rccltune_answer *answer)
{
    if (answer->kind == RCCLTUNE_ANSWER_SETTING) {
        bool known = answer->algorithm >= 0 && answer->algorithm < N_KNOWN_ALGORITHMS &&
                     answer->protocol >= 0 && answer->protocol < N_KNOWN_PROTOCOLS &&
                     answer->channels >= 0;
        if (!known) {
            return false;
        }
        setting = (struct candidate){.n_pipe_ops = -1,
                                     .reg_buff = -1,
                                     .channels = answer->channels,
                                     .algorithm = (int8_t)answer->algorithm,
                                     .protocol = (int8_t)answer->protocol};
    } else if (answer->kind != RCCLTUNE_ANSWER_NOTHING && answer->kind != RCCLTUNE_ANSWER_RULES) {
        return false;
    }
    kind = (enum rccltune_answer_kind)answer->kind;
    told = true;
    return true;
}

/* The host's cells: which can be chosen, and which it would choose. */
static void read_cells(const struct plugin_call *call, struct rccltune_asked *asked)
{
    int n_cells = call->n_algorithms * call->n_protocols;
    int best = plugin_host_cell(call);
    asked->n_algorithms = call->n_algorithms;
    asked->n_protocols = call->n_protocols;
    for (int i = 0; i < n_cells && i < 64; i++) {
        asked->selectable |= call->cells[i] >= 0.0F ? UINT64_C(1) << i : 0;
    }
    if (best >= 0) {
        asked->host_algorithm = best / call->n_protocols;
        asked->host_protocol = best % call->n_protocols;
    }
}

static bool is_same(const struct rccltune_asked *a, const struct rccltune_asked *b)
{
    return a->collective == b->collective && a->n_bytes == b->n_bytes &&
           a->selectable == b->selectable && a->host_algorithm == b->host_algorithm &&
           a->host_protocol == b->host_protocol && a->answer_algorithm == b->answer_algorithm &&
           a->answer_protocol == b->answer_protocol && a->answer_channels == b->answer_channels &&
           a->registered == b->registered;
}

void answer_note(const struct plugin_call *call, const struct candidate *chosen, bool shows_table,
                 bool counts)
{
    n_questions++;
    if (!counts) {
        return;
    }
    n_counted++;
    struct rccltune_asked now = {
        .n_calls = seen.n_calls + 1,
        .n_answered = seen.n_answered + (chosen != NULL ? 1 : 0),
        .n_bytes = call->n_bytes,
        .collective = call->collective,
        .host_algorithm = -1,
        .host_protocol = -1,
        .answer_algorithm = chosen != NULL ? chosen->algorithm : -1,
        .answer_protocol = chosen != NULL ? chosen->protocol : -1,
        .answer_channels = chosen != NULL && chosen->channels >= 1 ? chosen->channels : 0,
        .registered = call->reg_buff,
    };
    if (shows_table && call->cells != NULL && call->n_algorithms > 0 && call->n_protocols > 0) {
        read_cells(call, &now);
    }
    now.differing = seen.differing + (seen.n_calls > 0 && !is_same(&now, &seen) ? 1 : 0);
    seen = now;
}

void answer_read(struct rccltune_asked *asked, bool forget)
{
    *asked = seen;
    if (forget) {
        seen = (struct rccltune_asked){.n_calls = 0};
    }
}

void answer_questions(uint64_t *all, uint64_t *counted)
{
    *all = n_questions;
    *counted = n_counted;
}

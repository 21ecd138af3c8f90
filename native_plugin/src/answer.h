/*
 * The answer that a rank program gives to the plugin, and what the plugin was asked
 * (rccltune_answer.h).
 *
 * One for the process.  Not locked: the program calls from the thread that issues collectives, and
 * a host asks from there.
 */
#ifndef RCCLTUNE_SRC_ANSWER_H
#define RCCLTUNE_SRC_ANSWER_H

#include "plugin.h"
#include "rccltune_answer.h"

/* Whether the program has ever said one: contexts made from then on ask here. */
bool answer_is_told(void);

/* The kind in force, and its setting where it is RCCLTUNE_ANSWER_SETTING. */
enum rccltune_answer_kind answer_kind(void);
const struct candidate *answer_setting(void);

/* Takes an answer; false where it is not understood, and then nothing has changed. */
bool answer_tell(const struct rccltune_answer *answer);

/* Notes a question and what it got.  `shows_table`: the cells are the host's own.  One that does
 * not count is counted among all, and that is all. */
void answer_note(const struct plugin_call *call, const struct candidate *chosen, bool shows_table,
                 bool counts);

/* Copies what was asked, and forgets it where that is wanted. */
void answer_read(struct rccltune_asked *asked, bool forget);

/* Every question so far, and those that count. */
void answer_questions(uint64_t *all, uint64_t *counted);

#endif

/*
 * Connections between ranks before, between and after collectives: each rank has one to rank 0,
 * which says where it listens in a file of the run's folder.  rccltune itself may have one too, and
 * sends steps there.  Both sides of each connection show that they know the token, of which the one
 * that connects says the first half and rank 0 the second.
 */
#ifndef RCCLTUNE_PERF_RENDEZVOUS_H
#define RCCLTUNE_PERF_RENDEZVOUS_H

#include "perf.h"

/* Waits until all ranks are there, and rccltune where `is_led`.  From then on a rank that is gone
 * ends this one too, also while it waits inside the library; so does rccltune, before
 * rendezvous_leave(). */
void rendezvous_start(const char *folder, int rank, int n_ranks, const char *token, bool is_led);

/* Copies rank 0's bytes to all ranks. */
void rendezvous_broadcast(void *data, size_t size);

/* Copies every rank's bytes to rank 0, in the order of ranks; `all` is written there alone. */
void rendezvous_gather(const void *mine, void *all, size_t size);

/* Sends this rank's text, of any length, to rank 0, which hands each to `take`, its own first. */
void rendezvous_collect(const char *text, size_t length,
                        void (*take)(int rank, const char *text, size_t length));

/* Whether all ranks say yes; each gets the same answer. */
bool rendezvous_agree(bool mine);

/* Of rank 0: the next line of rccltune without its end, or false where it closed the connection;
 * a line that is longer than `size` ends the program. */
bool rendezvous_read_line(char *line, size_t size);

/* Of rank 0: sends text to rccltune. */
void rendezvous_answer(const char *text, size_t length);

/* From here on who leaves is not gone. */
void rendezvous_leave(void);

/* Waits for all ranks and closes their connections. */
void rendezvous_end(void);

#endif

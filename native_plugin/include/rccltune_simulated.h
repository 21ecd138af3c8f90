/*
 * What the stand-in runtime and the stand-in library tell the rank program beside what the real
 * ones have: that times are simulated, and whose clock to read.
 */
#ifndef RCCLTUNE_SIMULATED_H
#define RCCLTUNE_SIMULATED_H

/* Of the runtime: microseconds of this rank's simulated clock.  It moves on when a stream is waited
 * for.  Whoever finds it reads it in place of the host's clock. */
double rccltune_simulated_clock_v1(void);

/* Of the runtime: a line that says what is simulated ("node mi300x-cpx-nps4, ..."). */
const char *rccltune_simulated_words_v1(void);

/* Of the stand-in library alone: from now on calls really move and reduce data (1), or only take
 * their time (0, at the start).  Where the runtime has a clock and the library lacks this function
 * kernels do not run, and no result can be checked. */
void rccltune_simulated_moves_v1(int moves);

#endif

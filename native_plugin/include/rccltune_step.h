/*
 * For a program that measures: which step of a schedule is in force, said by the program itself.
 *
 * A schedule with `advance=told` (docs/inside/schedule.md) is not moved on by the sizes of calls.
 * The program looks this function up in the library that its host has loaded already (dlopen of the
 * same file, dlsym) and calls it between passes, when none of its own calls is under way.  This
 * signature and meaning stay as they are; another one would get another number.
 */
#ifndef RCCLTUNE_STEP_H
#define RCCLTUNE_STEP_H

#include <stdint.h>

enum rccltune_step_result {
    RCCLTUNE_STEP_BACK = -1,   /* a communicator is at a later step already */
    RCCLTUNE_STEP_BEYOND = -2, /* the schedule has fewer steps */
};

/* Puts every communicator of this process that walks by a told schedule at `step`, from 0; those
 * made later begin there.  The number of steps itself ends the last one.  What the step before was
 * asked is in the trace when this returns.  The number of communicators that are there now, 0 where
 * none is alive; with a negative result nothing has moved. */
int rccltune_schedule_step_v1(uint32_t step);

#endif

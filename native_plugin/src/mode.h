/*
 * The partition mode of a GPU: how its compute dies are grouped (SPX … CPX) and how its memory is
 * split (NPS1 …).  Written `cpx-nps4`; `none` where a GPU has no partitions.
 *
 * The names are the amdgpu driver's (Linux drivers/gpu/drm/amd/amdgpu/amdgpu_gfx.c and _gmc.c).
 */
#ifndef RCCLTUNE_MODE_H
#define RCCLTUNE_MODE_H

#include "text.h"

enum compute_mode {
    COMPUTE_UNKNOWN = 0,
    COMPUTE_NONE, /* a GPU that cannot be partitioned */
    COMPUTE_SPX,
    COMPUTE_DPX,
    COMPUTE_TPX,
    COMPUTE_QPX,
    COMPUTE_CPX,
};

/* A mode; memory is the number in NPS<n>, 0 where it is unknown or there are no partitions. */
struct mode {
    uint8_t compute;
    uint8_t memory;
};

enum { MODE_TEXT_SIZE = 16 };

/* Whether both halves are known, so that a file name can be made of it. */
bool mode_is_known(struct mode mode);

/* Whether two modes are the same in both halves. */
bool mode_equal(struct mode a, struct mode b);

/* Reads SPX, DPX, TPX, QPX, CPX or NONE in any case; COMPUTE_UNKNOWN for anything else. */
uint8_t mode_compute(struct text text);

/* Reads NPS1 to NPS16 or nps1 to nps16; 0 for anything else. */
uint8_t mode_memory(struct text text);

/* Reads `cpx-nps4`, `none` or, where `half` is true, a compute mode alone.  False for anything
 * else. */
bool mode_parse(struct text text, bool half, struct mode *mode);

/* Writes `cpx-nps4`, `none`, or `cpx-?`, `?` where halves are unknown. */
const char *mode_text(struct mode mode, char buffer[MODE_TEXT_SIZE]);

/* The compute half in capitals: CPX, NONE, or ? */
const char *mode_compute_name(uint8_t compute);

#endif

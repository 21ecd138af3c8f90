/*
 * Element types of collectives: reading and writing them, exactly.  Reals are read into double,
 * which holds each of them, and rounded once, to nearest even; whole numbers into 64 bits, where
 * they wrap as in their own.  fp8 is AMD's own encoding on gfx942 (FNUZ: no infinities, one NaN)
 * and the Open Compute Project's elsewhere.
 */
#ifndef RCCLTUNE_SIM_NUMBER_H
#define RCCLTUNE_SIM_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Selects the fp8 of the device; first of all. */
void number_start(const char *arch);
bool dtype_is_real(int dtype);

void reals_read(int dtype, const void *in, size_t n, double *out);
void reals_write(int dtype, const double *in, size_t n, void *out);
void reals_round(int dtype, double *values, size_t n);
void reals_combine(int op, double *sum, const double *next, size_t n);

void wholes_read(int dtype, const void *in, size_t n, uint64_t *out);
void wholes_write(int dtype, const uint64_t *in, size_t n, void *out);
void wholes_combine(int op, int dtype, uint64_t *sum, const uint64_t *next, size_t n);
void wholes_divide(int dtype, uint64_t *sum, size_t n, int by);

#endif

/*
 * Matrix products on a stream of their own: what a GPU computes while collectives run.
 *
 * The BLAS that is there is opened by dlopen, cuBLAS or rocBLAS, as the runtime is; none of its
 * headers is needed.
 */
#ifndef RCCLTUNE_PERF_GEMM_H
#define RCCLTUNE_PERF_GEMM_H

#include "plan.h"

/* The stream that products run on, which waits for no other; NULL before gemm_start. */
extern void *gemm_stream;

/* Opens the BLAS (NULL: beside the runtime or the library, else where the system's loader finds
 * one) and says in the rows which it is, or ends the program saying what was looked for. */
void gemm_open(const char *file);

/* Makes the stream and the BLAS' handle, on this thread's device. */
void gemm_start(void);

/* Makes the operands of a step's products: random numbers, since equal ones draw less power. */
void gemm_take(const struct step *step);

/* Puts one product on the stream; NULL, or what failed. */
const char *gemm_put(void);

/* `gemm bf16 4096` */
void gemm_name(const struct step *step, char *text, size_t size);

#endif

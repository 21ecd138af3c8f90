/*
 * A stand-in for rocBLAS: what the rank program's products need of it.  Nothing is computed; a
 * product takes the time of a made-up GPU, and longer while collectives run (stream.c).
 */
#include <stdlib.h>

#include "machine.h"

/* rocblas-types.h of ROCm 5 to 7 */
enum { NO_OPERATION = 111, FLOAT_TYPE = 151 };
enum { SUCCESS = 0, INVALID_HANDLE = 1, NOT_IMPLEMENTED = 2, MEMORY = 5, INTERNAL = 6 };

/* Operations a µs. */
static const double in_float = 1e8, in_half = 5e8;

struct handle {
    void *stream;
};

EXPORT int rocblas_create_handle(struct handle **made)
{
    *made = calloc(1, sizeof **made);
    return *made != NULL ? SUCCESS : MEMORY;
}

EXPORT int rocblas_destroy_handle(struct handle *handle)
{
    free(handle);
    return SUCCESS;
}

EXPORT int rocblas_set_stream(struct handle *handle, void *stream)
{
    if (handle == NULL)
        return INVALID_HANDLE;
    handle->stream = stream;
    return SUCCESS;
}

EXPORT const char *rocblas_status_to_string(int status)
{
    return status == NOT_IMPLEMENTED ? "rocblas_status_not_implemented"
                                     : "a status of the stand-in BLAS";
}

EXPORT int rocblas_gemm_ex(struct handle *handle, int a_operation, int b_operation, int m, int n,
                           int k, const void *alpha, const void *a, int a_type, int lda,
                           const void *b, int b_type, int ldb, const void *beta, const void *c,
                           int c_type, int ldc, void *d, int d_type, int ldd, int compute_type,
                           int algorithm, int32_t solution, uint32_t flags)
{
    (void)alpha, (void)beta, (void)lda, (void)ldb, (void)ldc, (void)ldd, (void)algorithm;
    (void)solution, (void)flags, (void)b_type, (void)c_type, (void)d_type, (void)compute_type;
    if (handle == NULL)
        return INVALID_HANDLE;
    if (a_operation != NO_OPERATION || b_operation != NO_OPERATION || a == NULL || b == NULL ||
        c == NULL || d == NULL)
        return NOT_IMPLEMENTED;
    double operations = 2.0 * m * n * k;
    double us = operations / (a_type == FLOAT_TYPE ? in_float : in_half);
    return rccltune_machine_product(handle->stream, us) == HIP_OK ? SUCCESS : INTERNAL;
}

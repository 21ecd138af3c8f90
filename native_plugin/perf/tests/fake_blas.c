/* A cuBLAS that computes nothing: FAKE_BLAS is create or gemm, and what fails; FAKE_PRODUCTS names
 * a file that gets a line a product. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int is_fault(const char *name)
{
    const char *fault = getenv("FAKE_BLAS");
    return fault != NULL && strcmp(fault, name) == 0;
}

EXPORT int cublasCreate_v2(void **handle);
int cublasCreate_v2(void **handle)
{
    static int made;
    *handle = &made;
    return is_fault("create") ? 1 : 0;
}

EXPORT int cublasSetStream_v2(void *handle, void *stream);
int cublasSetStream_v2(void *handle, void *stream)
{
    return handle == NULL || stream == NULL;
}

EXPORT const char *cublasGetStatusString(int status);
const char *cublasGetStatusString(int status)
{
    return status == 1 ? "CUBLAS_STATUS_NOT_INITIALIZED" : "CUBLAS_STATUS_EXECUTION_FAILED";
}

/* Operands are random: of a constant one both halves would be equal. */
static int is_random(const void *operand, size_t bytes)
{
    return memcmp(operand, (const char *)operand + bytes / 2, bytes / 2) != 0;
}

EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                        const void *a, int ta_type, int lda, const void *b, int tb_type, int ldb,
                        const void *beta, void *c, int tc_type, int ldc, int compute, int algo);
int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                 const void *a, int ta_type, int lda, const void *b, int tb_type, int ldb,
                 const void *beta, void *c, int tc_type, int ldc, int compute, int algo)
{
    const char *path = getenv("FAKE_PRODUCTS");
    size_t bytes = (size_t)m * (size_t)n * (ta_type == 0 ? 4 : 2);
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%d %d %d %d\n", m, ta_type, compute, algo);
        fclose(file);
    }
    if (is_fault("gemm"))
        return 13;
    return handle == NULL || ta != 0 || tb != 0 || m != n || n != k || lda != m || ldb != m ||
           ldc != m || tb_type != ta_type || tc_type != ta_type || *(const float *)alpha != 1 ||
           *(const float *)beta != 0 || c == NULL || !is_random(a, bytes) || !is_random(b, bytes) ||
           memcmp(a, b, bytes) == 0;
}

#include "gemm.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"
#include "rows.h"

void *gemm_stream;

/* Numbers of cublas_api.h and library_types.h (CUDA 11 to 13): CUBLAS_OP_N, CUBLAS_COMPUTE_32F,
 * CUBLAS_GEMM_DEFAULT, cudaDataType_t; of rocblas-types.h (ROCm 5 to 7): rocblas_operation_none,
 * rocblas_gemm_algo_standard, rocblas_datatype. */
enum { CUBLAS_AS_IS = 0, CUBLAS_IN_FLOAT = 68, CUBLAS_ANY = -1 };
enum { ROCBLAS_AS_IS = 111, ROCBLAS_STANDARD = 0, ROCBLAS_FLOAT = 151 };

/* How a type is called by each, and how its bits lie: a random sign and fraction, and one of two
 * exponents, are a number of 0.25 to 1 or -0.25 to -1. */
static const struct {
    int cublas, rocblas;
    size_t bytes;
    unsigned fraction_bits, exponent; /* of 0.25, with the type's bias */
} types[N_PRODUCT_TYPES] = {
    [PRODUCT_BF16] = {14, 168, 2, 7, 125},
    [PRODUCT_HALF] = {2, 150, 2, 10, 13},
    [PRODUCT_FLOAT] = {0, 151, 4, 23, 125},
};

static struct {
    int (*create)(void **);
    int (*set_stream)(void *, void *);
    int (*set_workspace)(void *, void *, size_t); /* cuBLAS' alone; NULL where it has none */
    const char *(*words)(int);                    /* NULL in old ones */
    int (*cublas)(void *, int, int, int, int, int, const void *, const void *, int, int,
                  const void *, int, int, const void *, void *, int, int, int, int);
    int (*rocblas)(void *, int, int, int, int, int, const void *, const void *, int, int,
                   const void *, int, int, const void *, const void *, int, int, void *, int, int,
                   int, int, int32_t, uint32_t);
    void *handle;
} blas;

static struct {
    void *a, *b, *c;
    enum product_type type;
    int size; /* 0: none are there */
} operands;

/* In the order in which they are tried; the first of cuBLAS is the runtime's own number's. */
static char cublas_own[40];
static const char *const cublas_names[] = {cublas_own,        "libcublas.so.13", "libcublas.so.12",
                                           "libcublas.so.11", "libcublas.so",    NULL};
static const char *const rocblas_names[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so",
                                            NULL};
/* From the folder of the runtime or the library: beside it, or where wheels of PyTorch have it. */
static const char *const cublas_folders[] = {".", "../../cublas/lib", "../../cu13/lib", NULL};
static const char *const rocblas_folders[] = {".", "../../_rocm_sdk_libraries*/lib", NULL};

static const char *words_of(int result)
{
    return blas.words != NULL ? blas.words(result) : "it failed";
}

static void check_blas(int result, const char *what)
{
    if (result != 0)
        fail(EXIT_CALL, "%s: %s (error %d of the BLAS)", what, words_of(result), result);
}

/* The file that has this function; false where nobody knows. */
static bool file_of(void *function, char *path)
{
    Dl_info info;
    return dladdr(function, &info) != 0 && info.dli_fname != NULL &&
           realpath(info.dli_fname, path) != NULL;
}

static bool folder_of(void *function, char *folder)
{
    char *slash = file_of(function, folder) ? strrchr(folder, '/') : NULL;
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

/* libcudart.so.12.8.90 wants libcublas.so.12. */
static void name_own(void)
{
    static const char stem[] = "/libcudart.so.";
    char path[PATH_MAX];
    const char *at = file_of(*(void **)(&runtime.set_device), path) ? strstr(path, stem) : NULL;
    long number = at != NULL ? strtol(at + sizeof stem - 1, NULL, 10) : 0;
    if (number > 0)
        snprintf(cublas_own, sizeof cublas_own, "libcublas.so.%ld", number);
    else
        snprintf(cublas_own, sizeof cublas_own, "libcublas.so");
}

/* A file that is there and does not load says why, for the words of whoever finds none. */
static void *open_matching(const char *pattern, char *why, size_t size)
{
    glob_t found;
    void *handle = NULL;
    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && handle == NULL; i++) {
        handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        const char *said = handle == NULL ? dlerror() : NULL;
        if (said != NULL)
            snprintf(why, size, "; %s", said);
    }
    globfree(&found);
    return handle;
}

static void *open_beside(void *function, char *why, size_t size)
{
    char folder[PATH_MAX], pattern[PATH_MAX + 128];
    const char *const *folders = runtime.is_hip ? rocblas_folders : cublas_folders;
    void *handle = NULL;
    if (!folder_of(function, folder))
        return NULL;
    for (; *folders != NULL && handle == NULL; folders++) {
        const char *const *name = runtime.is_hip ? rocblas_names : cublas_names;
        for (; *name != NULL && handle == NULL; name++) {
            snprintf(pattern, sizeof pattern, "%s/%s/%s", folder, *folders, *name);
            handle = open_matching(pattern, why, size);
        }
    }
    return handle;
}

static void *find_blas(void)
{
    name_own();
    const char *const *name = runtime.is_hip ? rocblas_names : cublas_names;
    char why[PATH_MAX + 256] = "", tried[256] = "";
    void *handle = open_beside(*(void **)(&runtime.set_device), why, sizeof why);
    if (handle == NULL)
        handle = open_beside(*(void **)(&nccl.get_version), why, sizeof why);
    for (; *name != NULL && handle == NULL; name++) {
        size_t n = strlen(tried);
        snprintf(tried + n, sizeof tried - n, "%s%s", n > 0 ? ", " : "", *name);
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == NULL)
        fail(EXIT_LIBRARY,
             "no BLAS for the plan's products: looked for %s beside the runtime and the library, "
             "and where the system's loader looks%s. Install %s, or name its folder in "
             "LD_LIBRARY_PATH (rccltune-perf takes its file by --blas)",
             tried, why,
             runtime.is_hip ? "rocBLAS (package rocblas of ROCm)"
                            : "cuBLAS (of the CUDA toolkit, or pip install nvidia-cublas-cu12)");
    return handle;
}

static void *need(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL)
        fail(EXIT_LIBRARY, "the BLAS has no %s: name %s with --blas FILE", name,
             runtime.is_hip ? "a librocblas.so" : "a libcublas.so from CUDA 11 on");
    return symbol;
}

void gemm_open(const char *file)
{
    Dl_info info;
    void *handle = file != NULL ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : find_blas();
    if (handle == NULL)
        fail(EXIT_LIBRARY, "the BLAS does not load: %s", dlerror());
    bool hip = runtime.is_hip;
    void *create = need(handle, hip ? "rocblas_create_handle" : "cublasCreate_v2");
    *(void **)(&blas.create) = create;
    *(void **)(&blas.set_stream) = need(handle, hip ? "rocblas_set_stream" : "cublasSetStream_v2");
    if (hip)
        *(void **)(&blas.rocblas) = need(handle, "rocblas_gemm_ex");
    else
        *(void **)(&blas.cublas) = need(handle, "cublasGemmEx");
    *(void **)(&blas.set_workspace) = hip ? NULL : dlsym(handle, "cublasSetWorkspace_v2");
    *(void **)(&blas.words) =
        dlsym(handle, hip ? "rocblas_status_to_string" : "cublasGetStatusString");
    runtime_is_one(); /* a BLAS brings the runtime that it was linked to */
    bool is_known = dladdr(create, &info) != 0 && info.dli_fname != NULL;
    rows_remark("blas %s", is_known ? info.dli_fname : file != NULL ? file : "?");
}

static void *allocate(size_t bytes)
{
    void *made = NULL;
    int result = runtime.allocate(&made, bytes);
    if (result != 0)
        fail(EXIT_MEMORY, "%zu MiB of device memory for products: %s; smaller products need less",
             bytes >> 20, runtime.error_string(result));
    return made;
}

void gemm_start(void)
{
    /* What cuBLAS takes itself on this GPU; its own would be allocated anew while a graph is
     * captured. */
    enum { WORKSPACE = 32 << 20 };
    check_runtime(runtime.make_stream(&gemm_stream, STREAM_NON_BLOCKING), "StreamCreateWithFlags");
    check_blas(blas.create(&blas.handle), "the BLAS' handle");
    check_blas(blas.set_stream(blas.handle, gemm_stream), "the BLAS' stream");
    if (blas.set_workspace != NULL)
        check_blas(blas.set_workspace(blas.handle, allocate(WORKSPACE), WORKSPACE),
                   "the BLAS' workspace");
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill_random(char *text, size_t n, enum product_type type, uint64_t *state)
{
    unsigned width = 8 * (unsigned)types[type].bytes, f = types[type].fraction_bits;
    for (size_t i = 0; i < n; i++) {
        uint64_t drawn = draw(state) >> 16;
        uint32_t fraction = (uint32_t)drawn & ((1u << f) - 1);
        uint32_t exponent = types[type].exponent + (uint32_t)(drawn >> 32 & 1);
        uint32_t bits = (uint32_t)(drawn >> 33 & 1) << (width - 1) | exponent << f | fraction;
        uint16_t narrow = (uint16_t)bits;
        memcpy(text + i * types[type].bytes, width == 16 ? (void *)&narrow : (void *)&bits,
               types[type].bytes);
    }
}

/* A piece is drawn and copied until the operand is full: what repeats after a MiB draws as much
 * power as what never does. */
static void *make_operand(size_t bytes, enum product_type type, uint64_t *state)
{
    enum { PIECE = 1 << 20 };
    static char piece[PIECE];
    char *made = allocate(bytes);
    fill_random(piece, PIECE / types[type].bytes, type, state);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        check_runtime(runtime.copy(made + at, piece, n, COPY_TO_DEVICE, gemm_stream),
                      "MemcpyAsync");
    }
    check_runtime(runtime.wait(gemm_stream), "StreamSynchronize");
    return made;
}

static void release_operands(void)
{
    void *const each[] = {operands.a, operands.b, operands.c};
    for (size_t i = 0; i < 3 && operands.size > 0; i++)
        check_runtime(runtime.release(each[i]), "Free");
    operands.size = 0;
}

void gemm_take(const struct step *step)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    int size = step->product.size;
    if (operands.size == size && operands.type == step->product.type)
        return;
    release_operands();
    size_t bytes = (size_t)size * (size_t)size * types[step->product.type].bytes;
    operands.a = make_operand(bytes, step->product.type, &state);
    operands.b = make_operand(bytes, step->product.type, &state);
    operands.c = allocate(bytes);
    operands.type = step->product.type;
    operands.size = size;
    const char *failed = gemm_put(); /* the first one loads its kernel */
    if (failed != NULL)
        fail(EXIT_CALL, "%s", failed);
    check_runtime(runtime.wait(gemm_stream), "StreamSynchronize");
}

const char *gemm_put(void)
{
    static const float one = 1, zero = 0;
    static char said[160];
    int n = operands.size, result;
    if (blas.rocblas != NULL) {
        int type = types[operands.type].rocblas;
        result = blas.rocblas(blas.handle, ROCBLAS_AS_IS, ROCBLAS_AS_IS, n, n, n, &one, operands.a,
                              type, n, operands.b, type, n, &zero, operands.c, type, n, operands.c,
                              type, n, ROCBLAS_FLOAT, ROCBLAS_STANDARD, 0, 0);
    } else {
        int type = types[operands.type].cublas;
        result = blas.cublas(blas.handle, CUBLAS_AS_IS, CUBLAS_AS_IS, n, n, n, &one, operands.a,
                             type, n, operands.b, type, n, &zero, operands.c, type, n,
                             CUBLAS_IN_FLOAT, CUBLAS_ANY);
    }
    if (result == 0)
        return NULL;
    snprintf(said, sizeof said, "%s: %s (error %d of the BLAS)",
             blas.rocblas != NULL ? "rocblas_gemm_ex" : "cublasGemmEx", words_of(result), result);
    return said;
}

void gemm_name(const struct step *step, char *text, size_t size)
{
    snprintf(text, size, "gemm %s %d", product_names[step->product.type], step->product.size);
}

/*
 * Which library asks is known by its soname or its file's name, and its own number:
 * test_library NCCL RCCL RENAMED FRAMEWORK.
 */
#include "check.h"
#include "library.h"

#include <dlfcn.h>

static void expect_text(const char *family, const char *release, const char *wanted)
{
    struct library library;
    char buffer[LIBRARY_TEXT_SIZE];
    bool good = library_parse(text_of(family), text_of(release), &library);
    CHECK(good == (wanted[0] != '\0'));
    if (good) {
        CHECK_STRING(library_text(&library, buffer), wanted);
    }
}

static void check_words(void)
{
    static const char *const bad[] = {"",        "2",      "2.28",     "2.28.9.1", "2.28.100",
                                      "2.x.9",   "2..9",   "2.28.9-1", "2.28.9+b", "-2.28.9",
                                      "2.28.9.", "2.+8.9", "100.28.9", "v2.28.9"};
    struct library one;
    struct library other;
    expect_text("NCCL", "2.28.9", "NCCL 2.28.9");
    expect_text("RCCL", "2.7.08", "RCCL 2.7.8");
    expect_text("nccl", "2.28.9", "");
    expect_text("RCCLX", "2.28.9", "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_text("NCCL", bad[i], "");
    }
    CHECK(library_parse(text_of("NCCL"), text_of("2.28.9"), &one));
    CHECK(library_parse(text_of("RCCL"), text_of("2.28.9"), &other));
    CHECK(library_equal(&one, &one) && !library_equal(&one, &other));
    CHECK(library_parse(text_of("NCCL"), text_of("2.28.3"), &other) &&
          !library_equal(&one, &other));
}

/* An address inside the object: that of its logger, as hosts hand it over. */
static const void *address_in(const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(object != NULL);
    return object == NULL ? NULL : dlsym(object, "fake_logger");
}

static void expect_at(const void *address, const char *code, const char *wanted)
{
    struct library library;
    char buffer[LIBRARY_TEXT_SIZE];
    (void)setenv("FAKE_LIBRARY_CODE", code, 1);
    library_at(address, &library);
    CHECK_STRING(library_text(&library, buffer), wanted);
}

int main(int argc, char **argv)
{
    int local = 0;
    CHECK(argc == 5);
    check_words();
    const void *nccl = address_in(argv[1]);
    const void *rccl = address_in(argv[2]);
    const void *renamed = address_in(argv[3]);
    const void *framework = address_in(argv[4]);
    expect_at(nccl, "22809", "NCCL 2.28.9");
    expect_at(nccl, "2708", "NCCL 2.7.8"); /* until 2.8 with three digits less */
    expect_at(nccl, "21005", "NCCL 2.10.5");
    expect_at(nccl, "0", "?");
    expect_at(nccl, "-1", "?");              /* it fails */
    expect_at(rccl, "22809", "RCCL 2.28.9"); /* beside an NCCL of the same number */
    expect_at(renamed, "23007", "NCCL 2.30.7");
    expect_at(framework, "22809", "?");
    expect_at(NULL, "22809", "?");
    expect_at(&local, "22809", "?");                   /* in no object at all */
    expect_at((const void *)address_in, "22809", "?"); /* in this program */
    return check_result();
}

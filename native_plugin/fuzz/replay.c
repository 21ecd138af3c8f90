/* Runs a fuzz target's body over files and folders, without clang: the corpus as an ordinary test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUT = 1 << 20 };

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MAX_INPUT);
    int done = 0;
    if (file != NULL && data != NULL) {
        size_t size = fread(data, 1, MAX_INPUT, file);
        uint8_t *exact = malloc(size + 1); /* so that a sanitizer sees a read beyond the end */
        for (size_t i = 0; exact != NULL && i < size; i++) {
            exact[i] = data[i];
        }
        if (exact != NULL) {
            (void)LLVMFuzzerTestOneInput(exact, size);
            done = 1;
        }
        free(exact);
    }
    free(data);
    if (file != NULL) {
        (void)fclose(file);
    }
    return done;
}

int main(int argc, char **argv)
{
    char path[4096];
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *directory = opendir(argv[i]);
        const struct dirent *entry;
        while (directory != NULL && (entry = readdir(directory)) != NULL) {
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            n += entry->d_name[0] != '.' ? replay_file(path) : 0;
        }
        if (directory != NULL) {
            (void)closedir(directory);
        }
    }
    (void)printf("%d inputs replayed\n", n);
    return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

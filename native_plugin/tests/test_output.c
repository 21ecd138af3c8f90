/* Buffers, file names and appends. */
#include "check.h"
#include "names.h"
#include "output.h"
#include "sysroot.h"
#include "tree.h"

#include <math.h>
#include <unistd.h>

static void check_names_of_files(void)
{
    char name[OUTPUT_PATH_SIZE];
    char wanted[64];
    CHECK(output_name("/a/%p-%c-100%%.csv", "0123", 7, name, sizeof name));
    (void)snprintf(wanted, sizeof wanted, "/a/%ld-0123-100%%.csv", (long)getpid());
    CHECK_STRING(name, wanted);
    CHECK(output_name("%h", "c", 7, name, sizeof name) && name[0] != '\0' &&
          strchr(name, '%') == NULL);
    CHECK(output_name("%c-%n", "c", 7, name, sizeof name));
    CHECK_STRING(name, "c-7");
    CHECK(!output_name("x%q", "c", 7, name, sizeof name));
    CHECK(!output_name("x%", "c", 7, name, sizeof name));
    CHECK(!output_name("", "c", 7, name, sizeof name));
    CHECK(!output_name("too long", "c", 7, name, 4));
}

static void read_back(const char *root, const char *name, char *buffer, size_t size)
{
    struct sysroot at;
    struct text content = {buffer, 0};
    CHECK(sysroot_open(root, &at) == READ_OK);
    CHECK(sysroot_read(&at, name, buffer, size - 1, &content) == READ_OK);
    buffer[content.left] = '\0';
    sysroot_close(&at);
}

static void check_appends(void)
{
    char root[256];
    char path[512];
    char buffer[256];
    tree_make(root, sizeof root);
    (void)snprintf(path, sizeof path, "%s/out.csv", root);
    CHECK(output_append(path, "head\n", text_of("")) == NULL);
    CHECK(output_append(path, "head\n", text_of("a\n")) == NULL);
    CHECK(output_append(path, "head\n", text_of("b\n")) == NULL);
    read_back(root, "out.csv", buffer, sizeof buffer);
    CHECK_STRING(buffer, "head\na\nb\n");
    CHECK_STRING(output_append(path, "other\n", text_of("c\n")),
                 "it is there, and holds something else");
    CHECK(tree_put(root, "empty", "")); /* as mktemp leaves one */
    (void)snprintf(path, sizeof path, "%s/empty", root);
    CHECK(output_append(path, "head\n", text_of("a\n")) == NULL);
    read_back(root, "empty", buffer, sizeof buffer);
    CHECK_STRING(buffer, "head\na\n");
    (void)snprintf(path, sizeof path, "%s/missing/out.csv", root);
    CHECK_STRING(output_append(path, "head\n", text_of("a\n")), "there is no such folder");
    CHECK_STRING(output_append(root, "head\n", text_of("a\n")), "it is no regular file");
    CHECK_STRING(output_append("/dev/full", "", text_of("a\n")), "it is no regular file");
    tree_remove(root);
}

/* Links at the names of drafts, and in the place of what is replaced: their targets stay. */
static void check_links(void)
{
    char root[256];
    char path[512];
    char link_path[600];
    char victim[512];
    char buffer[256];
    tree_make(root, sizeof root);
    CHECK(tree_put(root, "victim", "precious"));
    (void)snprintf(victim, sizeof victim, "%s/victim", root);
    (void)snprintf(path, sizeof path, "%s/out.csv", root);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(link_path, sizeof link_path, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        CHECK(symlink(victim, link_path) == 0);
    }
    CHECK(output_append(path, "head\n", text_of("a\n")) == NULL);
    read_back(root, "out.csv", buffer, sizeof buffer);
    CHECK_STRING(buffer, "head\na\n");
    (void)snprintf(path, sizeof path, "%s/replaced", root);
    CHECK(symlink(victim, path) == 0);
    CHECK_STRING(output_append(path, "precious", text_of("a\n")),
                 "it is a symbolic link, and none is followed");
    CHECK(output_replace(path, text_of("new")) == NULL);
    read_back(root, "replaced", buffer, sizeof buffer);
    CHECK_STRING(buffer, "new");
    read_back(root, "victim", buffer, sizeof buffer);
    CHECK_STRING(buffer, "precious");
    (void)snprintf(path, sizeof path, "%s/missing/replaced", root);
    CHECK_STRING(output_replace(path, text_of("new")), "there is no such folder");
    CHECK_STRING(output_replace(root, text_of("new")), "it is no regular file");
    tree_remove(root);
}

static bool refuse(void *argument, const char *name)
{
    (void)name;
    ++*(int *)argument;
    return false;
}

static void check_reads(void)
{
    char root[256];
    char small[4];
    struct sysroot at;
    struct text content;
    int calls = 0;
    tree_make(root, sizeof root);
    (void)tree_put(root, "d/file", "0123456789");
    (void)tree_put(root, "d/other", "");
    CHECK(sysroot_open(root, &at) == READ_OK);
    CHECK(sysroot_read(&at, "d/file", small, sizeof small, &content) == READ_FAILED &&
          content.left == 0);
    CHECK(sysroot_read(&at, "d", small, sizeof small, &content) == READ_FAILED);
    CHECK(sysroot_read(&at, "d/none", small, sizeof small, &content) == READ_MISSING);
    CHECK(sysroot_read(&at, "d/file/none", small, sizeof small, &content) == READ_MISSING);
    CHECK(sysroot_list(&at, "d", refuse, &calls) == READ_OK && calls == 1);
    CHECK(sysroot_list(&at, "none", refuse, &calls) == READ_MISSING && calls == 1);
    sysroot_close(&at);
    tree_remove(root);
}

int main(void)
{
    check_names_of_files();
    check_appends();
    check_links();
    check_reads();
    return check_result();
}

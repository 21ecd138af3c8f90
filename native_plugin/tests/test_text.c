/* The cursor, the names and the modes: what is read, and what is refused. */
#include "check.h"
#include "mode.h"
#include "names.h"
#include "sha256.h"
#include "text.h"

static void check_lines(void)
{
    struct text rest = text_of("a\r\n\nlast");
    struct text line;
    CHECK(text_next_line(&rest, &line) && text_is(text_trim(line), "a"));
    CHECK(text_next_line(&rest, &line) && line.left == 0);
    CHECK(text_next_line(&rest, &line) && text_is(line, "last"));
    CHECK(!text_next_line(&rest, &line));
    rest = text_of(NULL);
    CHECK(!text_next_line(&rest, &line));
}

static void check_fields(void)
{
    struct text rest = text_of(" a ,, b,");
    struct text field;
    bool more = true;
    CHECK(text_next_field(&rest, ',', &more, &field) && text_is(field, "a"));
    CHECK(text_next_field(&rest, ',', &more, &field) && text_is(field, ""));
    CHECK(text_next_field(&rest, ',', &more, &field) && text_is(field, "b"));
    CHECK(text_next_field(&rest, ',', &more, &field) && text_is(field, "") && !more);
    CHECK(!text_next_field(&rest, ',', &more, &field));
}

static void check_words(void)
{
    struct text rest = text_of("  one\ttwo ");
    struct text word;
    struct text before;
    struct text after;
    char buffer[4];
    CHECK(text_next_word(&rest, &word) && text_is(word, "one"));
    CHECK(text_next_word(&rest, &word) && text_is(word, "two"));
    CHECK(!text_next_word(&rest, &word));
    CHECK(text_split(text_of("k=v=w"), '=', &before, &after) && text_is(before, "k") &&
          text_is(after, "v=w"));
    CHECK(!text_split(text_of(""), '=', &before, &after));
    CHECK(text_is_in_any_case(text_of("CpX"), "cpx") && !text_is_in_any_case(text_of("CpX"), "cp"));
    CHECK(!text_is_in_any_case(text_of("abc"), "abd"));
    CHECK(text_copy(text_of("abc"), buffer, sizeof buffer) && strcmp(buffer, "abc") == 0);
    CHECK(!text_copy(text_of("abcd"), buffer, sizeof buffer) && buffer[0] == '\0');
    CHECK(!text_copy(text_of(""), buffer, 0));
    rest = text_of("xy");
    CHECK(text_skip(&rest, "") && !text_skip(&rest, "xyz") && text_skip(&rest, "x") &&
          rest.left == 1);
}

static void check_numbers(void)
{
    uint64_t u = 0;
    int64_t s = 0;
    CHECK(text_unsigned(text_of("18446744073709551615"), &u) == TEXT_NUMBER_OK && u == UINT64_MAX);
    CHECK(text_unsigned(text_of("18446744073709551616"), &u) == TEXT_NUMBER_TOO_BIG);
    CHECK(text_unsigned(text_of("99999999999999999999999999"), &u) == TEXT_NUMBER_TOO_BIG);
    CHECK(text_unsigned(text_of("0007"), &u) == TEXT_NUMBER_OK && u == 7);
    const char *const none[] = {"", "-", "+1", "1 2", "4K", "0x10", "1.5", "１"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(text_unsigned(text_of(none[i]), &u) == TEXT_NUMBER_NONE);
        CHECK(text_signed(text_of(none[i]), &s) == TEXT_NUMBER_NONE);
    }
    CHECK(text_signed(text_of("-9223372036854775807"), &s) == TEXT_NUMBER_OK && s == -INT64_MAX);
    CHECK(text_signed(text_of("9223372036854775808"), &s) == TEXT_NUMBER_TOO_BIG);
    CHECK(text_hex(text_of("0x74A1"), &u) == TEXT_NUMBER_OK && u == 0x74a1);
    CHECK(text_hex(text_of("0Xff"), &u) == TEXT_NUMBER_OK && u == 255);
    CHECK(text_hex(text_of("0x"), &u) == TEXT_NUMBER_NONE);
}

static void check_names(void)
{
    int number = 0;
    CHECK(collective_number(text_of("allreduce")) == 4 &&
          collective_number(text_of("AllReduce")) == -1);
    CHECK(collective_is_untunable(text_of("alltoall")) &&
          !collective_is_untunable(text_of("allreduce")));
    CHECK(algorithm_number(text_of("pat"), &number) && number == 6);
    CHECK(algorithm_number(text_of("-1"), &number) && number == LEAVE_TO_HOST);
    CHECK(!algorithm_number(text_of("none"), &number));
    CHECK(protocol_number(text_of("ll128"), &number) && number == 1);
    CHECK(!protocol_number(text_of("LL"), &number));
    CHECK_STRING(algorithm_name(-1), "-1");
    CHECK_STRING(protocol_name(-1), "-1");
    CHECK_STRING(protocol_name(2), "simple");
    CHECK_STRING(algorithm_name(7), "?");
    CHECK_STRING(collective_name(3), "reducescatter");
}

static void check_modes(void)
{
    char buffer[MODE_TEXT_SIZE];
    struct mode mode = {0, 0};
    CHECK(mode_parse(text_of("cpx-nps4"), false, &mode));
    CHECK_STRING(mode_text(mode, buffer), "cpx-nps4");
    CHECK(mode_parse(text_of("CPX"), true, &mode) && !mode_is_known(mode));
    CHECK_STRING(mode_text(mode, buffer), "cpx-?");
    CHECK(mode_parse(text_of("none"), false, &mode) && mode_is_known(mode));
    CHECK_STRING(mode_text(mode, buffer), "none");
    CHECK_STRING(mode_compute_name(COMPUTE_TPX), "TPX");
    const char *const bad[] = {"",          "cpx",      "cpx-",      "cpx-nps",    "cpx-nps0",
                               "cpx-nps99", "zpx-nps1", "none-nps1", "cpx-nps4-x", "nps4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!mode_parse(text_of(bad[i]), false, &mode));
    }
    CHECK(!mode_equal((struct mode){COMPUTE_CPX, 1}, (struct mode){COMPUTE_CPX, 4}));
}

/* FIPS 180-4's own examples, and lengths around the block boundary against their neighbours. */
static void check_sha256(void)
{
    char digest[SHA256_TEXT_SIZE];
    sha256_text(text_of("abc"), digest);
    CHECK_STRING(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_text(text_of(""), digest);
    CHECK_STRING(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_text(text_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), digest);
    CHECK_STRING(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char block[65];
    memset(block, 'a', 64);
    block[64] = '\0';
    sha256_text(text_of(block), digest);
    CHECK_STRING(digest, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

int main(void)
{
    check_lines();
    check_fields();
    check_words();
    check_numbers();
    check_names();
    check_modes();
    check_sha256();
    return check_result();
}

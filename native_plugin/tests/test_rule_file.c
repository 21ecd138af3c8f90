/* The reader: every tolerated form, every error, every warning. */
#include "check.h"
#include "names.h"
#include "rule_file.h"

#define ROW "allreduce,0,1024,tree,ll,-1,1,64,-1,-1"

/* Parses one text and checks how many rules, errors and warnings it gives; `code` is the first
 * finding's. */
static void expect(const char *content, size_t n_rules, size_t n_errors, size_t n_warnings,
                   const char *code)
{
    struct rule_file file;
    CHECK(rule_file_parse(text_of(content), &file));
    bool right =
        file.n_rules == n_rules && file.n_errors == n_errors && file.n_warnings == n_warnings &&
        (code == NULL || (file.n_findings > 0 && strcmp(file.findings[0].code, code) == 0));
    if (!right) {
        (void)fprintf(stderr, "'%s': %zu rules, %zu errors, %zu warnings, %s\n", content,
                      file.n_rules, file.n_errors, file.n_warnings,
                      file.n_findings > 0 ? file.findings[0].message : "no finding");
        check_failures++;
    }
    CHECK(rule_file_is_usable(&file, false) == (n_errors == 0));
    CHECK(rule_file_is_usable(&file, true) == (n_errors + n_warnings == 0));
    rule_file_free(&file);
}

static void check_tolerated_forms(void)
{
    expect("\n", 0, 0, 0, NULL);
    expect("# nothing yet", 0, 0, 0, NULL);
    expect(ROW, 1, 0, 0, NULL);
    expect(ROW "\r\n" ROW "\r\n", 2, 0, 0, NULL);
    expect("\xef\xbb\xbf" ROW "\n", 1, 0, 0, NULL);
    expect("# a comment\n  # another\n\n \t\n" ROW "\n", 1, 0, 0, NULL);
    expect(ROW "   # a comment, with commas, after a row\n", 1, 0, 0, NULL);
    expect("  allreduce , 0 , 1024 , tree , ll , -1 , 1 , 64 \n", 1, 0, 0, NULL);
    expect("allreduce,0,1024,tree,ll,-1,1,64,2\n", 1, 0, 0, NULL);
    expect("allreduce,0,1024,tree,ll,-1,1,64,\n", 1, 0, 0, NULL);
    expect("allreduce,0,1024,tree,ll,-1,1,64,,1\n", 1, 0, 0, NULL);
    expect("allreduce,0,18446744073709551615,-1,-1,16,-1,-1\n", 1, 0, 0, NULL);
    expect("allreduce,0,1,ring,ll,0,1,2,-1,-1,-1,-1\n", 1, 0, 0, NULL);
    expect("#@ hole 1 2 not measured\n#@\n#@ simulated\n" ROW, 1, 0, 0, NULL);
    expect("#@ bits trees-1\n#@ bits  trees-1\n" ROW, 1, 0, 0, NULL);
    expect("#@ library NCCL 2.28.9\n \t#@  library\tNCCL  2.28.09 \r\n" ROW, 1, 0, 0, NULL);
    expect("#@ requires product=A100-SXM4-40GB\n#@ requires product=NVIDIA-A100-SXM4-40GB\n", 0, 0,
           0, NULL);
}

static void check_errors(void)
{
    expect("wrongtype,8,65536,ring,simple,-1,-1,-1\n", 0, 1, 0, "unknown-collective");
    expect("AllReduce,8,65536,ring,simple,-1,-1,-1\n", 0, 1, 0, "unknown-collective");
    expect("allreduce,8,65536,badring,simple,-1,-1,-1\n", 0, 1, 0, "unknown-algorithm");
    expect("allreduce,8,65536,ring,LL,-1,-1,-1\n", 0, 1, 0, "unknown-protocol");
    expect("allreduce,8,65536,none,none,-1,-1,-1\n", 0, 2, 0, "unknown-algorithm");
    expect("allreduce,8,65536,-1,simple,-1,-1,-1\n", 0, 1, 0, "half-setting");
    expect("allreduce,8,65536,ring,-1,-1,-1,-1\n", 0, 1, 0, "half-setting");
    expect("allreduce,9,8,ring,ll,-1,-1,-1\n", 0, 1, 0, "min-above-max");
    expect("allreduce,abc,def,ring,ll,xyz,-1,-1\n", 0, 3, 0, "not-a-number");
    expect("allreduce,8,128M,ring,ll,-1,-1,-1\n", 0, 1, 0, "not-a-number");
    expect("allreduce,,8,ring,ll,-1,-1,-1\n", 0, 1, 0, "not-a-number");
    expect("allreduce,-1,8,ring,ll,-1,-1,-1\n", 0, 1, 0, "number-range");
    expect("allreduce,0,18446744073709551616,ring,ll,-1,-1,-1\n", 0, 1, 0, "number-range");
    expect("allreduce,0,8,ring,ll,-2,-1,-1\n", 0, 1, 0, "number-range");
    expect("allreduce,0,8,ring,ll,2147483648,-1,-1\n", 0, 1, 0, "number-range");
    expect("allreduce,0,8,ring,ll,-1,99999999999999999999,-1\n", 0, 1, 0, "number-range");
    expect("allreduce,8,128M,ring\n", 0, 1, 0, "too-few-fields");
    expect("just some prose\n", 0, 1, 0, "too-few-fields");
    expect(",,,,,,,,,,\n", 0, 1, 0, "too-few-fields");
    expect("#@ format 2\n" ROW "\n#@ end 1", 1, 1, 0, "bad-format");
    expect("#@ format\n#@ end 0", 0, 1, 0, "bad-format");
    expect("#@ requires colour=red\n" ROW, 1, 1, 0, "bad-requires");
    expect("#@ requires arch\n", 0, 1, 0, "bad-requires");
    expect("#@ requires arch=\n", 0, 1, 0, "bad-requires");
    expect("#@ requires arch=averyveryverylongname\n", 0, 1, 0, "bad-requires");
    expect("#@ requires compute=ZPX\n", 0, 1, 0, "bad-requires");
    expect("#@ requires cus=0 device=0x1ffffffff\n", 0, 2, 0, "bad-requires");
    expect("#@ requires compute=CPX\n#@ requires compute=SPX\n", 0, 1, 0, "bad-requires");
    expect("#@ requires arch=gfx942\n#@ requires arch=gfx950\n", 0, 1, 0, "bad-requires");
    expect("#@ requires product=\n", 0, 1, 0, "bad-requires");
    expect("#@ requires product=NVIDIA-H200\n#@ requires product=NVIDIA-H100\n", 0, 1, 0,
           "bad-requires");
    expect("#@ bits\n" ROW, 1, 1, 0, "bad-bits");
    expect("#@ bits one two\n" ROW, 1, 1, 0, "bad-bits");
    expect("#@ bits one\n#@ bits two\n", 0, 1, 0, "bad-bits");
    expect("#@ library\n" ROW, 1, 1, 0, "bad-library");
    expect("#@ library NCCL\n", 0, 1, 0, "bad-library");
    expect("#@ library NCCL 2.28\n", 0, 1, 0, "bad-library");
    expect("#@ library MCCL 2.28.9\n", 0, 1, 0, "bad-library");
    expect("#@ library NCCL 2.28.9 or newer\n", 0, 1, 0, "bad-library");
    expect("#@ library NCCL 2.28.9\n#@ library NCCL 2.28.3\n", 0, 1, 0, "bad-library");
    expect("#@ library NCCL 2.28.9\n#@ library RCCL 2.28.9\n", 0, 1, 0, "bad-library");
    expect("\x7f"
           "ELF\n",
           0, 1, 0, "not-text");
}

/* Files of ours, which end with the number of their rows. */
static void check_ends(void)
{
    struct rule_file file;
    static const char whole[] =
        "#@ format 1\n" ROW "\nalltoall,0,8,ring,ll,-1,-1,-1\n" ROW " # why\n#@ end 3\n";
    expect(whole, 2, 0, 1, NULL);
    expect("# above\n#@format 1\r\n" ROW "\r\n  #@ end 01\r\n\n# below\n", 1, 0, 0, NULL);
    expect("#@ format 1\n#@ end 0", 0, 0, 0, NULL);
    expect(ROW "\n#@ end 1\n", 1, 0, 0, NULL);
    expect("", 0, 1, 0, "cut");
    expect("\xef\xbb\xbf", 0, 1, 0, "cut");
    expect("#@ forma", 0, 1, 0, "cut");
    expect("#@ format 1\n" ROW "\n", 1, 1, 0, "cut");
    expect("#@ format 1\n" ROW "\n#@ end 2\n", 1, 1, 0, "cut");
    expect("#@ format 1\n" ROW "\n" ROW "\n#@ end 1\n", 2, 1, 0, "cut");
    expect("#@ format 1\n" ROW "\n#@ end 1\n" ROW "\n", 2, 1, 0, "cut");
    expect("#@ format 1\n" ROW "\n#@ end 1\n#@ end 2\n", 1, 1, 0, "cut");
    expect(ROW "\n#@ end one\n", 1, 1, 0, "cut");
    expect(ROW "\n#@ end 1 1\n", 1, 1, 0, "cut");
    expect(ROW "\n#@ end 18446744073709551617\n", 1, 1, 0, "cut");
    for (size_t n = 0; n < sizeof whole - 2; n++) { /* cut anywhere but before the last line feed */
        CHECK(rule_file_parse((struct text){whole, n}, &file));
        CHECK(!rule_file_is_usable(&file, false));
        rule_file_free(&file);
    }
    CHECK(rule_file_parse(text_of(ROW "\n#@ end 32\n" ROW), &file));
    CHECK_STRING(
        file.findings[0].message,
        "it has 2 rows, and '#@ end 2' is not the last line: the file was cut, or edited by "
        "hand (then write that line)");
    CHECK(file.findings[0].line == 3);
    rule_file_free(&file);
}

static void check_warnings(void)
{
    expect("collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,"
           "numPipeOps,regBuff\n" ROW,
           1, 0, 1, "header-row");
    expect("alltoall,0,8,ring,ll,-1,-1,-1\n" ROW, 1, 0, 1, "untunable-collective");
    expect("broadcast,0,8,tree,simple,-1,-1,-1\n" ROW, 1, 0, 1, "tree-not-allreduce");
    expect("allreduce,0,8,ring,ll,-1,-1,-1,-1,-1,weird,-1\n" ROW, 1, 0, 1, "unknown-field");
    expect("allreduce,0,8,ring,ll,-1,-1,-1,-1,-1,cpx,3\n" ROW, 1, 0, 1, "unknown-field");
    expect("allreduce,0,8,ring,ll,-1,-1,-1,-1,-1,cpx,-1,9\n" ROW, 1, 0, 1, "unknown-field");
}

static void check_values(void)
{
    struct rule_file file;
    CHECK(rule_file_parse(text_of("#@ requires arch=gfx942 device=0x74a1 cus=38\n"
                                  "#@ requires compute=CPX memory=NPS4 placement=one-oam cus=38\n"
                                  "#@ requires product=H200\n#@ library RCCL 2.27.7\n"
                                  "#@ needs RCCL_LL128_FORCE_ENABLE=1\n#@ needs nothing\n"
                                  "allgather,5,6,collnet_chain,ll128,7,8,9,10,11,cpx-nps4\n"),
                          &file));
    CHECK(file.n_rules == 1 && file.n_errors == 0 && file.n_needs == 1);
    const struct rule *rule = &file.rules[0];
    CHECK(rule->collective == 2 && rule->min_bytes == 5 && rule->max_bytes == 6 &&
          rule->algorithm == 3);
    CHECK(rule->protocol == 1 && rule->channels == 7 && rule->n_nodes == 8 && rule->n_ranks == 9);
    CHECK(rule->n_pipe_ops == 10 && rule->reg_buff == 11 && rule->line == 7);
    CHECK(rule->only_mode.compute == COMPUTE_CPX && rule->only_mode.memory == 4);
    const struct requirement *wanted = &file.requirement;
    CHECK(wanted->line == 3 && wanted->device == 0x74a1 && wanted->n_cus == 38);
    CHECK(wanted->mode.compute == COMPUTE_CPX && wanted->mode.memory == 4);
    CHECK_STRING(wanted->arch, "gfx942");
    CHECK_STRING(wanted->placement, "one-oam");
    CHECK_STRING(wanted->product, "NVIDIA-H200");
    CHECK(file.library.family == LIBRARY_RCCL && file.library.major == 2 &&
          file.library.minor == 27 && file.library.patch == 7);
    CHECK(text_is(file.needs[0].name, "RCCL_LL128_FORCE_ENABLE") &&
          text_is(file.needs[0].value, "1"));
    rule_file_free(&file);
    CHECK(rule_file_parse(text_of("allreduce,0,8,ring,ll,4,1,8\n"), &file));
    CHECK(file.rules[0].n_pipe_ops == -1 && file.rules[0].reg_buff == -1);
    CHECK(file.rules[0].only_mode.compute == COMPUTE_UNKNOWN);
    rule_file_free(&file);
}

static void check_limits(void)
{
    struct rule_file file;
    char *many = calloc(RULE_FILE_MAX_RULES + 2, 32);
    CHECK(many != NULL);
    char *at = many;
    for (size_t i = 0; many != NULL && i < RULE_FILE_MAX_RULES + 2; i++) {
        at += sprintf(at, "reduce,0,8,ring,ll,-1,-1,-1\n");
    }
    CHECK(rule_file_parse((struct text){many, (size_t)(at - many)}, &file));
    CHECK(file.n_rules == RULE_FILE_MAX_RULES && file.n_errors == 1);
    CHECK_STRING(file.findings[0].code, "too-many-rules");
    rule_file_free(&file);
    at = many;
    for (size_t i = 0; many != NULL && i < 1000; i++) {
        at += sprintf(at, "bad\n#@ needs A=%zu\n", i);
    }
    CHECK(rule_file_parse((struct text){many, (size_t)(at - many)}, &file));
    CHECK(file.n_errors == 1000 && file.n_findings == RULE_FILE_MAX_FINDINGS);
    CHECK(file.n_needs == RULE_FILE_MAX_NEEDS);
    rule_file_free(&file);
    free(many);
    CHECK(rule_file_parse((struct text){"a\0b", 3}, &file) && file.n_errors == 1);
    rule_file_free(&file);
}

int main(void)
{
    check_tolerated_forms();
    check_errors();
    check_ends();
    check_warnings();
    check_values();
    check_limits();
    return check_result();
}

#!/usr/bin/env bash
# Every check of the C plugin, one after another:  native_plugin/run-checks.sh [--long]
#
# Short, each compiler and each sanitizer has one tree; with --long also gcc and clang as developers
# build, and valgrind.  A step whose tool is missing is skipped, and says so.  Build trees go to $RCCLTUNE_BUILD_ROOT, or to a
# temporary folder that is removed at the end.
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fuzz_seconds=3
long=
[ "${1:-}" = --long ] && long=1 fuzz_seconds=60
coverage_floor=95
hip_coverage_floor=85 # by its own tests, where no real RCCL calls the rest
jobs=${RCCLTUNE_JOBS:-2}
failed=()

build_root=${RCCLTUNE_BUILD_ROOT:-}
if [ -z "$build_root" ]; then
    build_root=$(mktemp -d)
    trap 'rm -rf "$build_root"' EXIT
fi
# A job's own settings must not reach the tests.
unset NCCL_TUNER_CONFIG_FILE ${!RCCLTUNE_@}

step() {
    local name=$1 log start=$SECONDS
    shift
    log=$build_root/step.log
    if "$@" >"$log" 2>&1; then
        printf '   ok    %-44s %3d s  %s\n' "$name" $((SECONDS - start)) "$(grep '^note: ' "$log" | tail -1)"
    else
        printf '   FAIL  %-44s %3d s\n' "$name" $((SECONDS - start))
        tail -60 "$log"
        failed+=("$name")
    fi
}

skip() {
    printf '   skip  %-44s        %s\n' "$1" "$2"
}

have() {
    command -v "$1" >/dev/null
}

# clang alone is not enough: its sanitizer and fuzzer runtimes come in another package.
clang_links() {
    have clang && echo "$2" | clang -x c "-fsanitize=$1" - -o "$build_root/probe" 2>/dev/null
}

generator=()
have ninja && generator=(-G Ninja)

# build PRESET [CMAKE OPTION…]
build() {
    local folder=$build_root/$1
    (cd "$source_dir" && cmake --preset "$1" -B "$folder" "${generator[@]}" "${@:2}") &&
        cmake --build "$folder" -j "$jobs"
}

build_and_test() {
    build "$@" && (cd "$build_root/$1" && ctest --output-on-failure -j "$jobs") &&
        echo "note: $(cd "$build_root/$1" && ctest -N | tail -1)"
}

check_format() {
    cd "$source_dir" && clang-format --dry-run -Werror ./*/*.[ch]
}

# Optimised, so that the compiler sees what it warns of then alone.
build_alone() {
    build release -DRCCLTUNE_WERROR=ON && cmake --install "$build_root/release" --component plugin \
        --prefix "$build_root/installed" &&
        test -f "$build_root/installed/lib/rccltune/librccl-tuner-rccltune.so" &&
        test -f "$build_root/installed/lib/rccltune/buildinfo.json"
}

library=$build_root/release/librccl-tuner-rccltune.so

check_exports() {
    local exported
    exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort | tr '\n' ' ')
    echo "exports: $exported"
    [ "$exported" = "ncclTunerPlugin_v2 ncclTunerPlugin_v3 ncclTunerPlugin_v4 ncclTunerPlugin_v5 ncclTunerPlugin_v6 ncclTunerPlugin_v7 rccltune_answer_v1 rccltune_asked_v1 rccltune_cost_v1 rccltune_questions_v1 " ]
}

# 2.17 is older than any system ROCm supports.  NEEDED must be libc alone.
check_needs() {
    local newest needed
    newest=$(objdump -p "$library" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -V | tail -1)
    needed=$(objdump -p "$library" | awk '/NEEDED/ {print $2}' | tr '\n' ' ')
    echo "newest glibc symbol: $newest; needs: $needed"
    echo "note: newest symbol GLIBC_$newest"
    ! objdump -p "$library" | grep -q GLIBC_ABI && [ "$needed" = "libc.so.6 " ] &&
        [ "$(printf '%s\n2.17\n' "$newest" | sort -V | tail -1)" = 2.17 ]
}

# Without the tests whose only news is size: they repeat the same code a hundred thousand times.
# Nor the forks: what other threads held at that moment is lost in the child, as fork has it.
check_valgrind() {
    build valgrind && cd "$build_root/valgrind" &&
        ctest --output-on-failure -j "$jobs" -E '^(rule_table|rule_file|fork)$'
}

# Without the sizes here too, which are nobody's race. Ranks, each with one thread beside it, take two minutes.
check_threads() {
    local left_out='rule_table|rule_file'
    [ -n "$long" ] || left_out+='|perf_ranks'
    build tsan && cd "$build_root/tsan" && ctest --output-on-failure -j "$jobs" -E "^($left_out)\$"
}

check_coverage() {
    build_and_test coverage && cd "$build_root/coverage" &&
        gcovr --root "$source_dir" --filter "$source_dir/src/" --fail-under-line "$coverage_floor" . &&
        echo "note: lines $(gcovr --root "$source_dir" --filter "$source_dir/src/" . | awk '/^TOTAL/ {print $4}')"
}

fuzz() {
    local corpus=$build_root/corpus-$1
    mkdir -p "$corpus"
    (cd "$build_root" && "asan/fuzz/fuzz_$1" -max_total_time="$fuzz_seconds" -timeout=10 \
        -rss_limit_mb=2048 -dict="$source_dir/fuzz/$1.dict" -print_final_stats=1 \
        "$corpus" "$source_dir/fuzz/corpus/$1") 2>&1 | tee "$build_root/fuzz.log" &&
        echo "note: $(grep -o 'number_of_executed_units: .*' "$build_root/fuzz.log")"
}

# Atomic, as in CMakeLists.txt: its threads would otherwise lose counts, and gcovr refuses negative ones.
check_hip_coverage() {
    local counted=(gcovr --root "$source_dir" --filter "$source_dir/hip/[^/]*\.c")
    check_hip coverage -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS=--coverage -fprofile-update=atomic" &&
        cd "$build_root/hip-coverage" && "${counted[@]}" --fail-under-line "$hip_coverage_floor" . &&
        echo "note: lines $("${counted[@]}" . | awk '/^TOTAL/ {print $4}')"
}

# The stand-in HIP runtime is a project of its own: check_hip NAME [CMAKE OPTION…].
check_hip() {
    local folder=$build_root/hip-$1
    shift
    cmake -S "$source_dir/hip" -B "$folder" "${generator[@]}" "$@" &&
        cmake --build "$folder" -j "$jobs" && (cd "$folder" && ctest --output-on-failure)
}

# So is the stand-in library, which has the runtime below it: check_sim NAME [CMAKE OPTION…]. No comma in the
# folder's name: it becomes a search path of the linker.
check_sim() {
    local folder=$build_root/sim-$1
    shift
    cmake -S "$source_dir/sim" -B "$folder" "${generator[@]}" "$@" &&
        cmake --build "$folder" -j "$jobs" && (cd "$folder" && ctest --output-on-failure)
}

if ! have cmake; then
    skip "everything" "cmake is not installed"
    exit 0
fi
step "release: build and install by cmake alone" build_alone
if have nm && have objdump; then
    step "exports: six symbols" check_exports
    step "needs: libc up to GLIBC_2.17" check_needs
else
    skip "exports and needs" "nm or objdump is not installed"
fi
if have clang-format && clang-format --version | grep -q 'version 14\.'; then
    step "format" check_format
else
    skip "format" "clang-format 14 is not installed"
fi
if [ -n "$long" ]; then
    step "dev: strict warnings, ctest" build_and_test dev
    step "stand-in HIP runtime" check_hip plain
    step "stand-in library" check_sim plain
    if have clang; then
        step "dev-clang: strict warnings, ctest" build_and_test dev-clang
    else
        skip "dev-clang" "clang is not installed"
    fi
    if have valgrind; then
        step "valgrind" check_valgrind
    else
        skip "valgrind" "valgrind is not installed"
    fi
else
    skip "dev, dev-clang, valgrind" "with --long; the trees below compile and run the same"
fi
fuzzer=
clang_links fuzzer 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n){(void)d;(void)n;return 0;}' && fuzzer=1
if clang_links address,undefined 'int main(void){return 0;}'; then
    step "asan: address and undefined behaviour" build_and_test asan ${fuzzer:+-DRCCLTUNE_FUZZ=ON}
    step "stand-in HIP runtime: asan" check_hip asan -DCMAKE_C_COMPILER=clang \
        -DRCCLTUNE_HIP_SANITIZE=address,undefined
    step "stand-in library: asan" check_sim asan -DCMAKE_C_COMPILER=clang \
        -DRCCLTUNE_SIM_SANITIZE=address,undefined
else
    fuzzer=
    skip "asan" "clang or its sanitizer runtime is not installed"
    [ -n "$long" ] || step "stand-in HIP runtime" check_hip plain
    step "stand-in library" check_sim plain
fi
if [ -n "$fuzzer" ]; then
    for reader in rules detector; do
        step "fuzz: $reader, $fuzz_seconds s" fuzz "$reader"
    done
else
    skip "fuzz" "clang or its libFuzzer runtime is not installed"
fi
if clang_links thread 'int main(void){return 0;}'; then
    step "tsan: threads" check_threads
    step "stand-in HIP runtime: tsan" check_hip tsan -DCMAKE_C_COMPILER=clang -DRCCLTUNE_HIP_SANITIZE=thread
else
    skip "tsan" "clang or its sanitizer runtime is not installed"
fi
if have gcovr && have gcov; then
    step "coverage: gcc, ctest, at least $coverage_floor % of lines" check_coverage
    step "stand-in HIP runtime: coverage" check_hip_coverage
else
    skip "coverage" "gcovr or gcov is not installed; gcc's tests run without it"
    [ -n "$long" ] || step "dev: strict warnings, ctest" build_and_test dev
fi

if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi

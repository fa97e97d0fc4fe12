/* ONNX Runtime reports home by default: it starts a thread, leaves files in the home directory and
 * in /tmp, and looks hosts up. A child process with nothing in its environment against that uses
 * the engine and must show none of it. */
#include "engine/onnxruntime/onnxruntime.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/tiny_onnx.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { EXECUTORS = 2 };

static int count_entries(const char *folder) {
    DIR *directory = opendir(folder);
    if (!directory)
        return -1;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static int count_sockets(void) {
    int count = 0;
    for (int i = 0; i < 256; i++) {
        struct stat about;
        count += fstat(i, &about) == 0 && S_ISSOCK(about.st_mode);
    }
    return count;
}

/* In the child: 0 or the number of the line that found something. */
static int use_engine(void) {
    int sockets_before = count_sockets();
    int threads_before = count_entries("/proc/self/task"); /* a sanitizer may have one */
    struct tt_ort_library *library = bench_library();
    static struct bench bench;
    bench_init(&bench);
    struct tt_error why;
    struct tt_engine *engine;
    struct tt_engine_options options = {EXECUTORS, 1, bench_done, &bench};
    if (tt_ort_engine_open(library, &options, &engine, &why))
        return __LINE__;
    struct tt_text file = tiny_onnx_unary("Neg", TINY_FLOAT, TINY_DIMS(-1, 2));
    struct tt_ort_model_options model_options = {
        .bytes = file.bytes, .size_bytes = file.length, .batched = true, .max_batch = 1};
    struct tt_engine_model *model;
    if (tt_ort_engine_load(engine, &model_options, &model, &why))
        return __LINE__;
    const float values[2] = {1, 2};
    struct tt_tensor_view input = {values, sizeof(values), {2, {1, 2}}};
    struct tt_engine_member member = {.rows = 1, .inputs = &input};
    struct tt_engine_task task = {.model = model, .member_count = 1, .members = &member};
    bench_run(&bench, &task);
    if (member.err)
        return __LINE__;
    usleep(200000); /* time for a thread to begin something */
    if (count_entries("/proc/self/task") != threads_before + EXECUTORS)
        return __LINE__;
    if (count_sockets() != sockets_before)
        return __LINE__;
    engine->ops->result_release(member.result);
    engine->ops->unload(model);
    engine->ops->close(engine);
    tt_ort_library_close(library);
    return count_entries("/proc/self/task") == threads_before ? 0 : __LINE__;
}

static void test_no_thread_no_file_no_socket(void **state) {
    (void)state;
    char home[] = "/tmp/tutti-home-XXXXXX";
    assert_non_null(mkdtemp(home));
    struct stat before = {0}, after = {0};
    int missing_before = stat("/tmp/.ses", &before);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsetenv("ORT_DISABLE_TELEMETRY");
        unsetenv("XDG_CACHE_HOME");
        unsetenv("XDG_DATA_HOME");
        setenv("HOME", home, 1);
        int line = use_engine();
        if (line)
            fprintf(stderr, "%s:%d\n", __FILE__, line);
        _exit(line != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(count_entries(home), 0);
    assert_int_equal(stat("/tmp/.ses", &after), missing_before);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    assert_int_equal(rmdir(home), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_thread_no_file_no_socket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
